"""What is said about an answer, before it is text or HTML: blocks of spans. They hold what came from a workspace as it
is; the writers (`as_text.py`, `as_html.py`) are the only ones who make it safe to show.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from wap_kernel.client.render import units

Tone = Literal["ok", "failed", "denied", "asks", "busy", "plain"]
Look = Literal["", "code", "type", "strong", "muted", "mark"]
"""`type` is a line for somebody to type."""
Rgb = tuple[int, int, int]
LineTone = Literal["", "added", "removed", "hunk", "muted"]


class Style(NamedTuple):
    """Of text that a command wrote for a terminal: numbers and words of ours, never its own."""

    foreground: Rgb | None = None
    background: Rgb | None = None
    flags: frozenset[str] = frozenset()


PLAIN = Style()


class Span(NamedTuple):
    text: str
    look: Look = ""
    style: Style = PLAIN


class Line(NamedTuple):
    """Of preformatted text."""

    spans: tuple[Span, ...]
    tone: LineTone = ""


@dataclass(frozen=True)
class Head:
    tone: Tone
    word: str
    spans: tuple[Span, ...] = ()
    facts: tuple[str, ...] = ()
    name: str = ""
    """What the answer is called: a run's id."""


@dataclass(frozen=True)
class Row:
    """One line, such as an operation and its outcome."""

    spans: tuple[Span, ...]
    tone: Tone | None = None
    word: str = ""
    facts: tuple[str, ...] = ()
    is_below: bool = False
    """It belongs to the row above."""


@dataclass(frozen=True)
class Pre:
    """Lines as they are. `bar` stands before each of them in text, so that none can pass for a line of ours: `!` for
    what was written to stderr, `$` for a command, which is shown whole."""

    lines: tuple[Line, ...]
    gutter: tuple[str, ...] = ()
    bar: str = "|"


@dataclass(frozen=True)
class Fold:
    """Closed until somebody wants it; in text it stands open."""

    label: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True)
class Table:
    headers: tuple[str, ...]
    rows: tuple[tuple[tuple[Span, ...], ...], ...]
    wide: int = -1
    """The column whose texts are long; the others stay on one line."""


@dataclass(frozen=True)
class Fields:
    """Names and what they are."""

    rows: tuple[tuple[str, tuple[Span, ...]], ...]


@dataclass(frozen=True)
class Bar:
    done: int
    total: int


Block = Head | Row | Pre | Fold | Table | Fields | Bar


@dataclass(frozen=True)
class Room:
    """How much may be shown: characters of all contents together, rows of a list, lines of one part."""

    characters: int
    rows: int
    lines: int

    def scaled(self, share: float) -> Room:
        return Room(*(max(int(share * limit), 1) for limit in (self.characters, self.rows, self.lines)))

    def share(self, sizes: Sequence[int]) -> list[int]:
        """The characters for each of several contents: small ones are whole, the others get as much as one another."""
        given, left, waiting = [0] * len(sizes), self.characters, len(sizes)
        for index in sorted(range(len(sizes)), key=sizes.__getitem__):
            given[index] = min(sizes[index], left // waiting)
            left -= given[index]
            waiting -= 1
        return given


def plain(*texts: str) -> tuple[Span, ...]:
    return tuple(Span(text) for text in texts)


def muted(text: str, *, is_below: bool = False) -> Row:
    return Row((Span(text, "muted"),), is_below=is_below)


def held(prefix: str, where: str) -> str:
    """Where the rest is; the kernel in which lines have no prefix has no Python that could be asked for it."""
    return f"; {where}" if prefix else ""


def code(text: object) -> tuple[Span, ...]:
    return (Span(str(text), "code"),)


def preformatted(text: str, *, gutter: Iterable[str] = (), bar: str = "|") -> Pre:
    return Pre(tuple(Line((Span(line),)) for line in lines_of(text)), tuple(gutter), bar)


def lines_of(text: str) -> list[str]:
    """A newline ends a line; it does not begin another."""
    return text.removesuffix("\n").split("\n") if text else []


def counted_lines(text: str) -> str:
    return units.counted(text.count("\n") + (not text.endswith("\n")) if text else 0, "line")
