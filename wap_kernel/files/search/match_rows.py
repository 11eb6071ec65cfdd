"""Build the matches of a search result from the lines of a file, which come through the file primitives."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import NamedTuple

from wap_kernel.files.search.line_scanner import Hit, read_excerpt, read_lines, split_lines
from wap_kernel.model.limits import MAX_MATCH_LINE_CHARACTERS, MAX_SEARCH_RESULT_CHARACTERS
from wap_kernel.model.paths import render_path
from wap_kernel.model.results import SearchMatch, SearchResult


class MatchedLine(NamedTuple):
    """A line that matches, with the column of its match."""

    hit: Hit
    column: int


def build_matches(
    path: str,
    content: bytes | Iterable[bytes],
    matched: Sequence[MatchedLine],
    context: int,
    read: Callable[[int, int], bytes] | None = None,
) -> list[SearchMatch]:
    """Return the matches of a file, with the lines around them.

    `content` is the file's content, whole or in blocks. Where it comes in blocks, `read` returns its bytes at an
    offset, up to a size.
    """
    near = {number for hit, _ in matched for number in range(hit.line - context, hit.line + context + 1)}
    if isinstance(content, bytes):
        texts = split_lines(content, near)
        read = partial(_slice, content)
    else:
        texts = read_lines(content, near)
    assert read is not None
    rendered_path = render_path(path)
    return [
        SearchMatch(
            path=rendered_path,
            line=line,
            column=column,
            match_text=text if len(text) < MAX_MATCH_LINE_CHARACTERS else read_excerpt(read, hit),
            context_before=[texts[number] for number in range(max(1, line - context), line)],
            context_after=[texts[number] for number in range(line + 1, line + context + 1) if number in texts],
        )
        for hit, column in matched
        if (text := texts.get(line := hit.line)) is not None  # the file may have changed since it was counted
    ]


def _slice(content: bytes, offset: int, size: int) -> bytes:
    return content[offset : offset + size]


def truncate_result(result: SearchResult, characters: int = MAX_SEARCH_RESULT_CHARACTERS) -> SearchResult:
    """Return the result with as many of the first matches as fit, at least one; the total stays the same."""
    for index, match in enumerate(result.matches):
        characters -= len(match.match_text) + sum(map(len, (*match.context_before, *match.context_after)))
        if index and characters < 0:
            return result.model_copy(update={"matches": result.matches[:index], "is_truncated": True})
    return result
