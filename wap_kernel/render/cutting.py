"""Cutting long texts at lines, and saying how much was left out."""

from __future__ import annotations

from typing import NamedTuple

LINE_COST = 24
"""What a line takes besides its characters: an indentation, a bar, a place of its own in a notebook's file."""
LONGEST_LINE = 1000
"""Characters of one line; what is longer is nothing that people read."""


class Cut(NamedTuple):
    text: str
    left_out: int
    """Lines."""


def cost(text: str) -> int:
    return len(text) + LINE_COST * text.count("\n")


def head(text: str, characters: int, lines: int) -> Cut:
    """The beginning of `text`, at no more than that cost."""
    end, kept = 0, 0
    while kept < lines and end < len(text):
        after = _end_of_line(text, end)
        if after + LINE_COST * kept > characters:
            break
        end, kept = after, kept + 1
    if kept == 0 and lines > 0 and text:  # a first line that is too long by itself
        end = min(characters, _end_of_line(text, 0))
    rest = text[end:]
    return Cut(text[:end], rest.count("\n") + (not rest.endswith("\n")) if rest else 0)


def tail(text: str, characters: int, lines: int) -> Cut:
    """The end of `text`, from the beginning of a line."""
    start, kept = len(text), 0
    while kept < lines and start > 0:
        before = text.rfind("\n", 0, start - 1) + 1
        if len(text) - before + LINE_COST * kept > characters:
            break
        start, kept = before, kept + 1
    if kept == 0 and lines > 0 and text:
        start = max(len(text) - characters, text.rfind("\n", 0, len(text) - 1) + 1)
    rest = text[:start]
    return Cut(text[start:], rest.count("\n") + (not rest.endswith("\n")) if rest else 0)


def line(text: str, longest: int = LONGEST_LINE) -> str:
    if len(text) <= longest:
        return text
    return f"{text[:longest]} … {len(text) - longest:,} more characters"


def _end_of_line(text: str, start: int) -> int:
    found = text.find("\n", start)
    return len(text) if found < 0 else found + 1
