"""Every tool with every argument, and every error code: one table that each MCP client is driven through."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import mcp_types as types
from mcp import Client
from mcp.shared.exceptions import MCPError

from tests.support.git_repository import plain
from wap_kernel.dialects import json_schema
from wap_kernel.dialects.coding_environment.tools import TOOLS

Outcome = dict[str, Any]
"""`{"answer": ...}` or `{"code": -32602, "data": ...}`."""
LAST_RUN = "$runId"
"""Stands for the run that was named last."""
URL = "https://git.example/o/n.git"


def _hash(text: str) -> str:
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def _ok(tool: str, arguments: dict[str, Any], **expected: Any) -> tuple[str, dict[str, Any], Outcome]:
    return tool, arguments, {"answer": expected}


def _refused(
    tool: str, arguments: dict[str, Any], code: int, name: str, **data: Any
) -> tuple[str, dict[str, Any], Outcome]:
    return tool, arguments, {"code": code, "data": {"code": name, **data}}


def _failed(tool: str, arguments: dict[str, Any], name: str) -> tuple[str, dict[str, Any], Outcome]:
    return tool, arguments, {"data": {"code": name}}


_CREATE = {
    "type": "createFile",
    "id": "one",
    "path": "batch.txt",
    "content": "b25l",
    "encoding": "base64",
    "overwrite": True,
}
_EDIT = {
    "type": "editFile",
    "path": "batch.txt",
    "edits": [{"oldContent": "one", "newContent": "two"}],
    "expectedHash": _hash("one"),
}
_CELL = {"cell_type": "raw", "id": "a", "metadata": {}, "source": ["one"]}
_NOTEBOOK = json.dumps({"cells": [_CELL], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}, indent=1)
_SHELL = {
    **{"type": "shell", "id": "print", "command": "cat ../batch.txt; echo $A", "cwd": "src", "env": {"A": "b"}},
    **{"timeout": 60000, "isolation": "shared"},
}

CALLS: tuple[tuple[str, dict[str, Any], Outcome], ...] = (
    _ok("getWorkspaceInfo", {"workspaceRoot": "src"}, workspaceRoot="src"),
    _ok(
        "writeFile",
        {
            "workspaceRoot": "src",
            "path": "new/a.py",
            "contents": "x = 1\n",
            "options": {"atomic": True, "createIfMissing": True, "confirmed": True},
        },
        path="new/a.py",
        size=6,
        hash=_hash("x = 1\n"),
    ),
    _ok(
        "writeFile",
        {"path": "src/new/a.py", "contents": "x = 1\n", "options": {"expectedHash": _hash("x = 1\n")}},
        hash=_hash("x = 1\n"),
    ),
    _ok(
        "readFile",
        {"workspaceRoot": "src/new", "path": "a.py"},
        **{"path": "a.py", "size": 6, "hash": _hash("x = 1\n"), "isBinary": False, "content": "x = 1\n"},
    ),
    _ok("readFile", {"path": "bytes"}, isBinary=True, content="AP8="),
    _ok(
        "readFile",
        {"path": "src/new/a.py", "startLine": 1, "endLine": 1},
        **{"content": "x = 1\n", "startLine": 1, "endLine": 1, "totalLines": 1},
    ),
    _ok("createDirectory", {"workspaceRoot": "src", "path": "made/deep", "confirmed": True}, path="made/deep"),
    _ok(
        "copyFile",
        {
            **{"workspaceRoot": "src", "source": "new/a.py", "destination": "made/b.py"},
            **{"overwrite": True, "createIfMissing": True, "confirmed": True},
        },
        path="made/b.py",
    ),
    _ok(
        "moveFile",
        {
            **{"workspaceRoot": "src", "source": "made/b.py", "destination": "made/c.py"},
            **{"overwrite": True, "createIfMissing": True, "confirmed": True},
        },
        path="made/c.py",
    ),
    _ok("deleteFile", {"path": "src/made", "recursive": True}, deleted=True),
    _ok(
        "listFiles",
        {"workspaceRoot": ".", "path": "src", "options": {"recursive": True, "globs": ["**/*.py"], "maxEntries": 5}},
        count=1,
    ),
    _ok(
        "searchFiles",
        {
            "workspaceRoot": "src",
            "query": "^x\\s=",
            "options": {"regex": True, "caseSensitive": True, "globs": ["**/*.py"], "maxResults": 5},
        },
        results=[{"path": "new/a.py", "line": 1, "column": 1, "text": "x = 1"}],
    ),
    _ok(
        "editFile",
        {
            "workspaceRoot": "src",
            "path": "new/a.py",
            "edits": [{"oldText": "1", "newText": "2", "replaceAll": True}],
            "expectedHash": _hash("x = 1\n"),
            "confirmed": True,
        },
        hash=_hash("x = 2\n"),
    ),
    _ok(
        "editFile",
        {"path": "src/new/a.py", "oldText": "2", "newText": "3", "replaceAll": True},
        hash=_hash("x = 3\n"),
    ),
    _ok(
        "globFiles",
        {"workspaceRoot": "src", "pattern": "*.py", "path": "new", "maxResults": 5},
        pattern="*.py",
        count=1,
    ),
    _ok("writeFile", {"path": "src/work.ipynb", "contents": _NOTEBOOK}, path="src/work.ipynb"),
    _ok(
        "readNotebook",
        {"workspaceRoot": "src", "path": "work.ipynb", "cellIds": ["a"], "includeOutputs": False},
        **{"path": "work.ipynb", "cells": [{"id": "a", "type": "raw", "source": "one"}], "count": 1, "total": 1},
    ),
    _ok(
        "editNotebook",
        {
            "workspaceRoot": "src",
            "path": "work.ipynb",
            "edits": [
                {"type": "replace", "cellId": "a", "source": "two", "cellType": "markdown"},
                {"type": "insert", "cellType": "code", "source": "3", "cellId": "b", "afterCell": "a"},
                {"type": "insert", "source": "4", "cellId": "c", "beforeCell": "b"},
                {"type": "move", "cellId": "a", "afterCell": "b"},
                {"type": "move", "cellId": "c", "beforeCell": "a"},
                {"type": "delete", "cellId": "c"},
            ],
            "expectedHash": _hash(_NOTEBOOK),
            "confirmed": True,
        },
        path="work.ipynb",
    ),
    _ok("readNotebook", {"path": "src/work.ipynb"}, total=2),
    _ok(
        "runCommand",
        {
            "workspaceRoot": "asking",
            "command": "sh",
            "args": ["-c", "pwd | tail -c 7; echo $A"],
            "options": {"cwd": ".", "env": {"A": "b"}, "timeout": 60, "isolation": "shared", "confirmed": True},
        },
        exitCode=0,
        isolation="shared",
        stdout="asking\nb\n",
    ),
    _ok(
        "runOperations",
        {
            "protocolVersion": "1.0",
            "operations": [_CREATE, _EDIT, {"type": "message", "content": "done"}],
            "atomic": True,
            "dryRun": False,
            "wait": 60,
        },
        status="completed",
    ),
    _ok("runOperations", {"operations": [_SHELL], "wait": 60}, status="completed"),
    _ok("getRun", {"runId": LAST_RUN, "wait": 60}, status="completed"),
    _ok(
        "getOutput",
        {"runId": LAST_RUN, "operationId": "print", "stream": "stdout", "offset": 3, "limit": 10},
        **{"content": "b\n", "totalBytes": 5, "isComplete": True},
    ),
    _failed("cancelRun", {"runId": LAST_RUN}, "CONFLICT"),
    _ok("git", {"action": "status", "workspaceRoot": ".", "workdir": "src"}, branch="main", exitCode=0),
    _ok("git", {"action": "commit", "message": "three", "files": ["src"], "confirmed": True}, exitCode=0),
    _ok("git", {"action": "log", "ref": "HEAD", "limit": 1, "skip": 1, "files": ["asking"]}, commits=[]),
    _ok("git", {"action": "restore", "files": ["src"], "staged": True}, paths=[]),
    _failed("git", {"action": "push", "branch": "side", "delete": True, "force": True}, "INVALID_ARGUMENT"),
    _failed("git", {"action": "fetch", "url": URL}, "PROVIDER_UNAVAILABLE"),
    _failed("git", {"action": "clone", "url": URL, "path": "n", "depth": 1}, "INVALID_ARGUMENT"),
    _failed("editNotebook", {"path": "src/work.ipynb", "edits": [{"type": "delete", "cellId": "z"}]}, "EDIT_NOT_FOUND"),
    _failed("readNotebook", {"path": "src/new/a.py"}, "INVALID_ARGUMENT"),
    _failed("editFile", {"path": "missing", "edits": [{"oldText": "a", "newText": "b"}]}, "FILE_NOT_FOUND"),
    _failed("deleteFile", {"path": "../outside"}, "PERMISSION_DENIED"),
    _failed("globFiles", {}, "INVALID_ARGUMENT"),
    _failed("runOperations", {"operations": [{"type": "nothing"}]}, "INVALID_ARGUMENT"),
    _failed("getRun", {"runId": "run_0"}, "NOT_FOUND"),
    _failed("getOutput", {"runId": "run_0"}, "NOT_FOUND"),
    _failed("moveFile", {"source": "missing", "destination": "a"}, "FILE_NOT_FOUND"),
    _failed("copyFile", {"source": "missing", "destination": "a"}, "FILE_NOT_FOUND"),
    _failed("createDirectory", {"path": "../outside"}, "PERMISSION_DENIED"),
    _failed("listFiles", {"path": "missing"}, "FILE_NOT_FOUND"),
    _failed("listFiles", {"options": {"cursor": "wrong"}}, "INVALID_ARGUMENT"),
    _failed("searchFiles", {"query": "x", "options": {"cursor": "wrong"}}, "INVALID_ARGUMENT"),
    _failed("globFiles", {"pattern": "*", "cursor": "wrong"}, "INVALID_ARGUMENT"),
    _failed("git", {"action": "status", "author": "Ada <ada@example.org>"}, "INVALID_ARGUMENT"),
    _failed("searchFiles", {"query": "(", "options": {"regex": True}}, "INVALID_ARGUMENT"),
    _failed("getWorkspaceInfo", {"workspaceRoot": "missing"}, "FILE_NOT_FOUND"),
    _refused("readFile", {}, -32602, "INVALID_ARGUMENT"),
    _refused("readFile", {"path": "a", "colour": "red"}, -32602, "INVALID_ARGUMENT"),
    _refused("readFile", {"path": "missing"}, -32602, "FILE_NOT_FOUND"),
    _refused("nothing", {}, -32602, "NOT_FOUND"),
    _refused("readFile", {"path": "../outside"}, -32001, "PERMISSION_DENIED"),
    _refused("listFiles", {"workspaceRoot": "src", "path": ".."}, -32001, "PERMISSION_DENIED"),
    _refused("readFile", {"path": "closed/a"}, -32002, "PERMISSION_DENIED"),
    _refused("writeFile", {"path": "big", "contents": "x" * 20_000}, -32003, "SIZE_LIMIT_EXCEEDED"),
    _refused(
        "writeFile",
        {"path": "src/new/a.py", "contents": "", "options": {"expectedHash": _hash("x = 1\n")}},
        -32603,
        "CONFLICT",
        currentHash=_hash("x = 3\n"),
    ),
    _refused("runCommand", {"command": "sudo", "args": ["id"]}, -32004, "PERMISSION_DENIED"),
    _refused("runCommand", {"command": "true", "workspaceRoot": "asking"}, -32005, "APPROVAL_REQUIRED"),
    _refused(
        "runCommand",
        {"command": "sh", "args": ["-c", "echo begun; sleep 1000"], "options": {"timeout": 3}},
        -32603,
        "TIMEOUT",
        stdout="begun\n",
    ),
    _ok(
        "deleteFile",
        {"workspaceRoot": "src", "path": "new/a.py", "expectedHash": _hash("x = 3\n"), "confirmed": True},
        deleted=True,
    ),
    _ok("deleteFile", {"path": "src", "recursive": True}, deleted=True),
)


def prepare(root: Path) -> None:
    """What the calls find: a repository, a policy, and a folder below with one of its own."""
    for folder in ("src", "asking"):
        (root / folder).mkdir()
    (root / "bytes").write_bytes(b"\0\xff")
    (root / ".cws-policy.json").write_text(json.dumps({"deniedPaths": ["closed/**"], "maxEditSize": 10_000}))
    (root / "asking" / ".cws-policy.json").write_text(json.dumps({"confirmationRequired": ["runCommand"]}))
    plain(root, "init", "--quiet", "--initial-branch=main")
    plain(root, "config", "user.name", "Ada")
    plain(root, "config", "user.email", "ada@example.org")
    plain(root, "add", "--all")
    plain(root, "commit", "--quiet", "--message", "first")


async def drive(client: Client) -> list[Outcome]:
    outcomes: list[Outcome] = []
    run_id = ""
    for tool, arguments, _ in CALLS:
        sent = {name: run_id if value == LAST_RUN else value for name, value in arguments.items()}
        outcomes.append(await _call(client, tool, sent))
        run_id = outcomes[-1].get("answer", {}).get("runId", run_id)
    return outcomes


async def _call(client: Client, tool: str, arguments: dict[str, Any]) -> Outcome:
    try:
        result = await client.call_tool(tool, arguments)
    except MCPError as error:
        return {"code": error.code, "data": error.data}
    content = result.content[0]
    assert isinstance(content, types.TextContent)
    told = json.loads(content.text)
    assert told == result.structured_content
    return {"code": told["error"]["code"], "data": told["error"]["data"]} if result.is_error else {"answer": told}


def compare(outcomes: list[Outcome]) -> None:
    assert len(outcomes) == len(CALLS)
    for (tool, arguments, expected), outcome in zip(CALLS, outcomes, strict=True):
        assert _part(outcome, expected) == expected, (tool, arguments, outcome)
        if "code" in outcome:
            assert outcome["data"]["hint"], outcome


def _part(found: Any, wanted: Any) -> Any:
    """As much of it as was asked for."""
    if isinstance(found, dict) and isinstance(wanted, dict):
        return {name: _part(found.get(name), value) for name, value in wanted.items()}
    return found


def fields(schema: dict[str, Any], at: str = "") -> set[str]:
    """The arguments that a schema has, those inside others too."""
    found = set()
    for name, inner in schema.get("properties", {}).items():
        found |= {at + name} | fields(inner, f"{at}{name}.")
    for inner in (schema.get("items"), *schema.get("anyOf", ()), *schema.get("oneOf", ())):
        found |= fields(inner, at) if isinstance(inner, dict) else set()
    return found


def used(sent: Any, at: str = "") -> set[str]:
    """The arguments of a call, the same way."""
    if isinstance(sent, list):
        return {name for each in sent for name in used(each, at)}
    if not isinstance(sent, dict):
        return set()
    return {name for key, value in sent.items() for name in ({at + key} | used(value, f"{at}{key}."))}


def untried() -> set[str]:
    """Arguments of any tool that no call has."""
    tried = {f"{tool}.{name}" for tool, arguments, _ in CALLS for name in used(arguments)}
    known = {
        f"{tool.name}.{name}"
        for tool in TOOLS.values()
        for name in fields(json_schema.build_schema(tool.parameters, "validation"))
    }
    return known - tried
