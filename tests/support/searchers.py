"""Searchers for the tests of searching, one for each way in which it is done."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.support.guards import OpenGuard
from wap_kernel.files.contained.root import Root
from wap_kernel.files.interface import Guard
from wap_kernel.files.search import landlock, literal_search
from wap_kernel.files.search.searcher import Searcher
from wap_kernel.model.results import SearchResult

WAYS = ("in process", "landlock", "descriptors")
OPEN = OpenGuard()
Search = Callable[..., SearchResult]


def make_searcher(root: Root, way: str, guard: Guard = OPEN) -> Searcher:
    """One that takes the given way; a regular expression is never searched in process, so rg does it on Landlock."""
    if way == "landlock" and not landlock.abi():
        pytest.skip("this kernel has no Landlock")
    file_budget = literal_search.FILE_BUDGET if way == "in process" else 0
    searcher = Searcher(guard, root_fd=None if way == "descriptors" else root.fd, file_budget=file_budget)
    assert searcher._rg.takes_paths == (way != "descriptors")
    return searcher


def found(result: SearchResult) -> list[tuple[str, int, str]]:
    return [(match.path, match.line, match.match_text) for match in result.matches]
