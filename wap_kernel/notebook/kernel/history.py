"""The cells that this kernel has executed, for `history_request`; they end with the kernel."""

from __future__ import annotations

import fnmatch
from collections import deque
from collections.abc import Iterable
from typing import Any, NamedTuple

SESSION = 1
MAX_ENTRIES = 1000


class HistoryEntry(NamedTuple):
    """A cell that was executed."""

    number: int
    source: str
    output: str | None


class History:
    """The latest cells of this session."""

    def __init__(self) -> None:
        self._entries: deque[HistoryEntry] = deque(maxlen=MAX_ENTRIES)

    def add(self, number: int, source: str, output: str | None) -> None:
        self._entries.append(HistoryEntry(number, source, output))

    def tail(self, n: int | None) -> list[HistoryEntry]:
        return _last(self._entries, n)

    def range(self, session: int | None, start: int | None, stop: int | None) -> list[HistoryEntry]:
        """Return the entries from `start` up to, not including, `stop`; session 0 is this one, the only one."""
        if session not in (None, 0, SESSION):
            return []
        first, end = start or 0, float("inf") if stop is None else stop
        return [entry for entry in self._entries if first <= entry.number < end]

    def search(self, pattern: str | None, n: int | None, *, unique: bool) -> list[HistoryEntry]:
        """Return the entries that a glob matches; with `unique`, the last entry of each text."""
        matches = [entry for entry in self._entries if fnmatch.fnmatchcase(entry.source, pattern or "*")]
        if unique:
            latest = {entry.source: entry for entry in matches}
            matches = [entry for entry in matches if latest[entry.source] is entry]
        return _last(matches, n)


def encode_entries(entries: Iterable[HistoryEntry], *, output: bool) -> list[tuple[Any, ...]]:
    """Return entries in the form of the Jupyter protocol."""
    return [(SESSION, entry.number, (entry.source, entry.output) if output else entry.source) for entry in entries]


def _last(entries: Iterable[HistoryEntry], n: int | None) -> list[HistoryEntry]:
    listed = list(entries)
    return listed if n is None else listed[-n:] if n > 0 else []
