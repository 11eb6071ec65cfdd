"""Texts of our own: notes, and what went wrong."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wap_kernel.client.render import cutting
from wap_kernel.client.render.blocks import Block, Head, Room, Row, Span, held, muted, preformatted

Data = Mapping[str, Any]


def note(data: Data, asked: Data, room: Room, prefix: str) -> list[Block]:
    cut = cutting.head(str(data.get("text", "")), room.characters, room.lines)
    return [preformatted(cut.text, bar=""), *_more(cut, prefix)]


def problem(data: Data, asked: Data, room: Room, prefix: str) -> list[Block]:
    """An error; it may quote anything, so that only its first line stands without a bar."""
    place = (f"line {data['line']}",) if "line" in data else ()
    found: list[Block] = [Head("failed", "not done", (), (*place, *([str(data["code"])] if data.get("code") else [])))]
    found += _said(str(data.get("error", "")), room, prefix, is_hint=False)
    return [*found, *_said(str(data["hint"]), room, prefix, is_hint=True)] if data.get("hint") else found


def _said(text: str, room: Room, prefix: str, *, is_hint: bool) -> list[Block]:
    first, _, rest = text.partition("\n")
    found: list[Block] = [Row((Span(cutting.line(first), "muted" if is_hint else ""),))]
    cut = cutting.head(rest, room.characters // 2, room.lines)
    found += [preformatted(cut.text)] if cut.text else []
    return [*found, *_more(cut, prefix)]


def _more(cut: cutting.Cut, prefix: str) -> list[Block]:
    return [muted(f"… {cut.said()}{held(prefix, '_.to_dict() holds them')}")] if cut.said() else []
