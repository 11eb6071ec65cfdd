"""Every WAP tool that takes a path, called with one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

INSERT = [{"type": "insert", "afterLine": 0, "newContent": "evil"}]
ON_PATH: dict[str, Callable[[str], dict[str, Any]]] = {
    "exploreFiles": lambda path: {"path": path},
    "exploreFiles recursive": lambda path: {"path": path, "recursive": True, "returnMetadata": True},
    "readFile": lambda path: {"path": path},
    "readFile range": lambda path: {"path": path, "startLine": 1, "endLine": 2},
    "readFile base64": lambda path: {"path": path, "encoding": "base64"},
    "writeFile": lambda path: {"path": path, "content": "evil"},
    "writeFile create": lambda path: {"path": path, "content": "evil", "mode": "create", "createDirectories": True},
    "writeFile append": lambda path: {"path": path, "content": "evil", "mode": "append"},
    "modifyFile": lambda path: {"path": path, "operations": INSERT},
    "searchFiles": lambda path: {"paths": [path], "query": "secret", "type": "literal"},
    "searchFiles regex": lambda path: {"paths": [path], "query": "s.cret", "type": "regex"},
    "executeCommand": lambda path: {"command": "cat secret; touch evil", "workingDirectory": path},
    "deleteFile": lambda path: {"path": path, "recursive": True},
    "moveFile from": lambda path: {"source": path, "destination": "stolen"},
    "moveFile to": lambda path: {"source": "inside.txt", "destination": path, "overwrite": True},
    "copyFile from": lambda path: {"source": path, "destination": "stolen"},
    "copyFile to": lambda path: {"source": "inside.txt", "destination": path, "overwrite": True},
    "createDirectory": lambda path: {"path": path},
}
