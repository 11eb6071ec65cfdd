"""A file with its line numbers."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from wap_kernel.client.render import cutting, units
from wap_kernel.client.render.blocks import Block, Fold, Head, Line, Pre, Room, Row, Span, code, held, lines_of, muted

OPEN_LINES = 40


def blocks(data: Mapping[str, Any], asked: Mapping[str, Any], room: Room, prefix: str) -> list[Block]:
    metadata = data.get("metadata", {})
    path = str(asked.get("path") or metadata.get("path", ""))
    content, first = str(data.get("content", "")), int(asked.get("first_line") or 1)
    total, returned = data.get("totalLines"), data.get("returnedLines")
    facts = [units.size(metadata["size"])] if "size" in metadata else []
    if isinstance(total, int) and isinstance(returned, int):
        facts.append(_part(first, returned, total))
    facts += ["CRLF"] if (is_crlf := _is_crlf(content)) else []
    facts += ["not UTF-8: some bytes are shown replaced"] if data.get("isLossy") else []
    head = Head("plain", "", code(path), tuple(facts))
    if data.get("encoding") == "base64":
        return [head, muted(f"{len(content):,} characters of base64{held(prefix, 'print(_) shows them')}")]
    text = content.replace("\r\n", "\n") if is_crlf else content
    cut = cutting.head(text, room.characters, room.lines)
    lines = lines_of(cut.text)
    found: list[Block] = [head]
    width = len(str(first + len(lines)))
    found += [_numbered(lines[:OPEN_LINES], first, width)] if lines else [muted("empty")] if not total else []
    if rest := lines[OPEN_LINES:]:
        label = units.counted(len(rest), "more line")
        found.append(Fold(label, (_numbered(rest, first + OPEN_LINES, width),)))
    after = first + len(lines)
    has_more = after <= total if data.get("isTruncated") and isinstance(total, int) else cut.left_out > 0
    if has_more:
        again = f"{prefix}read {shlex.quote(path)} --lines {after}:{after + 199}"
        also = f"{_rest(cut.of_line)}, and " if cut.of_line else ""
        found.append(Row((Span(f"… {also}more: ", "muted"), Span(again, "type"))))
    elif cut.of_line:
        found.append(muted(f"… {_rest(cut.of_line)}{held(prefix, 'print(_) shows them')}"))
    return found


def _rest(characters: int) -> str:
    return f"{units.counted(characters, 'more character')} of this line"


def _part(first: int, returned: int, total: int) -> str:
    if returned == total:
        return units.counted(total, "line")
    if not returned:
        return f"none of {units.counted(total, 'line')}"
    return f"line {first} of {total:,}" if returned == 1 else f"lines {first} to {first + returned - 1} of {total:,}"


def _numbered(lines: Sequence[str], first: int, width: int) -> Pre:
    numbers = tuple(f"{first + place:>{width}}" for place in range(len(lines)))
    return Pre(tuple(Line((Span(line),)) for line in lines), numbers)


def _is_crlf(text: str) -> bool:
    """All of it; where only some lines are, one wants to see which."""
    return "\r\n" in text and text.count("\r\n") == text.count("\n") == text.count("\r")
