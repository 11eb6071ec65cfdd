"""Hooks for schemathesis: commands that do nothing, and a workspace in which generated requests find something.

A generated command is handed as one quoted word to `:`, the shell's command that ignores its arguments. So the whole
way of a command is taken, with every working directory, timeout and environment, and nothing generated is executed.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import zlib
from pathlib import Path
from typing import Any

import schemathesis

from wap_kernel.model.limits import MAX_WAIT_SECONDS

FILES = {
    "a.txt": b"one\ntwo\nthree\n",
    "folder/b.txt": b"needle\r\nhay\r\n",
    "blob.bin": bytes(range(256)),
    "book.ipynb": b'{"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}',
}
EXISTING = (*FILES, ".", "folder")
PATHS = ("path", "source", "workingDirectory", "file_path", "workdir")
LINES = ("startLine", "endLine", "afterLine")

MCP_VERSION = "2026-07-28"  # without sessions, so that one message reaches what it asks for
MCP_META = {
    "io.modelcontextprotocol/protocolVersion": MCP_VERSION,
    "io.modelcontextprotocol/clientInfo": {"name": "fuzz", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
MCP_METHODS = "server/discover tools/list tools/call resources/list resources/read prompts/list prompts/get".split()
MCP_OPENING = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "fuzz", "version": "1"}}


UNEXPRESSED = re.compile(
    "valid base64|has this id already|half characters|Path must|names a folder"
    "|either approvalId or operationId|printable"
)
"""Rules that the schemas do not have: on the meaning of a field, or on two fields together."""


@schemathesis.hook
def before_call(context: Any, case: Any, kwargs: Any) -> None:
    runs_commands = case.operation.path.endswith(("/executeCommand", "/runs", "/workspace/bash"))
    if runs_commands and isinstance(case.body, (str, bytes)):
        case.body = []  # text that might happen to be an object with a command
    wait = (case.query or {}).get("wait")
    if isinstance(wait, (int, float)) and 1 < wait <= MAX_WAIT_SECONDS:
        case.query["wait"] = 1  # nobody has an hour
    if case.operation.path.endswith("/mcp"):
        case.headers.setdefault("Accept", "application/json, text/event-stream")
    if not isinstance(case.body, dict):
        return
    if case.operation.path.endswith("/mcp"):
        if _is_valid(case):
            _lead_to_mcp(case)
        return
    operations = case.body.get("operations")
    parts = [case.body, *(operations if isinstance(operations, list) else ())]
    for part in parts:
        # On every route, so that a new one which runs commands cannot be forgotten here.
        if isinstance(part, dict) and isinstance(part.get("command"), str) and part["command"]:
            part["command"] = f": {shlex.quote(part['command'])}"
    choice = zlib.crc32(repr(case.body).encode("utf-8", "replace"))
    if choice % 4 and _is_valid(case):
        _restore(Path(os.environ["WAP_FUZZ_ROOT"]))
        for part in parts:
            if isinstance(part, dict):
                _lead_to_files(part, EXISTING[choice // 4 % len(EXISTING)])
                _lead_to_lines(part)


def _is_valid(case: Any) -> bool:
    """Return whether the request follows its schema; one that does not must be sent as it is, and be refused."""
    return case.meta is not None and bool(case.meta.generation.mode.is_positive)


def _lead_to_mcp(case: Any) -> None:
    """Of four messages one stays as it was generated, one opens a session, two ask for something that there is."""
    choice = zlib.crc32(repr(case.body).encode("utf-8", "replace"))
    params = case.body.get("params")
    params = dict(params) if isinstance(params, dict) else {}
    if choice % 4 == 0:
        return
    case.headers.pop("Mcp-Session-Id", None)
    if choice % 4 == 1:
        case.body |= {"id": 1, "method": "initialize", "params": {**params, **MCP_OPENING}}
        return
    method, existing = MCP_METHODS[choice // 4 % len(MCP_METHODS)], EXISTING[choice // 64 % len(EXISTING)]
    case.headers.update({"Mcp-Protocol-Version": MCP_VERSION, "Mcp-Method": method})
    if method == "tools/call":
        params |= {"name": "readFile", "arguments": {**params, "path": existing}}
        case.headers["Mcp-Name"] = "readFile"
    case.body |= {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": MCP_META}}


@schemathesis.hook
def after_call(context: Any, case: Any, response: Any) -> None:
    with open(os.environ["WAP_FUZZ_TALLY"], "a") as tally:
        tally.write(f"{case.operation.path} {response.status_code}\n")


def _lead_to_files(body: dict[str, Any], existing: str) -> None:
    for name in PATHS:
        if isinstance(body.get(name), str):
            body[name] = existing
    if isinstance(body.get("paths"), list) and body["paths"]:
        body["paths"][0] = existing
    body.pop("expectedHash", None)


def _lead_to_lines(change: dict[str, Any]) -> None:
    for name in LINES:
        if isinstance(change.get(name), int):
            change[name] = 2


def _restore(root: Path) -> None:
    """Put back what earlier requests have deleted, overwritten or moved."""
    for name, content in FILES.items():
        path = root / name
        for parent in (path.parent, path):
            wrong = parent.is_symlink() or (parent.exists() and parent.is_dir() == (parent == path))
            if wrong:
                shutil.rmtree(parent) if parent.is_dir() and not parent.is_symlink() else parent.unlink()
        if not path.exists():
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(content)


@schemathesis.check
def model_agrees_with_schema(ctx: Any, response: Any, case: Any) -> None:
    """Fail where the model of a request finds something wrong that the request's schema allows."""
    if not _is_valid(case) or response.status_code != 400 or case.operation.path.endswith("/mcp"):
        return
    answer = response.json()
    problems = [each["message"] for each in answer.get("details", {}).get("problems", ())]
    assert [message for message in problems if not UNEXPRESSED.search(message)] == [], answer
