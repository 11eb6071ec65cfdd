"""Characters that obey, hide or mislead, written out: what is shown can move no cursor and pass for nothing else.

Also how sizes, times and numbers are said.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from datetime import datetime

_BLANK_LETTERS = frozenset("\u115f\u1160\u3164\uffa0\u2800")
"""Letters and symbols, to Unicode, that look like nothing at all."""


def visible(text: str, keep: str = "\n\t") -> str:
    """With every control, invisible or direction-changing character as Python writes it, save those in `keep`."""
    table = {ord(one): _written(one) for one in set(text) if not _is_shown(one) and one not in keep}
    return text.translate(table) if table else text


def one_line(text: str) -> str:
    return visible(text, "")


def _is_shown(one: str) -> bool:
    if one in _BLANK_LETTERS:
        return False
    return one.isprintable() or unicodedata.category(one) == "Zs"


def _written(one: str) -> str:
    return one.encode("unicode_escape").decode("ascii")


# -- numbers


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
