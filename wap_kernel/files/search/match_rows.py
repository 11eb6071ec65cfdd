"""Build the matches of a search result from the lines of a file, which come through the file primitives."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from wap_kernel.files.search.line_scanner import read_lines, split_lines
from wap_kernel.model.limits import MAX_SEARCH_RESULT_CHARACTERS
from wap_kernel.model.paths import render_path
from wap_kernel.model.results import SearchMatch, SearchResult


def build_matches(
    path: str, content: bytes | Iterable[bytes], columns: Mapping[int, int], context: int
) -> list[SearchMatch]:
    """Return the matches of a file, with the lines around them.

    `content` is the file's content, whole or in blocks. `columns` maps the number of a line to the column of its match.
    """
    near = {number for line in columns for number in range(line - context, line + context + 1)}
    texts = split_lines(content, near) if isinstance(content, bytes) else read_lines(content, near)
    rendered_path = render_path(path)
    return [
        SearchMatch(
            path=rendered_path,
            line=line,
            column=column,
            match_text=texts[line],
            context_before=[texts[number] for number in range(max(1, line - context), line)],
            context_after=[texts[number] for number in range(line + 1, line + context + 1) if number in texts],
        )
        for line, column in columns.items()
        if line in texts  # the file may have changed since it was counted
    ]


def truncate_result(result: SearchResult, characters: int = MAX_SEARCH_RESULT_CHARACTERS) -> SearchResult:
    """Return the result with as many of the first matches as fit, at least one; the total stays the same."""
    for index, match in enumerate(result.matches):
        characters -= len(match.match_text) + sum(map(len, (*match.context_before, *match.context_after)))
        if index and characters < 0:
            return result.model_copy(update={"matches": result.matches[:index], "is_truncated": True})
    return result
