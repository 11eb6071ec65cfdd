"""Searchers for the tests of searching, one for each way in which a search is done."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from tests.support.guards import OpenGuard
from wap_kernel.files.contained.root import Root
from wap_kernel.files.interface import Guard
from wap_kernel.files.search import landlock, literal_search
from wap_kernel.files.search.ripgrep_program import find_system_program, find_wheel_program
from wap_kernel.files.search.searcher import Searcher
from wap_kernel.model.results import SearchResult

SYSTEM_WAYS = ("landlock, system's rg", "descriptors, system's rg") if find_system_program() else ()
WAYS = ("in process", "landlock", "descriptors", *SYSTEM_WAYS)
"""Ways to search; those with the system's rg only where there is one, so that no fixture is made to be skipped."""
OPEN = OpenGuard()
Search = Callable[..., SearchResult]


def make_searcher(root: Root, way: str, guard: Guard = OPEN) -> Searcher:
    """Return a searcher that searches in the given way, with the wheel's rg unless `way` names the system's.

    rg searches for every regular expression, under Landlock if the way is "in process".
    """
    method, _, program = way.partition(", ")
    if method != "descriptors" and not landlock.read_abi():
        pytest.skip("this kernel has no Landlock")
    find = partial(find_system_program, root.path) if program else find_wheel_program
    if find() is None:
        pytest.skip("there is no rg of that kind")
    searcher = Searcher(
        guard,
        root_fd=None if method == "descriptors" else root.fd,
        find_program=find,
        file_budget=literal_search.FILE_BUDGET if method == "in process" else 0,
    )
    assert searcher._rg.takes_paths == (method != "descriptors")
    return searcher


def found(result: SearchResult) -> list[tuple[str, int, str]]:
    return [(match.path, match.line, match.match_text) for match in result.matches]
