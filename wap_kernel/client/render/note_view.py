"""Render texts of wap itself: notes and errors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wap_kernel.client.render import units
from wap_kernel.client.render.blocks import Block, Header, Room, Row, Span, muted_row, preformatted, python_hint
from wap_kernel.model.hints import address_person

Data = Mapping[str, Any]


def note(data: Data, request: Data, room: Room, prefix: str) -> list[Block]:
    excerpt = units.take_head(str(data.get("text", "")), room.characters, room.lines)
    return [preformatted(excerpt.text, bar=""), *_omission_blocks(excerpt, prefix)]


def problem(data: Data, request: Data, room: Room, prefix: str) -> list[Block]:
    """Render an error; it may quote any text, so that all lines but the first get a bar."""
    position = (f"line {data['line']}",) if "line" in data else ()
    blocks: list[Block] = [
        Header("failed", "not done", (), (*position, *([str(data["code"])] if data.get("code") else [])))
    ]
    blocks += _message_blocks(address_person(str(data.get("error", ""))), room, prefix, is_hint=False)
    hint = address_person(str(data.get("hint") or ""))
    return [*blocks, *_message_blocks(hint, room, prefix, is_hint=True)] if hint else blocks


def _message_blocks(text: str, room: Room, prefix: str, *, is_hint: bool) -> list[Block]:
    first, _, rest = text.partition("\n")
    blocks: list[Block] = [Row((Span(units.truncate_line(first), "muted" if is_hint else ""),))]
    excerpt = units.take_head(rest, room.characters // 2, room.lines)
    blocks += [preformatted(excerpt.text)] if excerpt.text else []
    return [*blocks, *_omission_blocks(excerpt, prefix)]


def _omission_blocks(excerpt: units.TextExcerpt, prefix: str) -> list[Block]:
    return (
        [muted_row(f"… {excerpt.describe_omission()}{python_hint(prefix, '_.to_dict() holds them')}")]
        if excerpt.describe_omission()
        else []
    )
