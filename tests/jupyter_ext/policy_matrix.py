"""The policy matrix as data: what each preset says to each deed on each kind of closed path, and all tools that do it.

A cell is about a deed, not about a tool, so that it is the same in every dialect.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

DENIED, SIZE = "PERMISSION_DENIED", "SIZE_LIMIT_EXCEEDED"

READING = ("list", "read", "search", "copy")
CHANGING = ("append", "overwrite", "edit", "make folder", "move", "delete")
SIZED = ("read", "append", "edit", "copy")
"""What a file that is there already can be too large for."""

# What is closed: a file and a folder of each kind.
PLACES: Mapping[str, tuple[str, str]] = {
    "denied": ("server.pem", "keys.pem"),
    "read-only": ("locked/a.txt", "locked"),
    "protected": (".cws-policy.json", ".git"),
    "oversize": ("big.txt", "."),
}

EXPECTED: Mapping[str, Mapping[str, Mapping[str, str]]] = {
    "permissive": {
        "denied": dict.fromkeys((*READING, *CHANGING), DENIED),
        "read-only": dict.fromkeys(CHANGING, DENIED),
        "protected": dict.fromkeys(CHANGING, DENIED),
        "oversize": dict.fromkeys(SIZED, SIZE),
    },
    "standard": {
        "denied": dict.fromkeys((*READING, *CHANGING), DENIED),
        "read-only": dict.fromkeys(CHANGING, DENIED),
        "protected": dict.fromkeys(("list", *CHANGING), DENIED),  # its folder is .git, denied besides
        "oversize": dict.fromkeys(SIZED, SIZE),
    },
    "restrictive": {
        "denied": dict.fromkeys((*READING, *CHANGING), DENIED),
        "read-only": dict.fromkeys(("copy", *CHANGING), DENIED),
        "protected": dict.fromkeys((*READING, *CHANGING), DENIED),  # hidden files are denied
        "oversize": {"read": SIZE, **dict.fromkeys(("copy", *CHANGING), DENIED)},
    },
}
"""The code of a refusal; what is not named is done."""


class Call(NamedTuple):
    dialect: str
    tool: str
    deed: str
    fields: Mapping[str, Any]
    """FILE and FOLDER stand for those of the place."""

    def at(self, place: str) -> dict[str, Any]:
        file, folder = PLACES[place]
        found: dict[str, Any] = json.loads(json.dumps(self.fields).replace("FILE", file).replace("FOLDER", folder))
        return found


_INSERT = [{"type": "insert", "afterLine": 0, "newContent": "x"}]
_NEW = {"overwrite": True}

CALLS = (
    Call("wap", "exploreFiles", "list", {"path": "FOLDER"}),
    Call("wap", "readFile", "read", {"path": "FILE"}),
    Call("wap", "searchFiles", "search", {"paths": ["FILE"], "query": "secret", "type": "literal"}),
    Call("wap", "writeFile", "append", {"path": "FILE", "content": "more", "mode": "append"}),
    Call("wap", "writeFile", "overwrite", {"path": "FILE", "content": "more", "mode": "overwrite"}),
    Call("wap", "modifyFile", "edit", {"path": "FILE", "operations": _INSERT}),
    Call("wap", "createDirectory", "make folder", {"path": "FOLDER/new"}),
    Call("wap", "copyFile", "copy", {"source": "FILE", "destination": "copied.txt", **_NEW}),
    Call("wap", "moveFile", "move", {"source": "FILE", "destination": "moved.txt", **_NEW}),
    Call("wap", "deleteFile", "delete", {"path": "FILE"}),
    Call("wap", "getWorkspaceInfo", "describe", {}),
    Call("interface", "read", "read", {"file_path": "/workspace/FILE"}),
    Call("interface", "read", "list", {"file_path": "/workspace/FOLDER"}),
    Call("interface", "write", "overwrite", {"file_path": "/workspace/FILE", "content": "more"}),
    Call("interface", "edit", "edit", {"file_path": "FILE", "old_string": "secret", "new_string": "x"}),
    Call("interface", "glob", "list", {"path": "/workspace/FOLDER", "pattern": "*"}),
    Call("interface", "grep", "search", {"path": "/workspace/FILE", "pattern": "secret"}),
    Call("agent spaces", "readFile", "read", {"path": "FILE"}),
    Call("agent spaces", "createFile", "overwrite", {"path": "FILE", "content": "more", **_NEW}),
    Call("agent spaces", "editFile", "edit", {"path": "FILE", "edits": [{"oldContent": "secret", "newContent": "x"}]}),
    Call("agent spaces", "deleteFile", "delete", {"path": "FILE"}),
    Call("agent spaces", "message", "describe", {"content": "hello"}),
    Call("mcp", "readFile", "read", {"path": "FILE"}),
    Call("mcp", "listFiles", "list", {"path": "FOLDER"}),
    Call("mcp", "writeFile", "overwrite", {"path": "FILE", "contents": "more"}),
    Call("mcp", "editFile", "edit", {"path": "FILE", "oldText": "secret", "newText": "x"}),
    Call("mcp", "deleteFile", "delete", {"path": "FILE"}),
    Call("mcp", "globFiles", "list", {"path": "FOLDER", "pattern": "*"}),
    Call("mcp", "getWorkspaceInfo", "describe", {}),
)
"""`searchFiles` over MCP is left out: it names no file, and what is closed is no part of its answer."""


class Refusal(NamedTuple):
    code: str
    text: str


def of_rest(status: int, body: Mapping[str, Any]) -> Refusal | None:
    return None if status == 200 else Refusal(body["code"], body["error"])


def of_event(event: Mapping[str, Any]) -> Refusal | None:
    """The event of a denial has no code; the rule tells which it is."""
    if event["type"] != "policyDenied":
        assert event.get("success", True), event
        return None
    return Refusal(SIZE if event["rule"] == "maxFileSize" else DENIED, event["reason"])
