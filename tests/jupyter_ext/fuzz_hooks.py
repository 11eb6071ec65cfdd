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
PATHS = ("path", "source", "workingDirectory")
LINES = ("startLine", "endLine", "afterLine")


@schemathesis.hook
def before_call(context: Any, case: Any, kwargs: Any) -> None:
    is_command = case.operation.path.endswith("/executeCommand")
    if is_command and isinstance(case.body, (str, bytes)):
        case.body = []  # text that might happen to be an object with a command
    if not isinstance(case.body, dict):
        return
    if is_command and isinstance(case.body.get("command"), str):
        case.body["command"] = f": {shlex.quote(case.body['command'])}"
    choice = zlib.crc32(repr(case.body).encode("utf-8", "replace"))
    if choice % 4:
        _restore(Path(os.environ["WAP_FUZZ_ROOT"]))
        _lead_to_files(case.body, EXISTING[choice // 4 % len(EXISTING)])
        for change in case.body.get("operations") or ():
            _lead_to_lines(change)


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


def _lead_to_lines(change: Any) -> None:
    for name in LINES:
        if isinstance(change, dict) and isinstance(change.get(name), int):
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
