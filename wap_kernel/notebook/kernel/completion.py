"""Complete the text of a cell, and tell whether a cell is complete."""

from __future__ import annotations

import re
from typing import Literal

from wap_kernel.model.errors import InvalidArgument
from wap_kernel.notebook.kernel import operation_help
from wap_kernel.notebook.kernel.cell_position import BATCHES, is_in_text, line_at, parse_text_cell
from wap_kernel.notebook.language import Completer, Completions, Line, parse_script
from wap_kernel.notebook.language.line_parser import needs_body, parse_words

Completeness = Literal["complete", "incomplete", "invalid"]

_TYPE = re.compile(r"""\btype["']?\s*:\s*["']?(\w*)$""")


def complete(completer: Completer, code: str, cursor: int) -> Completions:
    line = parse_text_cell(code)
    if line is not None and is_in_text(line, code, cursor):
        return complete_batch(code, cursor) if line.command.name in BATCHES else Completions([], cursor, cursor)
    row = line_at(code, cursor)
    indent = len(row.text) - len(row.text.lstrip())
    begin = row.start + min(indent, cursor - row.start)
    completions = completer.complete(row.text[begin - row.start : cursor - row.start], cursor - begin)
    return Completions(completions.matches, begin + completions.start, begin + completions.end)


def check_completeness(code: str) -> Completeness:
    """Return whether Enter in a console runs the cell (`complete`) or begins another row (`incomplete`)."""
    if code.endswith("\\"):
        return "incomplete"
    try:
        lines = parse_script(code)
    except InvalidArgument:
        return "incomplete" if _waits_for_text(code) else "invalid"
    if len(lines) == 1 and lines[0].body is not None:
        return _check_text(lines[0], code)
    return "complete"


def complete_batch(code: str, cursor: int) -> Completions:
    """Complete the type of an operation in a batch."""
    found = _TYPE.search(code[:cursor])
    if found is None:
        return Completions([], cursor, cursor)
    return Completions(
        [name for name in operation_help.names() if name.startswith(found[1])], cursor - len(found[1]), cursor
    )


def _waits_for_text(code: str) -> bool:
    try:
        return needs_body(parse_words(code))
    except InvalidArgument:
        return False


def _check_text(line: Line, code: str) -> Completeness:
    """Return whether the text of a cell is complete: a text ends with an empty row, JSON with its last bracket."""
    from wap_kernel.notebook.language import batch_cell

    body = line.body or ""
    is_json = body.lstrip().startswith(("[", "{"))
    if is_json and _is_open(body):
        return "incomplete"
    if not is_json and not code.endswith("\n"):
        return "incomplete"
    if line.command.name not in BATCHES:
        return "complete"
    try:
        batch_cell.parse_batch(body, None, line.first_line)
    except InvalidArgument:
        return "invalid"
    return "complete"


def _is_open(json: str) -> bool:
    outside = re.sub(r'"(?:[^"\\]|\\.)*(?:"|\\?\Z)', "", json, flags=re.DOTALL)
    opened, closed = (sum(outside.count(bracket) for bracket in pair) for pair in ("[{", "]}"))
    return opened > closed
