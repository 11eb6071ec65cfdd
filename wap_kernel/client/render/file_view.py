"""Render a file with its line numbers, and unified diffs."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from wap_kernel.client.render import units
from wap_kernel.client.render.blocks import (
    Block,
    Fold,
    Header,
    LineTone,
    Pre,
    Room,
    Row,
    Span,
    TextLine,
    code_spans,
    muted_row,
    python_hint,
    split_lines,
)

OPEN_LINES = 40
"""Lines of a file or a diff that are not folded."""
_DIFF_TONES: dict[str, LineTone] = {"+": "added", "-": "removed", "@": "hunk", "\\": "muted"}

_DIFF_HEADS = ("--- ", "+++ ", "diff ", "index ", "new file ", "deleted file ", "similarity ", "rename ", "old mode ")
"""The beginnings of the lines that name a file in the diff of a command."""


def file_blocks(data: Mapping[str, Any], request: Mapping[str, Any], room: Room, prefix: str) -> list[Block]:
    metadata = data.get("metadata", {})
    path = str(request.get("path") or metadata.get("path", ""))
    content, first = str(data.get("content", "")), int(request.get("first_line") or 1)
    total, returned = data.get("totalLines"), data.get("returnedLines")
    facts = [units.format_size(metadata["size"])] if "size" in metadata else []
    if isinstance(total, int) and isinstance(returned, int):
        facts.append(_describe_part(first, returned, total))
    facts += ["CRLF"] if (is_crlf := _is_crlf(content)) else []
    facts += ["not UTF-8: some bytes are shown replaced"] if data.get("isLossy") else []
    head = Header("plain", "", code_spans(path), tuple(facts))
    if data.get("encoding") == "base64":
        return [head, muted_row(f"{len(content):,} characters of base64{python_hint(prefix, 'print(_) shows them')}")]
    text = content.replace("\r\n", "\n") if is_crlf else content
    excerpt = units.take_head(text, room.characters, room.lines)
    lines = split_lines(excerpt.text)
    blocks: list[Block] = [head]
    width = len(str(first + len(lines)))
    blocks += [_number_lines(lines[:OPEN_LINES], first, width)] if lines else [muted_row("empty")] if not total else []
    if rest := lines[OPEN_LINES:]:
        label = units.format_count(len(rest), "more line")
        blocks.append(Fold(label, (_number_lines(rest, first + OPEN_LINES, width),)))
    after = first + len(lines)
    has_more = after <= total if data.get("isTruncated") and isinstance(total, int) else excerpt.omitted_lines > 0
    if has_more:
        again = f"{prefix}read {shlex.quote(path)} --lines {after}:{after + 199}"
        also = f"{_describe_rest(excerpt.omitted_characters)}, and " if excerpt.omitted_characters else ""
        blocks.append(Row((Span(f"… {also}more: ", "muted"), Span(again, "type"))))
    elif excerpt.omitted_characters:
        blocks.append(
            muted_row(f"… {_describe_rest(excerpt.omitted_characters)}{python_hint(prefix, 'print(_) shows them')}")
        )
    return blocks


def _describe_rest(characters: int) -> str:
    return f"{units.format_count(characters, 'more character')} of this line"


def _describe_part(first: int, returned: int, total: int) -> str:
    if returned == total:
        return units.format_count(total, "line")
    if not returned:
        return f"none of {units.format_count(total, 'line')}"
    return f"line {first} of {total:,}" if returned == 1 else f"lines {first} to {first + returned - 1} of {total:,}"


def _number_lines(lines: Sequence[str], first: int, width: int) -> Pre:
    numbers = tuple(f"{first + index:>{width}}" for index in range(len(lines)))
    return Pre(tuple(TextLine((Span(line),)) for line in lines), numbers)


def _is_crlf(text: str) -> bool:
    """Return whether all lines end with CRLF; where only some do, the view shows which."""
    return "\r\n" in text and text.count("\r\n") == text.count("\n") == text.count("\r")


# -- diffs; the signs stay, so that the colours are not needed


def diff_blocks(diff: str, characters: int, lines: int, *, is_cut: bool = False, is_open: bool = False) -> list[Block]:
    """Return the blocks of a unified diff; a long one is folded unless `is_open`."""
    excerpt = units.take_head(_without_names(diff), characters, lines)
    body = Pre(tuple(TextLine((Span(line),), _DIFF_TONES.get(line[:1], "")) for line in split_lines(excerpt.text)))
    blocks: list[Block] = [body] if body.lines else []
    if excerpt.describe_omission() or is_cut:
        blocks.append(muted_row(f"… {excerpt.describe_omission() or 'the end'} of the diff left out", is_below=True))
    if len(body.lines) > OPEN_LINES and not is_open:
        return [Fold(f"diff, {len(body.lines):,} lines", tuple(blocks))]
    return blocks


def diff_tone(line: str) -> LineTone:
    """Return the tone of a line in the diff of a command's output, which has the names of files between hunks."""
    if line.startswith(_DIFF_HEADS):
        return "muted"
    return _DIFF_TONES.get(line[:1], "")


def _without_names(diff: str) -> str:
    """Return the diff without its file names, which the row above has."""
    if diff.startswith("--- "):
        rest = diff.partition("\n")[2]
        second, _, body = rest.partition("\n")
        if second.startswith("+++ ") and body.startswith("@@"):
            return body
    return diff
