"""The results: rows that know whether a target is met, as a table for people and as data for programs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.timing import median, quantile


@dataclass(frozen=True)
class Figure:
    """What was measured: the value that is compared, and how far it spread."""

    value: float
    low: float | None = None
    high: float | None = None
    unit: str = "ms"

    @classmethod
    def of(cls, values: Sequence[float]) -> Figure:
        return cls(median(values), quantile(values, 0.1), quantile(values, 0.9))

    def __str__(self) -> str:
        spread = "" if self.low is None or self.high is None else f" ({_short(self.low)}-{_short(self.high)})"
        return f"{_short(self.value)} {self.unit}{spread}"


@dataclass(frozen=True)
class Target:
    """At most so many times the peer, or at most so much; where both are given, either is enough."""

    ratio: float | None = None
    absolute: float | None = None

    def is_met(self, ours: float, theirs: float | None) -> bool:
        by_ratio = self.ratio is not None and theirs is not None and ours <= self.ratio * theirs
        return by_ratio or (self.absolute is not None and ours <= self.absolute)

    def text(self, unit: str) -> str:
        parts = [f"{self.ratio:g} x"] if self.ratio is not None else []
        return " or ".join([*parts, f"{self.absolute:g} {unit}"] if self.absolute is not None else parts)


@dataclass(frozen=True)
class Row:
    """One comparison with a peer."""

    what: str
    ours: Figure
    peer: str = ""
    theirs: Figure | None = None
    """None when there is no peer, or it is not installed."""
    target: Target | None = None

    @property
    def ratio(self) -> float | None:
        return self.ours.value / self.theirs.value if self.theirs is not None else None

    @property
    def verdict(self) -> str:
        if self.peer and self.theirs is None:
            return "not measured"
        if self.target is None:
            return "-"
        return "met" if self.target.is_met(self.ours.value, self.theirs.value if self.theirs else None) else "MISSED"

    def cells(self) -> tuple[str, ...]:
        theirs = str(self.theirs) if self.theirs else "not installed" if self.peer else "-"
        ratio = "-" if self.ratio is None else f"{self.ratio:.2f}"
        target = self.target.text(self.ours.unit) if self.target else "-"
        return (self.what, str(self.ours), self.peer or "-", theirs, ratio, target, self.verdict)

    def data(self) -> dict[str, Any]:
        return {
            "what": self.what,
            "ours": vars(self.ours),
            "peer": self.peer or None,
            "theirs": vars(self.theirs) if self.theirs else None,
            "ratio": self.ratio,
            "target": vars(self.target) if self.target else None,
            "verdict": self.verdict,
        }


HEADINGS = ("what", "ours (p10-p90)", "peer", "peer's (p10-p90)", "ratio", "at most", "target")


def compared(
    what: str, times: dict[str, list[float]], targets: dict[str, Target | None], *, ours: str = "ours"
) -> list[Row]:
    """Yield a row for each peer that `targets` names, measured or not."""
    own = Figure.of(times[ours])
    return [
        Row(what, own, peer, Figure.of(times[peer]) if peer in times else None, target)
        for peer, target in targets.items()
    ]


def render(rows: Sequence[Row]) -> str:
    table = [HEADINGS, *(row.cells() for row in rows)]
    widths = [max(len(cells[column]) for cells in table) for column in range(len(HEADINGS))]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip() for cells in table
    ]
    return "\n".join([lines[0], "-" * max(map(len, lines)), *lines[1:]])


def _short(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"
