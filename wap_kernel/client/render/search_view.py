"""Render the matches of a search by file, with each match marked."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate, groupby
from typing import Any, NamedTuple

from wap_kernel.client.render import units
from wap_kernel.client.render.blocks import Block, Fold, Header, Pre, Room, Row, Span, TextLine, muted_row

Hit = Mapping[str, Any]
FindMarks = Callable[[str], list[tuple[int, int]]]

OPEN_LINES = 60
"""Lines of all files together that are not folded."""
LONGEST_LINE = 300
LONGEST_PATTERN = 200
MOST_MARKS = 20
"""Marks on one line."""
MARK_COST = 90
"""Characters that a mark takes in HTML."""
SECONDS = 0.05
"""Seconds for marking the matches of a regular expression in all lines together."""
MOST_REPEATS = 1000
"""Nested repetitions of a regular expression: compiling writes them out, and has no time limit."""


def search_blocks(data: Mapping[str, Any], request: Mapping[str, Any], room: Room, prefix: str) -> list[Block]:
    matches: Sequence[Hit] = data["matches"]
    total = data.get("totalMatches", len(matches))
    groups = [(path, list(hits)) for path, hits in groupby(matches, key=lambda hit: str(hit["path"]))]
    files = f"in {units.format_count(len(groups), 'file')}"
    facts = (_count_matches(total), files if total == len(matches) else f"the first {len(matches):,} {files}")
    pattern = str(request.get("pattern", ""))
    head = Header("plain", "", (Span(pattern, "code"),), facts if total else ("no match",))
    find_marks = _mark_finder(pattern, regex=bool(request.get("regex")), ignore_case=bool(request.get("ignore_case")))
    blocks: list[Block] = [head]
    left, displayed, open_ = room.characters, 0, OPEN_LINES
    for path, hits in groups[: room.rows]:
        excerpt = _take_fitting(_excerpt(hits, find_marks), left)
        if not excerpt:
            break
        left -= sum(map(_cost, excerpt))
        count = sum(1 for one in excerpt if one.is_hit)
        blocks += [Row((Span(path, "strong"),), facts=(str(len(hits)),)), *_fold(excerpt, open_)]
        open_, displayed = max(open_ - len(excerpt), 0), displayed + count
    if total > displayed:
        blocks.append(muted_row(f"… {total - displayed:,} more; search in a folder, or for something longer"))
    return blocks


class _ExcerptLine(NamedTuple):
    number: str
    line: TextLine
    is_hit: bool


def _cost(excerpt: _ExcerptLine) -> int:
    return units.LINE_COST + sum(len(span.text) + (MARK_COST if span.kind else 0) for span in excerpt.line.spans)


def _take_fitting(excerpt: Sequence[_ExcerptLine], characters: int) -> list[_ExcerptLine]:
    costs = accumulate(map(_cost, excerpt))
    return [one for one, cost in zip(excerpt, costs, strict=True) if cost <= characters]


def _count_matches(count: int) -> str:
    return "1 match" if count == 1 else f"{count:,} matches"


def _fold(excerpt: Sequence[_ExcerptLine], open_: int) -> list[Block]:
    found: list[Block] = [_pre(excerpt[:open_])] if open_ else []
    if rest := excerpt[open_:]:
        found.append(Fold(units.format_count(len(rest), "more line" if open_ else "line"), (_pre(rest),)))
    return found


def _pre(excerpt: Sequence[_ExcerptLine]) -> Pre:
    return Pre(tuple(one.line for one in excerpt), tuple(one.number for one in excerpt))


def _excerpt(hits: Sequence[Hit], find_marks: FindMarks) -> list[_ExcerptLine]:
    """Return the lines around the hits, each once, with a mark where lines are missing."""
    texts: dict[int, str] = {}
    numbers = {int(hit["line"]) for hit in hits}
    for hit in hits:
        line, before = int(hit["line"]), list(hit.get("contextBefore", ()))
        around = [*before, str(hit["matchText"]), *hit.get("contextAfter", ())]
        for number, text in enumerate(around, line - len(before)):
            if number not in numbers or number == line:
                texts[number] = units.truncate_line(str(text), LONGEST_LINE)
    width = len(str(max(texts, default=0)))
    found: list[_ExcerptLine] = []
    last = None
    for number in sorted(texts):
        if last is not None and number > last + 1:
            found.append(_ExcerptLine(" " * width, TextLine((Span("⋮"),), "muted"), False))
        is_hit = number in numbers
        spans = tuple(_mark(texts[number], find_marks)) if is_hit else (Span(texts[number]),)
        found.append(_ExcerptLine(f"{number:>{width}}", TextLine(spans, "" if is_hit else "muted"), is_hit))
        last = number
    return found


def _mark(text: str, find_marks: FindMarks) -> Iterator[Span]:
    end = 0
    for start, stop in find_marks(text)[:MOST_MARKS]:
        if start > end:
            yield Span(text[end:start])
        yield Span(text[start:stop], "mark")
        end = stop
    if end < len(text) or not text:
        yield Span(text[end:])


def _mark_finder(pattern: str, *, regex: bool, ignore_case: bool) -> FindMarks:
    if not pattern or len(pattern) > LONGEST_PATTERN:
        return lambda text: []
    if regex:
        return _regex_mark_finder(pattern, ignore_case)
    literal = re.compile(re.escape(pattern), re.IGNORECASE if ignore_case else 0)
    return lambda text: [match.span() for match in literal.finditer(text)]


def _count_repeats(pattern: str) -> int:
    """Return an upper bound of repetitions: `{9}` and `{2,9}` count as if each were nested in the next."""
    counts = (int(number[:9]) for part in re.findall(r"\{([^}]*)", pattern) for number in re.findall(r"\d+", part))
    return math.prod(max(count, 1) for count in counts)


def _regex_mark_finder(pattern: str, ignore_case: bool) -> FindMarks:
    """Return a finder of marks; it finds none where this engine rejects the pattern or takes too long.

    The engine that searched is another one.
    """
    if _count_repeats(pattern) > MOST_REPEATS:
        return lambda text: []
    import regex  # only needed here, so loaded late

    try:
        compiled = regex.compile(pattern, regex.IGNORECASE if ignore_case else 0)
    except (regex.error, ValueError, OverflowError, RecursionError, MemoryError):
        return lambda text: []
    deadline = time.monotonic() + SECONDS

    def find_marks(text: str) -> list[tuple[int, int]]:
        left = deadline - time.monotonic()
        if left <= 0:
            return []
        try:
            found = [match.span() for match in compiled.finditer(text, timeout=left)]
        except TimeoutError:
            return []
        return [span for span in found if span[1] > span[0]]

    return find_marks
