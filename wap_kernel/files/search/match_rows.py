"""The rows of a search's answer, read through the file primitives, whoever found where they are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from wap_kernel.files.search.line_scanner import split_lines, read_lines
from wap_kernel.model.limits import MAX_SEARCH_RESULT_CHARACTERS
from wap_kernel.model.paths import render_path
from wap_kernel.model.results import SearchMatch, SearchResult


def build_matches(path: str, found: bytes | Iterable[bytes], columns: Mapping[int, int], context: int) -> list[SearchMatch]:
    """The lines of a file that `columns` names, with the lines around them. `found` is its content, whole or in blocks.

    `columns` tells by the number of the line where in it the match is.
    """
    near = {number for line in columns for number in range(line - context, line + context + 1)}
    texts = split_lines(found, near) if isinstance(found, bytes) else read_lines(found, near)
    shown = render_path(path)
    return [
        SearchMatch(
            path=shown,
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
    """As many of the first matches as fit, one at least; the total stays the total."""
    for index, match in enumerate(result.matches):
        characters -= len(match.match_text) + sum(map(len, (*match.context_before, *match.context_after)))
        if index and characters < 0:
            return result.model_copy(update={"matches": result.matches[:index], "is_truncated": True})
    return result
