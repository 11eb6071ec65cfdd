"""What stands where in a cell: which line the cursor is in, and whether the text there is a batch."""

from __future__ import annotations

import re
from typing import NamedTuple

from wap_kernel.model.errors import InvalidArgument
from wap_kernel.notebook.language import Line, parse_script
from wap_kernel.notebook.language.line_parser import MAGIC

_WORD = re.compile(r"\w*")
BATCHES = ("run", "check")
"""The sub-commands whose text is a batch."""


class Row(NamedTuple):
    """A line as it is understood, however many rows it takes. Its text has the length of what is written."""

    start: int
    """Where it begins in the cell."""
    text: str


def row_at(code: str, cursor: int) -> Row:
    start = code.rfind("\n", 0, cursor) + 1
    while start > 1 and code[start - 2] == "\\":
        start = code.rfind("\n", 0, start - 1) + 1
    end = _end(code, cursor)
    while end < len(code) and code[end - 1] == "\\":
        end = _end(code, end + 1)
    text = code[start:end].replace("\\\n", "  ")
    indent = len(text) - len(text.lstrip())
    magic = MAGIC.match(text, indent)
    return Row(start, text if magic is None else " " * magic.end() + text[magic.end() :])


def word_at(code: str, cursor: int) -> str:
    start = cursor
    while start > 0 and _WORD.fullmatch(code[start - 1]):
        start -= 1
    found = _WORD.match(code, start)
    return found[0] if found else ""


def with_text(code: str) -> Line | None:
    """The line of a cell that is one line over a text, or a batch; None where the cell holds lines."""
    try:
        lines = parse_script(code)
    except InvalidArgument:
        return None
    return lines[0] if len(lines) == 1 and lines[0].body is not None else None


def is_in_text(line: Line, code: str, cursor: int) -> bool:
    return code.count("\n", 0, cursor) + 1 >= line.first_line


def _end(code: str, place: int) -> int:
    found = code.find("\n", place)
    return len(code) if found < 0 else found
