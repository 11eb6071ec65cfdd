"""Find the line of a cell at the cursor, and whether the cursor is in a batch."""

from __future__ import annotations

import re
from typing import NamedTuple

from wap_kernel.model.errors import InvalidArgument
from wap_kernel.notebook.language import Line, parse_script
from wap_kernel.notebook.language.line_parser import MAGIC

_WORD = re.compile(r"\w*")
BATCHES = ("run", "check")
"""The sub-commands whose text is a batch."""


class CursorLine(NamedTuple):
    """A logical line, however many rows it takes; its text is as long as the source."""

    start: int
    """The offset of the line in the cell."""
    text: str


def line_at(code: str, cursor: int) -> CursorLine:
    """Return the logical line at the cursor, with a `%wap` before it blanked."""
    start = code.rfind("\n", 0, cursor) + 1
    while start > 1 and code[start - 2] == "\\":
        start = code.rfind("\n", 0, start - 1) + 1
    end = _line_end(code, cursor)
    while end < len(code) and code[end - 1] == "\\":
        end = _line_end(code, end + 1)
    text = code[start:end].replace("\\\n", "  ")
    indent = len(text) - len(text.lstrip())
    magic = MAGIC.match(text, indent)
    return CursorLine(start, text if magic is None else " " * magic.end() + text[magic.end() :])


def word_at(code: str, cursor: int) -> str:
    start = cursor
    while start > 0 and _WORD.fullmatch(code[start - 1]):
        start -= 1
    match = _WORD.match(code, start)
    return match[0] if match else ""


def parse_text_cell(code: str) -> Line | None:
    """Return the line of a cell that is one line over a text, or a batch; None where the cell holds lines."""
    try:
        lines = parse_script(code)
    except InvalidArgument:
        return None
    return lines[0] if len(lines) == 1 and lines[0].body is not None else None


def is_in_text(line: Line, code: str, cursor: int) -> bool:
    return code.count("\n", 0, cursor) + 1 >= line.first_line


def _line_end(code: str, offset: int) -> int:
    newline = code.find("\n", offset)
    return len(code) if newline < 0 else newline
