"""Pages of listings and searches: together they are the whole answer, and a cursor serves its own request only."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.file_trees import grow
from tests.support.listings import listed
from tests.support.searchers import Search
from wap_kernel.files.contained.root import Root
from wap_kernel.files.page_cursor import decode_cursor, encode_cursor
from wap_kernel.model.errors import InvalidArgument
from wap_kernel.model.operations import ListFiles, SearchFiles
from wap_kernel.model.results import FileEntry, SearchMatch

TREE = {"a": {f"{number:02}": b"hit\nhit\n-\nhit" for number in range(5)}, "b": b"hit", "c": {"d": b"hit\n" * 9}}


@pytest.mark.parametrize("size", [1, 2, 3, 7, 100])
@pytest.mark.parametrize("options", [{}, {"metadata": True}, {"newest_first": True}, {"include": ("**/0*", "b")}])
def test_the_pages_of_a_listing_are_the_listing(root: Root, ws: Path, size: int, options: dict[str, object]) -> None:
    grow(ws, TREE)
    whole = listed(root, recursive=True, **options)
    assert whole.next_cursor is None
    found: list[FileEntry] = []
    cursor = None
    while True:
        page = listed(root, own_limit=size, recursive=True, cursor=cursor, **options)
        assert page.total_found == whole.total_found and 0 < len(page.files) <= size
        assert page.is_truncated is (page.next_cursor is not None)
        found += page.files
        cursor = page.next_cursor
        if cursor is None:
            break
    assert found == whole.files


@pytest.mark.parametrize("size", [1, 2, 3, 7, 100])
@pytest.mark.parametrize("options", [{"query": "hit"}, {"query": "HIT", "case_sensitive": False}, {"query": "h[i]t"}])
def test_the_pages_of_a_search_are_the_search(ws: Path, search: Search, size: int, options: dict[str, object]) -> None:
    grow(ws, TREE)
    query, more = str(options["query"]), {"regex": options["query"] == "h[i]t", **options}
    del more["query"]
    whole = search(query, **more)
    assert (whole.total_matches, whole.next_cursor) == (25, None)
    found: list[SearchMatch] = []
    cursor = None
    while True:
        page = search(query, limit=size, cursor=cursor, **more)
        assert page.total_matches == 25 and 0 < len(page.matches) <= size
        assert page.is_truncated is (page.next_cursor is not None)
        found += page.matches
        cursor = page.next_cursor
        if cursor is None:
            break
    assert found == whole.matches


@pytest.mark.parametrize("cursor", ["", "x", "é", "WzEse30", "bnVsbA", "W10", "WzAsIiJd", "A" * 200])
def test_what_is_no_cursor_is_refused(cursor: str) -> None:
    with pytest.raises(InvalidArgument):
        decode_cursor(ListFiles(path=".", cursor=cursor))


def test_a_cursor_serves_its_own_request() -> None:
    request = SearchFiles(paths=(".",), query="x")
    cursor = encode_cursor(request, 5)
    assert decode_cursor(request.model_copy(update={"cursor": cursor, "limit": 9})) == 5
    others = (SearchFiles(paths=(".",), query="y", cursor=cursor), ListFiles(path=".", cursor=cursor))
    for other in (*others, request.model_copy(update={"cursor": f"{cursor}A"})):
        with pytest.raises(InvalidArgument):
            decode_cursor(other)


def test_a_page_past_the_end_is_empty(root: Root, ws: Path) -> None:
    """Entries may be deleted between two pages."""
    grow(ws, {"a": b"", "b": b"", "c": b""})
    cursor = listed(root, own_limit=2).next_cursor
    for name in ("a", "b"):
        (ws / name).unlink()
    page = listed(root, cursor=cursor)
    assert (page.files, page.is_truncated, page.total_found, page.next_cursor) == ([], False, 1, None)
