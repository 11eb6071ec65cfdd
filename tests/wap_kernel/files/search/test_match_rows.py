"""What a search's answer may weigh."""

from __future__ import annotations

import pytest

from wap_kernel.files.search.match_rows import truncate_result
from wap_kernel.model.results import SearchMatch, SearchResult


def found(*lengths: int) -> SearchResult:
    matches = [
        SearchMatch(
            path="a", line=line, column=1, match_text="m", context_before=["x" * (length - 1)], context_after=[]
        )
        for line, length in enumerate(lengths, 1)
    ]
    return SearchResult(matches=matches, is_truncated=False, total_matches=len(matches))


@pytest.mark.parametrize(
    ("lengths", "kept"),
    [((), 0), ((10, 10), 2), ((10, 11), 1), ((5, 5, 5, 5), 4), ((5, 5, 5, 6), 3), ((100, 1), 1), ((100,), 1)],
)
def test_an_answer_is_cut_where_its_text_gets_too_long(lengths: tuple[int, ...], kept: int) -> None:
    result = truncate_result(found(*lengths), characters=20)
    assert [match.line for match in result.matches] == list(range(1, kept + 1))
    assert (result.is_truncated, result.total_matches) == (kept < len(lengths), len(lengths))
