"""Write blocks as text for a terminal, with all control characters made visible, and with colours on request."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from wap_kernel.client.render import units
from wap_kernel.client.render.blocks import Bar, Block, Fields, Fold, Header, Pre, Row, Span, Table
from wap_kernel.client.render.writers.palette import NO_COLORS, Palette

WORD = 7
"""The width of an outcome's word."""
BAR_WIDTH = 24
WIDEST_CELL = 60


def write(blocks: Iterable[Block], palette: Palette = NO_COLORS) -> str:
    return "\n".join(line.rstrip() for line in _TextWriter(palette).lines(blocks, ""))


class _TextWriter:
    """A writer with one palette; every text is escaped before it is painted."""

    def __init__(self, palette: Palette) -> None:
        self._paint = palette.paint

    def lines(self, blocks: Iterable[Block], indent: str) -> Iterator[str]:
        """Yield the lines of blocks; those that follow an outcome are indented below it."""
        below = indent
        for block in blocks:
            if isinstance(block, Header):
                yield self._head(block)
                indent = below = "  "
            elif isinstance(block, Row):
                if not block.is_below:
                    below = indent if block.tone is None else indent + " " * (WORD + 1)
                yield self._row(block, below if block.is_below else indent)
            elif isinstance(block, Pre):
                yield from self._pre(block, below)
            elif isinstance(block, Fold):
                yield from self.lines(block.blocks, below)
            elif isinstance(block, Table):
                yield from self._table(block, indent)
            elif isinstance(block, Fields):
                yield from self._fields(block, indent)
            else:
                yield indent + _bar(block)

    def _head(self, head: Header) -> str:
        named = [self._paint(units.escape_one_line(head.name), "strong")] if head.name else []
        word = [self._paint(units.escape_one_line(head.word), head.tone)] if head.word else []
        facts = [units.escape_one_line(fact) for fact in head.facts]
        return units.join_facts([*named, *word, self._inline(head.spans), *facts])

    def _row(self, row: Row, indent: str) -> str:
        facts = f" ({', '.join(row.facts)})" if row.facts else ""
        word = "" if row.tone is None else self._paint(units.escape_one_line(f"{row.word:{WORD}}"), row.tone) + " "
        return indent + word + self._inline(row.spans) + self._paint(units.escape_one_line(facts), "muted")

    def _inline(self, spans: Sequence[Span]) -> str:
        return "".join(self._paint(units.escape_one_line(span.text), span.kind) for span in spans)

    def _pre(self, pre: Pre, indent: str) -> Iterator[str]:
        width = max(map(len, pre.gutter), default=0)
        for number, line in enumerate(pre.lines):
            gutter = f"{pre.gutter[number]:>{width}} " if pre.gutter else ""
            bar = f"{pre.bar} " if pre.bar else ""
            text = "".join(span.text for span in line.spans)
            text = units.escape_invisible(text if pre.bar == "$" else units.truncate_line(text), "\t")
            yield f"{indent}{gutter}{bar}{self._paint(text, line.tone)}"

    def _table(self, table: Table, indent: str) -> Iterator[str]:
        rows = [table.headers, *(tuple(_cell(cell) for cell in row) for row in table.rows)]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        for number, row in enumerate(rows):
            line = "  ".join(f"{cell:{width}}" for cell, width in zip(row, widths, strict=True))
            yield indent + (line if number else self._paint(line, "muted"))

    def _fields(self, fields: Fields, indent: str) -> Iterator[str]:
        width = max((len(name) for name, _ in fields.rows), default=0)
        for name, spans in fields.rows:
            yield f"{indent}{self._paint(f'{units.escape_one_line(name):{width}}', 'muted')}  {self._inline(spans)}"


def _cell(spans: Sequence[Span]) -> str:
    text = units.escape_one_line("".join(span.text for span in spans))
    return text if len(text) <= WIDEST_CELL else text[: WIDEST_CELL - 1] + "…"


def _bar(bar: Bar) -> str:
    filled = BAR_WIDTH * bar.done // max(bar.total, 1)
    return f"[{'#' * filled}{'-' * (BAR_WIDTH - filled)}] {bar.done} of {bar.total}"
