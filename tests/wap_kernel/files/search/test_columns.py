"""Where in its line a match begins, in characters, however large the file and however long the line."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from tests.support.searchers import OPEN, WAYS, Search, make_searcher
from wap_kernel.files.contained.root import Root
from wap_kernel.files.search.line_scanner import BLOCK
from wap_kernel.files.search.ripgrep_search import LONG
from wap_kernel.files.search.search_query import SearchQuery
from wap_kernel.model.command import Deadline
from wap_kernel.model.operations import SearchFiles
from wap_kernel.model.results import Limits

COLUMNS = [
    # query, options, content, columns
    ("needle", {}, b"needle\n  needle needle\n", [1, 3]),
    ("needle", {}, "é€😀needle\n".encode(), [4]),
    ("needle", {}, b"\xff\xe2\x82needle\xff\r\n", [3]),
    ("NEEDLE", {"case_sensitive": False}, b"\xc3\xa9 nEEdle", [3]),
    ("É", {"case_sensitive": False}, b"\xff\xffx\xc3\xa9", [4]),
    ("n.+e", {"regex": True}, "\ufeffé needle\n\xff needle".encode(), [4, 3]),
    ("$", {"regex": True}, "é\r\n\nab".encode(), [2, 1, 3]),
    ("(?-u:\\xa9)", {"regex": True}, "xé\n".encode(), [2]),
    ("b|a", {"regex": True}, b"xxab\n", [3]),
]


@pytest.mark.parametrize(("query", "options", "content", "columns"), COLUMNS)
@pytest.mark.parametrize("size", ["small", "more than a block", "large"])
def test_columns(
    ws: Path, search: Search, query: str, options: dict[str, object], content: bytes, columns: list[int], size: str
) -> None:
    """Of the first match in a line, in characters, however the file is read."""
    before = {"small": 0, "more than a block": BLOCK // 1000 + 1, "large": LONG // 1000 + 1}[size]
    (ws / "f").write_bytes((b"-" * 999 + b"\n") * before + content)
    result = search(query, usual=before + 9, context_lines=0, **options)
    found = [(match.line - before, match.column) for match in result.matches if match.line > before]
    assert [column for _, column in found] == columns


@pytest.mark.parametrize("length", [1_000, 100_000, 900_000, 1_500_000])
def test_columns_go_on_where_a_line_is_cut(ws: Path, search: Search, length: int) -> None:
    (ws / "f").write_bytes("é".encode() * (length // 2) + b"needle\n")
    assert [match.column for match in search("needle").matches] == [length // 2 + 1]
    (match,) = search("n[e]edle", regex=True).matches
    assert match.column == min(length, LONG) // 2 + 1


@pytest.mark.parametrize("way", WAYS)
def test_columns_in_a_large_file_are_asked_for_line_by_line(
    ws: Path, root: Root, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a line that matches everywhere rg would note down every match, and take thirty times as much memory."""
    (ws / "f").write_bytes(b"-" + b"a" * 3_000_000 + b"\nb a\n" + b"-" * 100)
    (ws / "g").write_bytes(b"a" * 1000)
    searcher = make_searcher(root, way)
    asked: list[tuple[int, bool]] = []
    original = searcher._rg.hits

    def hits(
        query: SearchQuery, names: list[str], *arguments: Any, fds: list[int], with_columns: bool = True
    ) -> object:
        opened = fds or [ws / name for name in names]
        asked.append((max(os.stat(each).st_size for each in opened), with_columns))
        return original(query, names, *arguments, fds=fds, with_columns=with_columns)

    monkeypatch.setattr(searcher._rg, "hits", hits)
    operation = SearchFiles(paths=(".",), query="[a]", regex=True)
    result = searcher.search(root, OPEN, operation, Limits(), Deadline(60))
    assert [(match.path, match.line, match.column) for match in result.matches] == [
        *(("f", 1, 2), ("f", 2, 3), ("g", 1, 1)),
    ]
    assert asked == [(1000, True), (3_000_106, False), (LONG + len(b"\nb a\n"), True)]
    searcher.close()
