r"""Line endings: tell which ones a text has, and convert others to them. Pure.

`\n` and `\r\n` end a line; a lone `\r` is a character of its line.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate
from typing import NamedTuple

LF = b"\n"
CRLF = b"\r\n"


def find_ending(data: bytes) -> bytes | None:
    """Return the ending that every line of `data` has; None if there are both kinds or no line ending."""
    newlines = data.count(LF)
    crlf = data.count(CRLF)
    return None if not newlines or 0 < crlf < newlines else CRLF if crlf else LF


def find_usual_ending(data: bytes) -> bytes:
    """Return the ending that most lines of `data` have."""
    return CRLF if 2 * data.count(CRLF) > data.count(LF) else LF


def convert_newlines(text: bytes, ending: bytes) -> bytes:
    """Return `text` with every line ending as `ending`."""
    if ending == CRLF:
        return text.replace(CRLF, LF).replace(LF, CRLF)
    if CRLF not in text:
        return text
    *lines, rest = text.split(LF)
    # Every `\r` before the newline goes: of `\r\r\n` a CRLF would be left otherwise.
    return LF.join([*(line.rstrip(b"\r") for line in lines), rest])


def keep_newlines(before: bytes, after: bytes) -> bytes:
    """Return `after`, an edited `before`, with the line endings of `before` if these are of one kind.

    An edit that turns all of them into the other kind and changes nothing else is meant to, and stays.
    """
    ending = find_ending(before)
    if ending is None:
        return after
    converted = convert_newlines(after, ending)
    if converted == after or (find_ending(after) is not None and converted == before):
        return after
    return converted


class Region(NamedTuple):
    """A range of bytes."""

    start: int
    end: int


def find_regions(data: bytes, text: bytes) -> list[Region]:
    """Return where `text` occurs in `data`, one occurrence after the other, whatever line endings either has."""
    lines = data.split(LF)
    last = lines.pop()
    simple = [*(line.removesuffix(b"\r") for line in lines), last]
    joined, wanted = LF.join(simple), text.replace(CRLF, LF)
    starts = [0, *accumulate(len(line) + 1 for line in lines)]
    simple_starts = [0, *accumulate(len(line) + 1 for line in simple[:-1])]

    def locate(position: int) -> int:
        line = bisect_right(simple_starts, position) - 1
        return starts[line] + position - simple_starts[line]

    regions = []
    found = joined.find(wanted)
    while found >= 0:
        end = found + len(wanted)
        regions.append(Region(locate(found), locate(end)))
        found = joined.find(wanted, end)
    return regions
