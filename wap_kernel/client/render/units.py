"""Format sizes, times and counts as text, and truncate text to the room that it has."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timezone
from typing import NamedTuple

from wap_kernel.model.text import escape_invisible, escape_one_line

__all__ = [
    "LINE_COST",
    "TextExcerpt",
    "elapsed_milliseconds",
    "escape_invisible",
    "escape_one_line",
    "format_count",
    "format_deadline",
    "format_duration",
    "format_size",
    "format_time",
    "join_facts",
    "take_head",
    "take_tail",
    "text_cost",
    "truncate_line",
]

LINE_COST = 24
"""Characters that a line costs besides its own: an indentation, a bar, a string of its own in a notebook's file."""
LONGEST_LINE = 1000
"""Characters of one line; people do not read longer ones."""


def format_size(count: object) -> str:
    """Return a number of bytes as people write it, such as `1.2 MB`."""
    if not isinstance(count, int | float):
        return str(count)
    if count < 1000:
        return format_count(int(count), "byte")
    amount, units = count / 1000, ["KB", "MB", "GB"]
    while amount >= 999.5 and len(units) > 1:
        amount /= 1000
        units.pop(0)
    return f"{amount:.1f} {units[0]}" if amount < 9.95 else f"{amount:.0f} {units[0]}"


def format_duration(milliseconds: float) -> str:
    if milliseconds < 1000:
        return f"{milliseconds:.0f} ms"
    seconds = milliseconds / 1000
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"


def format_count(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def elapsed_milliseconds(start: object, end: object) -> float | None:
    """Return the milliseconds between two times, or None where one of them is not a time."""
    first, last = _parse_time(start), _parse_time(end)
    return None if first is None or last is None else (last - first).total_seconds() * 1000


def format_time(time: object, *, date: bool = True) -> str:
    """Return a time in the local zone, which it names; a value that is not a time is returned as text."""
    parsed = _parse_time(time)
    if parsed is None:
        return str(time or "")
    local = parsed.astimezone()
    return f"{local:%Y-%m-%d %H:%M:%S %Z}" if date else f"{local:%H:%M %Z}"


def format_deadline(time: object, now: datetime | None = None) -> str:
    """Return a time in the local zone, and how long it is until then."""
    parsed = _parse_time(time)
    if parsed is None:
        return str(time or "")
    left = (parsed - (now or datetime.now(timezone.utc))).total_seconds()
    return f"{format_time(time, date=False)}, {_format_rest(left)}"


def _format_rest(seconds: float) -> str:
    """Return how long is left, in minutes as long as there are some."""
    if seconds <= 0:
        return "over"
    minutes = round(seconds / 60)
    if minutes < 2:
        return f"{format_count(max(round(seconds), 1), 'second')} left"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min left" if hours else f"{minutes} min left"


def _parse_time(time: object) -> datetime | None:
    text = str(time)
    if not text.endswith("Z"):
        return None
    try:
        return datetime.fromisoformat(text[:-1] + "+00:00")
    except ValueError:
        return None


def join_facts(facts: Iterable[str]) -> str:
    return " · ".join(fact for fact in facts if fact)


# -- truncation


class TextExcerpt(NamedTuple):
    """The part of a text that is shown, and how much of the text was omitted."""

    text: str
    omitted_lines: int
    omitted_characters: int = 0
    """Characters omitted of a line that is too long by itself; the rest of the line is in the text."""

    def describe_omission(self, which: str = "more") -> str:
        """Return how much was omitted, or an empty text where nothing was."""
        characters = (
            f"{format_count(self.omitted_characters, f'{which} character')} of this line"
            if self.omitted_characters
            else ""
        )
        lines = format_count(self.omitted_lines, f"{which} line") if self.omitted_lines else ""
        return " and ".join(part for part in (characters, lines) if part)


def text_cost(text: str) -> int:
    return len(text) + LINE_COST * text.count("\n")


def take_head(text: str, characters: int, lines: int, longest: int = LONGEST_LINE) -> TextExcerpt:
    """Return the first lines of `text` that cost at most `characters`.

    A first line that costs too much by itself is cut after `longest` characters. The writers would truncate a longer
    line once more, and the number of omitted characters would be wrong.
    """
    end, count = 0, 0
    while count < lines and end < len(text):
        after = _end_of_line(text, end)
        if after + LINE_COST * count > characters:
            break
        end, count = after, count + 1
    if count == 0 and lines > 0 and text:
        line_end = _end_of_line(text, 0)
        line_length = len(text[:line_end].removesuffix("\n"))
        length = min(characters, longest, line_length)
        return TextExcerpt(text[:length], _count_lines(text[line_end:]), line_length - length)
    return TextExcerpt(text[:end], _count_lines(text[end:]))


def take_tail(text: str, characters: int, lines: int) -> TextExcerpt:
    """Return the last lines of `text` that cost at most `characters`."""
    start, count = len(text), 0
    while count < lines and start > 0:
        before = text.rfind("\n", 0, start - 1) + 1
        if len(text) - before + LINE_COST * count > characters:
            break
        start, count = before, count + 1
    if count == 0 and lines > 0 and text:
        line_start = text.rfind("\n", 0, len(text) - 1) + 1
        start = max(len(text) - min(characters, LONGEST_LINE), line_start)
        return TextExcerpt(text[start:], _count_lines(text[:line_start]), start - line_start)
    return TextExcerpt(text[start:], _count_lines(text[:start]))


def truncate_line(text: str, longest: int = LONGEST_LINE) -> str:
    if len(text) <= longest:
        return text
    return f"{text[:longest]} … {len(text) - longest:,} more characters"


def _count_lines(text: str) -> int:
    return text.count("\n") + (not text.endswith("\n")) if text else 0


def _end_of_line(text: str, start: int) -> int:
    newline = text.find("\n", start)
    return len(text) if newline < 0 else newline + 1
