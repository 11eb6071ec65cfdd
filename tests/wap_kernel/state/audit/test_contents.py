"""The audit never quotes what is written or read, also not in the text of an error."""

from __future__ import annotations

import ast
import asyncio
import json
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from wap_kernel.dialects.agent_spaces import operations as agent_spaces
from wap_kernel.dialects.registry import open_runner
from wap_kernel.dialects.wap import tools as wap
from wap_kernel.model.caller import Caller
from wap_kernel.model.errors import EditNotFound, FileNotFound, InvalidArgument, WapError

SOURCES = Path(agent_spaces.__file__).parents[3]
MARK = "Mark7Q"
"""Stands for contents."""
BODIES: dict[str, dict[str, Any]] = {
    "exploreFiles": {"path": "."},
    "readFile": {"path": "a.txt"},
    "writeFile": {"path": "a.txt", "content": "x"},
    "modifyFile": {"path": "a.txt", "operations": [{"type": "delete", "startLine": 1, "endLine": 1}]},
    "searchFiles": {"paths": ["."], "query": "x", "type": "literal"},
    "executeCommand": {"command": "true"},
    "getWorkspaceInfo": {},
    "deleteFile": {"path": "missing"},
    "moveFile": {"source": "missing", "destination": "b"},
    "copyFile": {"source": "missing", "destination": "b"},
    "createDirectory": {"path": "a.txt"},
    "readNotebook": {"path": "missing.ipynb"},
    "modifyNotebook": {"path": "missing.ipynb", "operations": [{"type": "delete", "cellId": "x"}]},
}
RECORDED = {"path", "paths", "source", "destination", "query", "command", "workingDirectory", "excludePatterns"}
"""These are what the audit is for."""
REGEX = {"type": "regexReplace", "pattern": "x", "replacement": MARK}
FAILING: list[tuple[str, dict[str, Any]]] = [
    ("writeFile", {"path": "n.ipynb", "content": f"{MARK} no notebook"}),
    ("writeFile", {"path": "n.ipynb", "content": json.dumps({MARK: MARK, "nbformat": 4, "cells": [{MARK: MARK}]})}),
    ("modifyNotebook", {"path": "m.ipynb", "operations": [{"type": "delete", "cellId": MARK}]}),
    ("modifyNotebook", {"path": "m.ipynb", "operations": [{"type": "insert", "source": MARK}]}),
    ("readNotebook", {"path": "m.ipynb", "cellIds": [MARK]}),
    ("writeFile", {"path": "a.txt", "content": MARK, "mode": "create"}),
    ("writeFile", {"path": "no/such", "content": MARK}),
    ("writeFile", {"path": "b", "content": f"{MARK}!", "encoding": "base64"}),
    ("writeFile", {"path": "b", "content": f"{MARK}\ud800"}),
    ("writeFile", {"path": "../b", "content": MARK}),
    ("modifyFile", {"path": "a.txt", "operations": [{**REGEX, "pattern": MARK[:4] + "(" + MARK}]}),
    ("modifyFile", {"path": "a.txt", "operations": [{**REGEX, "pattern": f"not {MARK}"}]}),
    ("modifyFile", {"path": "a.txt", "operations": [{**REGEX, "pattern": f"\\p{{{MARK}}}", "flags": "u"}]}),
    ("modifyFile", {"path": "a.txt", "operations": [{**REGEX, "pattern": f"(?<{MARK}>a)(?<{MARK}>b)"}]}),
    ("modifyFile", {"path": "a.txt", "operations": [{**REGEX, "flags": MARK}]}),
    ("modifyFile", {"path": "a.txt", "operations": [{"type": MARK, "newContent": MARK}]}),
    ("modifyFile", {"path": "a.txt", "operations": [{"type": "insert", "afterLine": 99, "newContent": MARK}]}),
    ("modifyFile", {"path": "a.txt", "operations": [{"type": "insert", "afterLine": MARK, "newContent": MARK}]}),
    ("modifyFile", {"path": "a.txt", "operations": [REGEX], "expectedHash": f"sha256:{'0' * 64}"}),
    ("executeCommand", {"command": "true", "environment": {"A": f"{MARK}\0"}}),
    ("executeCommand", {"command": "true", "environment": {"A": f"{MARK}\ud800"}}),
    ("executeCommand", {"command": "true", "environment": {"LD_PRELOAD": MARK}}),
    ("executeCommand", {"command": "cat a.txt; cat a.txt >&2; exit 1", "environment": {"A": MARK}}),
]


def bodies() -> Iterator[tuple[str, dict[str, Any]]]:
    """Every tool with contents wherever no path or command belongs."""
    for name, body in BODIES.items():
        yield name, {**body, f"{MARK} is no field": MARK}
        for field, info in wap.TOOLS[name].parameters.model_fields.items():
            alias = info.alias or field
            if alias not in RECORDED:
                yield from ((name, {**body, alias: value}) for value in (MARK, [MARK], [{MARK: MARK}]))
    yield from FAILING


@pytest.fixture
def recorded(tools: Any) -> Callable[[], str]:
    """Everything that the audit says, when the workspace is closed."""
    (tools.root / "a.txt").write_text(f"one {MARK} two\n")
    (tools.root / "m.ipynb").write_text(json.dumps({"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}))

    def read() -> str:
        asyncio.run(tools.workspace.close())
        connection = sqlite3.connect(tools.state / "state.db")
        rows = connection.execute("SELECT * FROM audit").fetchall()
        connection.close()
        return "\n".join(str(row) for row in rows)

    return read


def test_every_tool_has_a_body() -> None:
    assert set(BODIES) == set(wap.TOOLS)


def test_no_tool_leaves_contents_in_the_audit(tools: Any, recorded: Callable[[], str]) -> None:
    failed = 0
    for name, body in bodies():
        try:
            tools.call(name, **body)
        except WapError:
            failed += 1
    assert failed > 60
    assert [line for line in recorded().splitlines() if MARK in line] == []


OPERATIONS: list[dict[str, Any]] = [
    {"type": "message", "content": MARK},
    {"type": "editFile", "path": "a.txt", "edits": [{"oldContent": f"not {MARK} there", "newContent": MARK}]},
    {"type": "editFile", "path": "a.txt", "edits": [{"oldContent": f"one {MARK}", "newContent": f"three {MARK}"}]},
    {"type": "createFile", "path": "a.txt", "content": MARK},
    {"type": "createFile", "path": "n.ipynb", "content": f"{MARK} no notebook"},
    {"type": "createFile", "path": "b", "content": MARK, "expectedHash": f"sha256:{'0' * 64}"},
    {"type": "readFile", "path": "a.txt"},
    {"type": "shell", "command": "cat a.txt; exit 3", "env": {"A": MARK}},
]


@pytest.mark.parametrize("dry_run", [False, True])
def test_no_run_leaves_contents_in_the_audit(tools: Any, recorded: Callable[[], str], dry_run: bool) -> None:
    operations = OPERATIONS[:-1] if dry_run else OPERATIONS  # without layers, a dry run has no commands
    message = {"protocolVersion": "1.0", "operations": operations, "dryRun": dry_run}
    sent = agent_spaces.parse_operations_message(message)

    async def perform() -> None:
        runner = open_runner(tools.workspace)
        run = await runner.start(sent.steps(), sent.options(), Caller(user="me"), dialect="agent_spaces")
        ended = await runner.wait(run.id, 60)
        assert ended.status.is_final
        await runner.close()

    asyncio.run(perform())
    text = recorded()
    assert "Could not find content to replace." in text
    assert "This would leave an invalid notebook." in text
    assert ('"dryRun": true' in text) is dry_run
    assert MARK not in text


def test_what_is_recorded_of_an_error() -> None:
    assert FileNotFound("No such file or folder: a").audit_text == "No such file or folder: a"
    assert InvalidArgument("startLine 3 is after endLine 2.").audit_text == "startLine 3 is after endLine 2."
    assert InvalidArgument("Unknown flags: 'secret'.").audit_text == "Unknown flags."
    assert InvalidArgument("path: secret").audit_text == "The request is not valid."
    assert InvalidArgument("'secret' is nothing.").audit_text == "The request is not valid."
    assert InvalidArgument("my secret: unknown", problems=[]).audit_text == "The request is not valid."
    assert EditNotFound('Could not find: "secret"').audit_text == "Could not find."


HARMLESS = {"after", "end", "len(operation.paths)", "name", "start"}
"""Numbers, and the names of variables and queries."""
KNOWN = {"The pattern {problem}", "Not a valid exclude pattern. {error}", "{source}", "{name} is {problem}"}
"""Messages about policies, about patterns for paths, and about the file of a batch, which the audit never gets."""


def test_errors_about_requests_quote_after_a_colon_or_in_quotes_only() -> None:
    """`record` relies on it."""
    found = [
        f"{path.relative_to(SOURCES)}:{call.lineno}"
        for folder in ("files", "dialects", "engine", "git", "policy", "providers", "runs")
        for path in (SOURCES / "wap_kernel" / folder).rglob("*.py")
        for call in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name)
        if call.func.id in ("InvalidArgument", "EditNotFound") and isinstance(call.args[0], ast.JoinedStr)
        if _quotes_early(call.args[0])
    ]
    assert found == []


def _quotes_early(message: ast.JoinedStr) -> bool:
    text = ""
    for part in message.values:
        if isinstance(part, ast.Constant):
            text += str(part.value)
        elif isinstance(part, ast.FormattedValue):
            source = ast.unparse(part.value)
            text += f"{{{source}}}"
            if part.conversion == ord("r"):
                return False
            if not (source.isupper() or source in HARMLESS or text in KNOWN):
                return True
        if any(mark in text for mark in ":\"'`"):
            return False
    return False
