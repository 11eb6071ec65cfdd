"""The policy matrix as data: what each preset says to each deed on each kind of closed path, and all tools that do it.

A cell is about a deed, not about a tool, so that it is the same in every dialect.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from typing import Any, NamedTuple

DENIED, SIZE = "PERMISSION_DENIED", "SIZE_LIMIT_EXCEEDED"
HELD = "it runs, and the sandbox holds it: nothing changes, and nothing is told that may not be read"
LEFT_OUT = "it is done, and what is closed is no part of the answer"
UNSIZED = "maxFileSize binds the file tools; what git and commands do with a file is bounded by the sandbox's limits"

READING = ("list", "read", "search", "copy", "read notebook", "git show", "git add")
CHANGING = tuple("append,overwrite,edit,make folder,move,delete,edit notebook,git restore,run a line".split(","))
RUNNING = ("git show", "git add", "git restore", "run a line", "run a program")
"""What needs a shell."""
SIZED = ("read", "append", "edit", "copy", "read notebook", "edit notebook")
"""What a file that is there already can be too large for."""


class Place(NamedTuple):
    """A file, a folder and a notebook that are closed in the same way."""

    file: str
    folder: str
    notebook: str


PLACES: Mapping[str, Place] = {
    "denied": Place("server.pem", "keys.pem", "keys.pem/book.ipynb"),
    "read-only": Place("locked/a.txt", "locked", "locked/book.ipynb"),
    "protected": Place(".cws-policy.json", ".git", ".git/book.ipynb"),
    "oversize": Place("big.txt", ".", "big.ipynb"),
}

EXPECTED: Mapping[str, Mapping[str, Mapping[str, str]]] = {
    "permissive": {
        "denied": {**dict.fromkeys((*READING, *CHANGING), DENIED), "run a program": HELD, "search all": LEFT_OUT},
        "read-only": {**dict.fromkeys(CHANGING, DENIED), "run a program": HELD},
        "protected": {**dict.fromkeys(CHANGING, DENIED), "run a program": HELD},
        "oversize": {**dict.fromkeys(SIZED, SIZE), **dict.fromkeys(RUNNING, UNSIZED)},
    },
    "standard": {
        "denied": {**dict.fromkeys((*READING, *CHANGING), DENIED), "run a program": HELD, "search all": LEFT_OUT},
        "read-only": {**dict.fromkeys(CHANGING, DENIED), "run a program": HELD},
        # Its folder and its notebook are in .git, which is denied besides.
        "protected": {**dict.fromkeys(("list", "read notebook", *CHANGING), DENIED), "run a program": HELD},
        "oversize": {**dict.fromkeys(SIZED, SIZE), **dict.fromkeys(RUNNING, UNSIZED)},
    },
    "restrictive": {  # no shell; and hidden files are denied
        "denied": {**dict.fromkeys((*READING, *CHANGING, *RUNNING), DENIED), "search all": LEFT_OUT},
        "read-only": dict.fromkeys(("copy", *CHANGING, *RUNNING), DENIED),
        "protected": {**dict.fromkeys((*READING, *CHANGING, *RUNNING), DENIED), "search all": LEFT_OUT},
        "oversize": {
            **dict.fromkeys(("read", "read notebook"), SIZE),
            **dict.fromkeys(("copy", *CHANGING, *RUNNING), DENIED),
        },
    },
}
"""The code of a refusal, or what else comes of it; what is not named is done."""


def expect_cells(preset: str, place: str, *, layered: bool) -> Mapping[str, str]:
    """Return the cells of a place. On a layer the words of a line are not judged for what it writes, its effect is."""
    cells = EXPECTED[preset][place]
    if layered and preset != "restrictive" and cells.get("run a line") == DENIED:
        return {**cells, "run a line": HELD}
    return cells


class Call(NamedTuple):
    dialect: str
    tool: str
    deed: str
    fields: Mapping[str, Any]
    """FILE, FOLDER and NOTEBOOK stand for those of the place."""

    def at(self, place: str) -> dict[str, Any]:
        text = json.dumps(self.fields)
        for name, path in PLACES[place]._asdict().items():
            text = text.replace(name.upper(), path)
        found: dict[str, Any] = json.loads(text)
        return found


_INSERT = [{"type": "insert", "afterLine": 0, "newContent": "x"}]
_NEW = {"overwrite": True}
_CELL = [{"type": "insert", "source": "x"}]
_LINE = "cat FILE; echo more >> FILE; rm -f FILE"
_PROGRAM = """import os
for deed in (
    lambda: print(open('FILE').read()),
    lambda: open('FILE', 'a').write('more'),
    lambda: os.rename('FILE', 'elsewhere'),
):
    try:
        deed()
    except OSError as error:
        print(type(error).__name__)
"""
"""The same as the line, which nobody sees before it runs."""
_PYTHON = f"python3 -c {shlex.quote(_PROGRAM)}"

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
    Call("wap", "readNotebook", "read notebook", {"path": "NOTEBOOK"}),
    Call("wap", "modifyNotebook", "edit notebook", {"path": "NOTEBOOK", "operations": _CELL}),
    Call("wap", "executeCommand", "run a line", {"command": _LINE}),
    Call("wap", "executeCommand", "run a program", {"command": _PYTHON}),
    Call("wap", "getWorkspaceInfo", "describe", {}),
    Call("interface", "read", "read", {"file_path": "/workspace/FILE"}),
    Call("interface", "read", "list", {"file_path": "/workspace/FOLDER"}),
    Call("interface", "write", "overwrite", {"file_path": "/workspace/FILE", "content": "more"}),
    Call("interface", "edit", "edit", {"file_path": "FILE", "old_string": "secret", "new_string": "x"}),
    Call("interface", "glob", "list", {"path": "/workspace/FOLDER", "pattern": "*"}),
    Call("interface", "grep", "search", {"path": "/workspace/FILE", "pattern": "secret"}),
    Call("interface", "git", "git add", {"action": "add", "files": ["FILE"]}),
    Call("interface", "git", "git restore", {"action": "restore", "files": ["FILE"]}),
    Call("interface", "git", "git show", {"action": "show", "ref": "HEAD:FILE"}),
    Call("interface", "bash", "run a line", {"command": _LINE}),
    Call("interface", "bash", "run a program", {"command": _PYTHON}),
    Call("agent spaces", "readFile", "read", {"path": "FILE"}),
    Call("agent spaces", "createFile", "overwrite", {"path": "FILE", "content": "more", **_NEW}),
    Call("agent spaces", "editFile", "edit", {"path": "FILE", "edits": [{"oldContent": "secret", "newContent": "x"}]}),
    Call("agent spaces", "deleteFile", "delete", {"path": "FILE"}),
    Call("agent spaces", "shell", "run a line", {"command": _LINE}),
    Call("agent spaces", "shell", "run a program", {"command": _PYTHON}),
    Call("agent spaces", "message", "describe", {"content": "hello"}),
    Call("mcp", "readFile", "read", {"path": "FILE"}),
    Call("mcp", "listFiles", "list", {"path": "FOLDER"}),
    Call("mcp", "writeFile", "overwrite", {"path": "FILE", "contents": "more"}),
    Call("mcp", "editFile", "edit", {"path": "FILE", "oldText": "secret", "newText": "x"}),
    Call("mcp", "deleteFile", "delete", {"path": "FILE"}),
    Call("mcp", "createDirectory", "make folder", {"path": "FOLDER/new"}),
    Call("mcp", "copyFile", "copy", {"source": "FILE", "destination": "copied.txt", **_NEW}),
    Call("mcp", "moveFile", "move", {"source": "FILE", "destination": "moved.txt", **_NEW}),
    Call("mcp", "globFiles", "list", {"path": "FOLDER", "pattern": "*"}),
    Call("mcp", "searchFiles", "search all", {"query": "secret-of"}),
    Call("mcp", "readNotebook", "read notebook", {"path": "NOTEBOOK"}),
    Call("mcp", "editNotebook", "edit notebook", {"path": "NOTEBOOK", "edits": _CELL}),
    Call("mcp", "git", "git restore", {"action": "restore", "files": ["FILE"]}),
    Call("mcp", "git", "git show", {"action": "show", "ref": "HEAD:FILE"}),
    Call("mcp", "runCommand", "run a program", {"command": "python3", "args": ["-c", _PROGRAM]}),
    Call("mcp", "runOperations", "read", {"operations": [{"type": "readFile", "path": "FILE"}]}),
    Call("mcp", "runOperations", "run a line", {"operations": [{"type": "shell", "command": _LINE}]}),
    Call("mcp", "getWorkspaceInfo", "describe", {}),
)
WITHOUT_A_PATH = dict.fromkeys(
    (("mcp", "getRun"), ("mcp", "getOutput"), ("mcp", "cancelRun")),
    "it takes the id of a run, which the caller has started",
)
"""Tools that no column is about."""
