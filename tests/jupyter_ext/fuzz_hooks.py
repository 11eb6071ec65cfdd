"""Hooks for schemathesis: commands that do nothing, and a workspace in which generated requests find something.

A generated command is handed as one quoted word to `:`, the shell's command that ignores its arguments. So the whole
way of a command is taken, with every working directory, timeout and environment, and nothing generated is executed.
"""

from __future__ import annotations

import os
import shlex
import shutil
import zlib
from pathlib import Path
from typing import Any

import schemathesis

FILES = {
    "a.txt": b"one\ntwo\nthree\n",
    "folder/b.txt": b"needle\r\nhay\r\n",
    "blob.bin": bytes(range(256)),
    "book.ipynb": b'{"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}',
}
EXISTING = (*FILES, ".", "folder")
PATHS = ("path", "source", "workingDirectory", "file_path", "workdir")
LINES = ("startLine", "endLine", "afterLine")


@schemathesis.hook
def before_call(context: Any, case: Any, kwargs: Any) -> None:
    runs_commands = case.operation.path.endswith(("/executeCommand", "/runs", "/workspace/bash"))
    if runs_commands and isinstance(case.body, (str, bytes)):
        case.body = []  # text that might happen to be an object with a command
    if (case.query or {}).get("wait") is not None:
        case.query["wait"] = 0 if case.query["wait"] == 0 else 1  # nobody has an hour
    if not isinstance(case.body, dict):
        return
    operations = case.body.get("operations")
    parts = [case.body, *(operations if isinstance(operations, list) else ())]
    for part in parts:
        # On every route, so that a new one which runs commands cannot be forgotten here.
        if isinstance(part, dict) and isinstance(part.get("command"), str):
            part["command"] = f": {shlex.quote(part['command'])}"
    choice = zlib.crc32(repr(case.body).encode("utf-8", "replace"))
    if choice % 4:
        _restore(Path(os.environ["WAP_FUZZ_ROOT"]))
        for part in parts:
            if isinstance(part, dict):
                _lead_to_files(part, EXISTING[choice // 4 % len(EXISTING)])
                _lead_to_lines(part)


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
