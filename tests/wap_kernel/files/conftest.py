"""Roots on a temporary folder, resolved by openat2 and by the component walk, and searches in them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.guards import NoJournal, OpenGuard
from tests.support.searchers import OPEN, WAYS, Search, make_searcher
from wap_kernel.files.contained import openat2
from wap_kernel.files.contained.root import Root
from wap_kernel.model.command import Deadline
from wap_kernel.model.operations import SearchFiles
from wap_kernel.model.results import Limits, SearchResult


@pytest.fixture(params=["openat2", "walk"])
def root(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Root]:
    """A root in `tmp_path/ws`, beside `tmp_path/outside`."""
    if request.param == "openat2" and openat2.load() is None:
        pytest.skip("this kernel has no openat2")
    for name in ("ws", "outside"):
        (tmp_path / name).mkdir()
    root = Root(str(tmp_path / "ws"), guard=OpenGuard(), journal=NoJournal(), use_openat2=request.param == "openat2")
    yield root
    root.close()


@pytest.fixture
def ws(root: Root) -> Path:
    return Path(root.path)


@pytest.fixture(params=WAYS)
def search(request: pytest.FixtureRequest, root: Root) -> Iterator[Search]:
    searcher = make_searcher(root, request.param)

    def run(query: str, *paths: str, usual: int = 100, **options: object) -> SearchResult:
        operation = SearchFiles.model_validate({"paths": paths or (".",), "query": query, **options})
        return searcher.search(root, OPEN, operation, Limits(max_search_results=usual), Deadline(60))

    yield run
    searcher.close()
