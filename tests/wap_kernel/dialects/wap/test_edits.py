"""Edits that must change nothing else: endings, marks, modes, stale hashes, notebooks; and all or nothing."""

from __future__ import annotations

import json
import os
import stat
from typing import Any

import pytest

from tests.support.wap_calls import INSERT
from wap_kernel.model.errors import Code


@pytest.mark.parametrize(
    "data",
    [b"one\r\ntwo\r\nthree\r\n", b"caf\xe9\ntwo\n\xff", b"\xef\xbb\xbfone\ntwo\n", b"one\ntwo", b"one\rtwo\nx\r\n\n"],
)
def test_an_edit_keeps_what_it_does_not_touch_and_the_mode(tools: Any, data: bytes) -> None:
    (tools.root / "f").write_bytes(data)
    (tools.root / "f").chmod(0o755)
    answer = tools.modifyFile(
        path="f", operations=[{"type": "replace", "startLine": 1, "endLine": 1, "newContent": "X"}]
    )
    first, _, rest = data.partition(b"\n")
    mark = b"\xef\xbb\xbf" if first.startswith(b"\xef\xbb\xbf") else b""
    ending = b"\r\n" if first.endswith(b"\r") else b"\n"
    assert (tools.root / "f").read_bytes() == mark + b"X" + ending + rest
    assert stat.S_IMODE((tools.root / "f").stat().st_mode) == 0o755
    assert answer["diff"].startswith("--- a/f\n+++ b/f\n@@ ")
    assert answer["hash"] == tools.readFile(path="f", encoding="base64")["hash"]


def test_a_failing_change_undoes_the_whole_call(tools: Any) -> None:
    (tools.root / "f").write_text("1\n2\n3\n")
    operations = [
        {"type": "delete", "startLine": 1, "endLine": 1},
        {"type": "insert", "afterLine": 0, "newContent": "x"},
        {"type": "regexReplace", "pattern": "2", "replacement": "two"},
        {"type": "delete", "startLine": 9, "endLine": 9},
    ]
    error = tools.refuse("modifyFile", path="f", operations=operations)
    assert (error.code, error.details["operation"]) == (Code.INVALID_ARGUMENT, 3)
    assert (tools.root / "f").read_text() == "1\n2\n3\n"


@pytest.mark.parametrize(
    ("tool", "parameters"),
    [
        ("writeFile", {"path": "f", "content": "x"}),
        ("writeFile", {"path": "f", "content": "x", "mode": "append"}),
        ("modifyFile", {"path": "f", "operations": INSERT}),
        ("deleteFile", {"path": "f"}),
        ("moveFile", {"source": "f", "destination": "g"}),
        ("copyFile", {"source": "f", "destination": "g"}),
    ],
)
def test_a_stale_hash_is_a_conflict_that_names_the_current_one(tools: Any, tool: str, parameters: Any) -> None:
    tools.writeFile(path="f", content="old")
    stale = tools.readFile(path="f")["hash"]
    current = tools.writeFile(path="f", content="newer")["hash"]
    error = tools.refuse(tool, **parameters, expectedHash=stale)
    assert (error.code, error.details["currentHash"]) == (Code.CONFLICT, current)
    assert os.listdir(tools.root) == ["f"]
    assert (tools.root / "f").read_text() == "newer"
    assert tools.call(tool, **parameters, expectedHash=current)["success"]


NOTEBOOK = json.dumps({"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}, indent=1)


def test_a_notebook_is_never_left_invalid(tools: Any) -> None:
    tools.writeFile(path="n.ipynb", content=NOTEBOOK)
    attempts = [
        ("writeFile", {"path": "n.ipynb", "content": "not json"}),
        ("writeFile", {"path": "n.ipynb", "content": '{"cells": 5, "nbformat": 4, "nbformat_minor": 5}'}),
        ("writeFile", {"path": "n.ipynb", "content": "[]"}),
        ("writeFile", {"path": "n.ipynb", "content": "{}"}),
        ("writeFile", {"path": "n.ipynb", "content": "\n", "mode": "append"}),
        ("modifyFile", {"path": "n.ipynb", "operations": [{"type": "delete", "startLine": 1, "endLine": 1}]}),
    ]
    for tool, parameters in attempts:
        assert tools.refuse(tool, **parameters).code is Code.INVALID_ARGUMENT, parameters
    assert (tools.root / "n.ipynb").read_text() == NOTEBOOK
    change = {"type": "regexReplace", "pattern": '"metadata": \\{\\}', "replacement": '"metadata": {"a": 1}'}
    assert tools.modifyFile(path="n.ipynb", operations=[change])["success"]


def test_a_folder_is_not_moved_into_itself_and_nothing_is_made_for_it(tools: Any) -> None:
    (tools.root / "a").mkdir()
    error = tools.refuse("moveFile", source="a", destination="a/b/c", createDirectories=True)
    assert error.code is Code.INVALID_ARGUMENT
    assert os.listdir(tools.root / "a") == []
