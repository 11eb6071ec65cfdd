"""A match far along a long line is shown by every dialect that searches, with the column where it begins."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.coding_environment import Coding, play

COLUMN = 50_001
LINE = "é" * (COLUMN - 1) + "needle = 1" + "b" * 50_000


@pytest.mark.parametrize("query", ["needle = 1", "needle = [0-9]"])
async def test_over_rest(fetch: Any, jp_root_dir: Path, query: str) -> None:
    (jp_root_dir / "bundle.js").write_text(f"first\n{LINE}\nlast\n")
    wap = {"paths": ["."], "query": query, "type": "regex"}
    answer = await fetch("wap/api/searchFiles", method="POST", body=json.dumps(wap))
    (match,) = answer.body["matches"]
    check_excerpt(match["matchText"], match["line"], match["column"])
    answer = await fetch("wap/workspace/grep", method="POST", body=json.dumps({"pattern": query}))
    (match,) = answer.body["matches"]
    check_excerpt(match["line"], match["line_number"], match["column"])


def check_excerpt(text: str, line: int, column: int) -> None:
    assert (line, column) == (2, COLUMN)
    assert "needle = 1" in text and text.startswith("...é") and text.endswith("b...") and len(text) == 2000


def test_over_the_coding_environment(tmp_path: Path) -> None:
    async def scenario(coding: Coding) -> None:
        (coding.root / "bundle.js").write_text(f"first\n{LINE}\nlast\n")
        (found,) = (await coding.call("searchFiles", {"query": "needle = 1"}))["results"]
        check_excerpt(found["text"], found["line"], found["column"])

    (tmp_path / "ws").mkdir()
    play(Coding(tmp_path / "ws", tmp_path / "state"), scenario)
