"""What was run in this session of a kernel, for `history_request`. It ends with the kernel."""

from __future__ import annotations

import fnmatch
from collections import deque
from collections.abc import Iterable
from typing import Any, NamedTuple

SESSION = 1
MOST = 1000


class Entry(NamedTuple):
    number: int
    source: str
    output: str | None


class History:
    def __init__(self) -> None:
        self._entries: deque[Entry] = deque(maxlen=MOST)

    def add(self, number: int, source: str, output: str | None) -> None:
        self._entries.append(Entry(number, source, output))

    def tail(self, n: int | None) -> list[Entry]:
        return _last(self._entries, n)

    def range(self, session: int | None, start: int | None, stop: int | None) -> list[Entry]:
        """From `start` up to `stop`, which is left out. Session 0 is this one, and there is no other."""
        if session not in (None, 0, SESSION):
            return []
        first, end = start or 0, float("inf") if stop is None else stop
        return [entry for entry in self._entries if first <= entry.number < end]

    def search(self, pattern: str | None, n: int | None, *, unique: bool) -> list[Entry]:
        """Those that a glob matches; with `unique` each text once, where it stood last."""
        found = [entry for entry in self._entries if fnmatch.fnmatchcase(entry.source, pattern or "*")]
        if unique:
            latest = {entry.source: entry for entry in found}
            found = [entry for entry in found if latest[entry.source] is entry]
        return _last(found, n)


def told(entries: Iterable[Entry], *, output: bool) -> list[tuple[Any, ...]]:
    """As the protocol has them."""
    return [(SESSION, entry.number, (entry.source, entry.output) if output else entry.source) for entry in entries]


def _last(entries: Iterable[Entry], n: int | None) -> list[Entry]:
    kept = list(entries)
    return kept if n is None else kept[-n:] if n > 0 else []
