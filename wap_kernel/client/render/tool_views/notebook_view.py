"""Render a notebook as its cells, with their outputs as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from wap_kernel.client.render import units
from wap_kernel.client.render.blocks import (
    Block,
    Fold,
    Header,
    Room,
    Row,
    Span,
    code_spans,
    muted_row,
    preformatted,
    python_hint,
)

Data = Mapping[str, Any]


def notebook_blocks(data: Data, request: Data, room: Room, prefix: str) -> list[Block]:
    cells: Sequence[Data] = data["cells"]
    listed = cells[: room.rows]
    facts = [units.format_count(int(data.get("totalCells", len(cells))), "cell"), str(data.get("language") or "")]
    blocks: list[Block] = [Header("plain", "", code_spans(request.get("path", "")), tuple(filter(None, facts)))]
    shares = room.share([units.text_cost(_text(cell)) for cell in listed])
    for cell, share in zip(listed, shares, strict=True):
        blocks += _cell_blocks(cell, share, room.lines)
    omitted = len(cells) - len(listed)
    if omitted or data.get("isTruncated"):
        where = python_hint(prefix, "_.to_dict() holds them") if omitted else ""
        blocks.append(muted_row(f"… {f'{omitted:,} more cells' if omitted else 'more was left out'}{where}"))
    return blocks


def _text(cell: Data) -> str:
    return "\n".join((str(cell.get("source", "")), *(str(one.get("text", "")) for one in cell.get("outputs") or ())))


def _cell_blocks(cell: Data, characters: int, lines: int) -> list[Block]:
    count = cell.get("executionCount")
    facts = (f"[{count}]",) if count is not None else ()
    name = Span(units.truncate_line(str(cell.get("id", ""))), "code")
    blocks: list[Block] = [Row((Span(f"{cell.get('type', '')} ", "muted"), name), facts=facts)]
    source = units.take_head(str(cell.get("source", "")), characters, lines)
    blocks += [preformatted(source.text)] if source.text else []
    outputs: Sequence[Data] = cell.get("outputs") or ()
    texts = [units.take_head(str(one.get("text", "")), characters, lines).text for one in outputs]
    rendered = [preformatted(text, bar=">") for text in texts if text]
    left = int(cell.get("outputsLeftOut") or 0)
    more = [muted_row(f"… {units.format_count(left, 'more output')}", is_below=True)] if left else []
    if rendered or more:
        blocks.append(Fold(units.format_count(len(outputs) + left, "output"), (*rendered, *more)))
    return blocks
