"""Editing files with Windows line endings through every dialect: text is found, and no mixed endings are left.

The cases are those that other agents' edit tools are tested with: old and new text with LF, CRLF or both, in a file
that has one kind.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.coding_environment import Coding, play
from tests.support.http_runs import start, types

OLD = "first\nsecond\nthird"
NEW = "first\nsecond, changed\nthird"
LF, CRLF = "\n", "\r\n"
FORMS: dict[str, tuple[str, str]] = {
    "both as the file": ("own", "own"),
    "both the other": ("other", "other"),
    "the new text the other": ("own", "other"),
    "the old text the other": ("other", "own"),
    "both mixed": ("mixed", "mixed"),
}


def write(text: str, form: str, ending: str) -> str:
    other = CRLF if ending == LF else LF
    if form == "mixed":
        first, *rest = text.split("\n")
        return first + other + ending.join(rest)
    return text.replace("\n", ending if form == "own" else other)


CASES = [
    pytest.param(ending, *forms, id=f"{name}, in {'LF' if ending == LF else 'CRLF'}")
    for ending in (LF, CRLF)
    for name, forms in FORMS.items()
]

Edit = Callable[[Any, str, str], Awaitable[None]]


async def modify_lines(fetch: Any, old: str, new: str) -> None:
    edit = {"type": "replace", "startLine": 1, "endLine": len(old.split("\n")), "newContent": new}
    answer = await fetch("wap/api/modifyFile", method="POST", body=json.dumps({"path": "f", "operations": [edit]}))
    assert answer.status == 200, answer.body


async def modify_by_pattern(fetch: Any, old: str, new: str) -> None:
    edit = {"type": "regexReplace", "pattern": old.replace("\r\n", "\n"), "replacement": new}
    answer = await fetch("wap/api/modifyFile", method="POST", body=json.dumps({"path": "f", "operations": [edit]}))
    assert answer.status == 200, answer.body


async def edit_in_run(fetch: Any, old: str, new: str) -> None:
    edits = [{"oldContent": old, "newContent": new}]
    answer = await start(fetch, {"type": "editFile", "path": "f", "edits": edits})
    assert types(answer.body) == ["editFile"], answer.body


async def edit_interface(fetch: Any, old: str, new: str) -> None:
    body = json.dumps({"file_path": "/workspace/f", "old_string": old, "new_string": new})
    answer = await fetch("wap/workspace/edit", method="POST", body=body)
    assert answer.status == 200, answer.body


@pytest.mark.parametrize(("ending", "old", "new"), CASES)
async def test_over_rest(fetch: Any, jp_root_dir: Path, ending: str, old: str, new: str) -> None:
    before, after = ((text + "\nlast").replace("\n", ending).encode() for text in (OLD, NEW))
    for edit in (modify_lines, modify_by_pattern, edit_in_run, edit_interface):
        (jp_root_dir / "f").write_bytes(before)
        await edit(fetch, write(OLD, old, ending), write(NEW, new, ending))
        assert (jp_root_dir / "f").read_bytes() == after, edit.__name__


def test_over_the_coding_environment(tmp_path: Path) -> None:
    async def scenario(coding: Coding) -> None:
        for case in CASES:
            ending, old, new = (str(value) for value in case.values)
            before, after = ((text + "\nlast").replace("\n", ending).encode() for text in (OLD, NEW))
            (coding.root / "f").write_bytes(before)
            arguments = {"path": "f", "oldText": write(OLD, old, ending), "newText": write(NEW, new, ending)}
            await coding.call("editFile", arguments)
            assert (coding.root / "f").read_bytes() == after, case.id

    (tmp_path / "ws").mkdir()
    play(Coding(tmp_path / "ws", tmp_path / "state"), scenario)
