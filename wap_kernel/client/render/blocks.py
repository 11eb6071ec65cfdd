"""Blocks of spans: the description of a result before it is written as text or HTML.

Blocks hold the content of a workspace as it is; only the writers (`text_writer.py`, `html_writer.py`) make it safe to
show.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from wap_kernel.client.render import units

Tone = Literal["ok", "failed", "denied", "asks", "busy", "plain"]
SpanKind = Literal["", "code", "type", "strong", "muted", "mark"]
"""The role of a span; `type` is a line for a person to type."""
SHELL_PREFIX = "wap "
"""The text before a line that a person types in a shell."""
Rgb = tuple[int, int, int]
LineTone = Literal["", "added", "removed", "hunk", "muted"]


class Style(NamedTuple):
    """The style of text that a command wrote for a terminal, in numbers and words of wap, never the command's own."""

    foreground: Rgb | None = None
    background: Rgb | None = None
    flags: frozenset[str] = frozenset()


NO_STYLE = Style()


class Span(NamedTuple):
    """A piece of text in one style."""

    text: str
    kind: SpanKind = ""
    style: Style = NO_STYLE


class TextLine(NamedTuple):
    """A line of preformatted text."""

    spans: tuple[Span, ...]
    tone: LineTone = ""


@dataclass(frozen=True)
class Header:
    """The first line of a result: its outcome and facts."""

    tone: Tone
    word: str
    spans: tuple[Span, ...] = ()
    facts: tuple[str, ...] = ()
    name: str = ""
    """The name of the result, such as the id of a run."""


@dataclass(frozen=True)
class Row:
    """One line, such as an operation and its outcome."""

    spans: tuple[Span, ...]
    tone: Tone | None = None
    word: str = ""
    facts: tuple[str, ...] = ()
    is_below: bool = False
    """True for a row that belongs to the row above."""


@dataclass(frozen=True)
class Pre:
    """Preformatted lines.

    `bar` precedes each line in text, so that none can pass for a line of wap: `!` for stderr, `$` for a command, which
    is shown whole.
    """

    lines: tuple[TextLine, ...]
    gutter: tuple[str, ...] = ()
    bar: str = "|"


@dataclass(frozen=True)
class Fold:
    """Blocks that are collapsed in HTML and expanded in text."""

    label: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True)
class Table:
    """Rows of cells below headers."""

    headers: tuple[str, ...]
    rows: tuple[tuple[tuple[Span, ...], ...], ...]
    wide: int = -1
    """The index of the column with long texts; the others stay on one line."""


@dataclass(frozen=True)
class Fields:
    """Rows of a name and its value."""

    rows: tuple[tuple[str, tuple[Span, ...]], ...]


@dataclass(frozen=True)
class Bar:
    """A progress bar."""

    done: int
    total: int


Block = Header | Row | Pre | Fold | Table | Fields | Bar


@dataclass(frozen=True)
class Room:
    """Limits of a rendering: characters of all contents together, rows of a list, lines of one part."""

    characters: int
    rows: int
    lines: int

    def scaled(self, share: float) -> Room:
        return Room(*(max(int(share * limit), 1) for limit in (self.characters, self.rows, self.lines)))

    def share(self, sizes: Sequence[int]) -> list[int]:
        """Divide the characters among several contents: small ones fit whole, and the others get equal shares."""
        shares, left, waiting = [0] * len(sizes), self.characters, len(sizes)
        for index in sorted(range(len(sizes)), key=sizes.__getitem__):
            shares[index] = min(sizes[index], left // waiting)
            left -= shares[index]
            waiting -= 1
        return shares


def text_spans(*texts: str) -> tuple[Span, ...]:
    return tuple(Span(text) for text in texts)


def muted_row(text: str, *, is_below: bool = False) -> Row:
    return Row((Span(text, "muted"),), is_below=is_below)


def python_hint(prefix: str, where: str) -> str:
    """Return where Python holds the rest; empty for the `wap` kernel and the command line, which have no Python."""
    return f"; {where}" if prefix.startswith("%") else ""


def code_spans(text: object) -> tuple[Span, ...]:
    return (Span(str(text), "code"),)


def preformatted(text: str, *, gutter: Iterable[str] = (), bar: str = "|") -> Pre:
    return Pre(tuple(TextLine((Span(line),)) for line in split_lines(text)), tuple(gutter), bar)


def split_lines(text: str) -> list[str]:
    """Return the lines of `text`; a newline at its end does not begin another line."""
    return text.removesuffix("\n").split("\n") if text else []


def count_lines(text: str) -> str:
    return units.format_count(text.count("\n") + (not text.endswith("\n")) if text else 0, "line")
