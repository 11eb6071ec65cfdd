"""Cutting long texts at lines, and saying how much was left out."""

from __future__ import annotations

from typing import NamedTuple

from wap_kernel.client.render import units

LINE_COST = 24
"""What a line takes besides its characters: an indentation, a bar, a place of its own in a notebook's file."""
LONGEST_LINE = 1000
"""Characters of one line; what is longer is nothing that people read."""


class Cut(NamedTuple):
    text: str
    left_out: int
    """Lines."""
    of_line: int = 0
    """Characters of a line that is too long by itself; the rest of it is in the text."""

    def said(self, which: str = "more") -> str:
        """What is not there; empty where all is."""
        characters = f"{units.counted(self.of_line, f'{which} character')} of this line" if self.of_line else ""
        lines = units.counted(self.left_out, f"{which} line") if self.left_out else ""
        return " and ".join(part for part in (characters, lines) if part)


def cost(text: str) -> int:
    return len(text) + LINE_COST * text.count("\n")


def head(text: str, characters: int, lines: int, longest: int = LONGEST_LINE) -> Cut:
    """The beginning of `text`, at no more than that cost. Of a first line that costs too much by itself, `longest`
    characters: to the writers a longer one is too long once more, and what they say of it would not be all of it."""
    end, kept = 0, 0
    while kept < lines and end < len(text):
        after = _end_of_line(text, end)
        if after + LINE_COST * kept > characters:
            break
        end, kept = after, kept + 1
    if kept == 0 and lines > 0 and text:
        whole = _end_of_line(text, 0)
        shown = min(characters, longest, len(text[:whole].removesuffix("\n")))
        return Cut(text[:shown], _count(text[whole:]), len(text[:whole].removesuffix("\n")) - shown)
    return Cut(text[:end], _count(text[end:]))


def tail(text: str, characters: int, lines: int) -> Cut:
    """The end of `text`, from the beginning of a line."""
    start, kept = len(text), 0
    while kept < lines and start > 0:
        before = text.rfind("\n", 0, start - 1) + 1
        if len(text) - before + LINE_COST * kept > characters:
            break
        start, kept = before, kept + 1
    if kept == 0 and lines > 0 and text:
        begins = text.rfind("\n", 0, len(text) - 1) + 1
        start = max(len(text) - min(characters, LONGEST_LINE), begins)
        return Cut(text[start:], _count(text[:begins]), start - begins)
    return Cut(text[start:], _count(text[:start]))


def line(text: str, longest: int = LONGEST_LINE) -> str:
    if len(text) <= longest:
        return text
    return f"{text[:longest]} … {len(text) - longest:,} more characters"


def _count(text: str) -> int:
    return text.count("\n") + (not text.endswith("\n")) if text else 0


def _end_of_line(text: str, start: int) -> int:
    found = text.find("\n", start)
    return len(text) if found < 0 else found + 1
