"""Write blocks as plain text for a terminal, with all control characters made visible."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from wap_kernel.client.render import units
from wap_kernel.client.render.blocks import Bar, Block, Fields, Fold, Header, Pre, Row, Span, Table

WORD = 7
"""The width of an outcome's word."""
BAR_WIDTH = 24
WIDEST_CELL = 60


def write(blocks: Iterable[Block]) -> str:
    return "\n".join(line.rstrip() for line in _lines(blocks, ""))


def _lines(blocks: Iterable[Block], indent: str) -> Iterator[str]:
    """Yield the lines of blocks; those that follow an outcome are indented below it."""
    below = indent
    for block in blocks:
        if isinstance(block, Header):
            yield _head(block)
            indent = below = "  "
        elif isinstance(block, Row):
            if not block.is_below:
                below = indent if block.tone is None else indent + " " * (WORD + 1)
            yield _row(block, below if block.is_below else indent)
        elif isinstance(block, Pre):
            yield from _pre(block, below)
        elif isinstance(block, Fold):
            yield from _lines(block.blocks, below)
        elif isinstance(block, Table):
            yield from _table(block, indent)
        elif isinstance(block, Fields):
            yield from _fields(block, indent)
        else:
            yield indent + _bar(block)


def _head(head: Header) -> str:
    words = [head.name, head.word, _inline(head.spans), *head.facts]
    return units.escape_one_line(units.join_facts(words))


def _row(row: Row, indent: str) -> str:
    facts = f" ({', '.join(row.facts)})" if row.facts else ""
    word = f"{row.word:{WORD}} " if row.tone is not None else ""
    return indent + units.escape_one_line(word + _inline(row.spans) + facts)


def _inline(spans: Sequence[Span]) -> str:
    return "".join(span.text for span in spans)


def _pre(pre: Pre, indent: str) -> Iterator[str]:
    width = max(map(len, pre.gutter), default=0)
    for number, line in enumerate(pre.lines):
        gutter = f"{pre.gutter[number]:>{width}} " if pre.gutter else ""
        bar = f"{pre.bar} " if pre.bar else ""
        text = _inline(line.spans)
        text = units.escape_invisible(text if pre.bar == "$" else units.truncate_line(text), "\t")
        yield f"{indent}{gutter}{bar}{text}"


def _table(table: Table, indent: str) -> Iterator[str]:
    rows = [table.headers, *(tuple(_cell(cell) for cell in row) for row in table.rows)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield indent + "  ".join(f"{cell:{width}}" for cell, width in zip(row, widths, strict=True))


def _cell(spans: Sequence[Span]) -> str:
    text = units.escape_one_line(_inline(spans))
    return text if len(text) <= WIDEST_CELL else text[: WIDEST_CELL - 1] + "…"


def _fields(fields: Fields, indent: str) -> Iterator[str]:
    width = max((len(name) for name, _ in fields.rows), default=0)
    for name, spans in fields.rows:
        yield f"{indent}{units.escape_one_line(name):{width}}  {units.escape_one_line(_inline(spans))}"


def _bar(bar: Bar) -> str:
    filled = BAR_WIDTH * bar.done // max(bar.total, 1)
    return f"[{'#' * filled}{'-' * (BAR_WIDTH - filled)}] {bar.done} of {bar.total}"
