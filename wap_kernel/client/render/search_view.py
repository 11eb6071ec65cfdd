"""What a search found, by file, with the match marked."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate, groupby
from typing import Any, NamedTuple

from wap_kernel.client.render import cutting, units
from wap_kernel.client.render.blocks import Block, Fold, Head, Line, Pre, Room, Row, Span, muted

Hit = Mapping[str, Any]
Places = Callable[[str], list[tuple[int, int]]]

OPEN_LINES = 60
"""Of all files together; what comes after is folded."""
LONGEST_LINE = 300
LONGEST_PATTERN = 200
MOST_MARKS = 20
"""On a line."""
MARK_COST = 90
"""Characters that a mark takes in HTML."""
SECONDS = 0.05
"""For marking what a regular expression matched, all lines together."""
MOST_REPEATS = 1000
"""Of a regular expression, one within the other: they are written out when it is compiled, which has no time limit."""


def blocks(data: Mapping[str, Any], asked: Mapping[str, Any], room: Room, prefix: str) -> list[Block]:
    matches: Sequence[Hit] = data["matches"]
    total = data.get("totalMatches", len(matches))
    groups = [(path, list(hits)) for path, hits in groupby(matches, key=lambda hit: str(hit["path"]))]
    files = f"in {units.counted(len(groups), 'file')}"
    facts = (_matches(total), files if total == len(matches) else f"the first {len(matches):,} {files}")
    pattern = str(asked.get("pattern", ""))
    head = Head("plain", "", (Span(pattern, "code"),), facts if total else ("no match",))
    places = _places(pattern, regex=bool(asked.get("regex")), ignore_case=bool(asked.get("ignore_case")))
    found: list[Block] = [head]
    left, shown, open_ = room.characters, 0, OPEN_LINES
    for path, hits in groups[: room.rows]:
        excerpt = _fitting(_excerpt(hits, places), left)
        if not excerpt:
            break
        left -= sum(map(_cost, excerpt))
        count = sum(1 for one in excerpt if one.is_hit)
        found += [Row((Span(path, "strong"),), facts=(str(len(hits)),)), *_folded(excerpt, open_)]
        open_, shown = max(open_ - len(excerpt), 0), shown + count
    if total > shown:
        found.append(muted(f"… {total - shown:,} more; search in a folder, or for something longer"))
    return found


class _Shown(NamedTuple):
    number: str
    line: Line
    is_hit: bool


def _cost(shown: _Shown) -> int:
    return cutting.LINE_COST + sum(len(span.text) + (MARK_COST if span.look else 0) for span in shown.line.spans)


def _fitting(excerpt: Sequence[_Shown], characters: int) -> list[_Shown]:
    costs = accumulate(map(_cost, excerpt))
    return [one for one, cost in zip(excerpt, costs, strict=True) if cost <= characters]


def _matches(count: int) -> str:
    return "1 match" if count == 1 else f"{count:,} matches"


def _folded(excerpt: Sequence[_Shown], open_: int) -> list[Block]:
    found: list[Block] = [_pre(excerpt[:open_])] if open_ else []
    if rest := excerpt[open_:]:
        found.append(Fold(units.counted(len(rest), "more line" if open_ else "line"), (_pre(rest),)))
    return found


def _pre(excerpt: Sequence[_Shown]) -> Pre:
    return Pre(tuple(one.line for one in excerpt), tuple(one.number for one in excerpt))


def _excerpt(hits: Sequence[Hit], places: Places) -> list[_Shown]:
    """The lines around the hits, each once, with a gap where some are missing between."""
    texts: dict[int, str] = {}
    numbers = {int(hit["line"]) for hit in hits}
    for hit in hits:
        line, before = int(hit["line"]), list(hit.get("contextBefore", ()))
        around = [*before, str(hit["matchText"]), *hit.get("contextAfter", ())]
        for number, text in enumerate(around, line - len(before)):
            if number not in numbers or number == line:
                texts[number] = cutting.line(str(text), LONGEST_LINE)
    width = len(str(max(texts, default=0)))
    found: list[_Shown] = []
    last = None
    for number in sorted(texts):
        if last is not None and number > last + 1:
            found.append(_Shown(" " * width, Line((Span("⋮"),), "muted"), False))
        is_hit = number in numbers
        spans = tuple(_marked(texts[number], places)) if is_hit else (Span(texts[number]),)
        found.append(_Shown(f"{number:>{width}}", Line(spans, "" if is_hit else "muted"), is_hit))
        last = number
    return found


def _marked(text: str, places: Places) -> Iterator[Span]:
    end = 0
    for start, stop in places(text)[:MOST_MARKS]:
        if start > end:
            yield Span(text[end:start])
        yield Span(text[start:stop], "mark")
        end = stop
    if end < len(text) or not text:
        yield Span(text[end:])


def _places(pattern: str, *, regex: bool, ignore_case: bool) -> Places:
    if not pattern or len(pattern) > LONGEST_PATTERN:
        return lambda text: []
    if regex:
        return _places_of_regex(pattern, ignore_case)
    literal = re.compile(re.escape(pattern), re.IGNORECASE if ignore_case else 0)
    return lambda text: [match.span() for match in literal.finditer(text)]


def _repeats(pattern: str) -> int:
    """At most so many: `{9}` and `{2,9}` are counted as if each stood within the next."""
    counts = (int(number[:9]) for part in re.findall(r"\{([^}]*)", pattern) for number in re.findall(r"\d+", part))
    return math.prod(max(count, 1) for count in counts)


def _places_of_regex(pattern: str, ignore_case: bool) -> Places:
    """The engine that searched is another one, so a pattern may mean nothing here, or take forever: then no marks."""
    if _repeats(pattern) > MOST_REPEATS:
        return lambda text: []
    import regex  # not needed, and so not loaded, for anything else

    try:
        compiled = regex.compile(pattern, regex.IGNORECASE if ignore_case else 0)
    except (regex.error, ValueError, OverflowError, RecursionError, MemoryError):
        return lambda text: []
    deadline = time.monotonic() + SECONDS

    def places(text: str) -> list[tuple[int, int]]:
        left = deadline - time.monotonic()
        if left <= 0:
            return []
        try:
            found = [match.span() for match in compiled.finditer(text, timeout=left)]
        except TimeoutError:
            return []
        return [span for span in found if span[1] > span[0]]

    return places
