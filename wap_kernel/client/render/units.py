"""How characters, sizes, times and numbers are said."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from wap_kernel.model.safe_text import one_line, visible

__all__ = ["between", "counted", "duration", "joined", "moment", "one_line", "size", "visible"]


def size(count: object) -> str:
    """Bytes, as people say them."""
    if not isinstance(count, int | float):
        return str(count)
    if count < 1000:
        return counted(int(count), "byte")
    amount, units = count / 1000, ["KB", "MB", "GB"]
    while amount >= 999.5 and len(units) > 1:
        amount /= 1000
        units.pop(0)
    return f"{amount:.1f} {units[0]}" if amount < 9.95 else f"{amount:.0f} {units[0]}"


def duration(milliseconds: float) -> str:
    if milliseconds < 1000:
        return f"{milliseconds:.0f} ms"
    seconds = milliseconds / 1000
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"


def counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def between(start: object, end: object) -> float | None:
    """Milliseconds from one time to another, where both are times."""
    first, last = _parsed(start), _parsed(end)
    return None if first is None or last is None else (last - first).total_seconds() * 1000


def moment(time: object, *, date: bool = True) -> str:
    """UTC, to the second; as it came where it is no time."""
    parsed = _parsed(time)
    if parsed is None:
        return str(time or "")
    return f"{parsed:%Y-%m-%d %H:%M:%S}" if date else f"{parsed:%H:%M} UTC"


def _parsed(time: object) -> datetime | None:
    text = str(time)
    if not text.endswith("Z"):
        return None
    try:
        return datetime.fromisoformat(text[:-1] + "+00:00")
    except ValueError:
        return None


def joined(facts: Iterable[str]) -> str:
    return " · ".join(fact for fact in facts if fact)
