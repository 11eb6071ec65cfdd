"""Watching runs: who watches is woken and then reads what is stored, at its own pace.

So a slow reader never slows a run and loses nothing. What another process executes wakes nobody here; hence the look
every POLL seconds.
"""

from __future__ import annotations

import asyncio
import re
from collections import defaultdict
from collections.abc import AsyncGenerator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from wap_kernel.engine.thread_pool import Threads
from wap_kernel.model.errors import InvalidArgument
from wap_kernel.model.run import Run
from wap_kernel.runs.store.outputs import STREAMS, Outputs
from wap_kernel.runs.store.run_store import Entry, Ledger

POLL = 1.0
ENTRIES = 100
CHUNK = 64 * 1024
AT_ONCE = 16
"""Chunks that are taken into memory for one reader."""
EVERYTHING = ""
"""Instead of the id of a run."""


class Hub:
    """Wakes those who watch a run. On the event loop only."""

    def __init__(self) -> None:
        self._watching: defaultdict[str, set[asyncio.Event]] = defaultdict(set)
        self.is_closed = False

    def wake(self, run: str) -> None:
        for key in (run, EVERYTHING):
            for event in self._watching.get(key, ()):
                event.set()

    def close(self) -> None:
        """Everybody goes home."""
        self.is_closed = True
        for events in self._watching.values():
            for event in events:
                event.set()

    def is_watched(self, run: str) -> bool:
        return run in self._watching or EVERYTHING in self._watching

    @contextmanager
    def watching(self, run: str) -> Iterator[asyncio.Event]:
        event = asyncio.Event()
        self._watching[run].add(event)
        try:
            yield event
        finally:
            self._watching[run].discard(event)
            if not self._watching[run]:
                del self._watching[run]


async def woken(event: asyncio.Event, seconds: float) -> None:
    """Wait for a wake-up, or for the time to pass."""
    try:
        await asyncio.wait_for(event.wait(), seconds)
    except asyncio.TimeoutError:
        pass
    event.clear()


@dataclass(frozen=True)
class Live:
    """What a stream sends. `id` is where to go on after it."""

    id: str
    name: str
    data: dict[str, Any]


@dataclass(frozen=True)
class Cursor:
    """How far a reader is: in the log, and in the output of the operation after that."""

    entry: int = 0
    position: int = 0
    stdout: int = 0
    stderr: int = 0

    @classmethod
    def parse(cls, text: str | None) -> Cursor:
        if not text:
            return cls()
        found = re.fullmatch(r"(\d{1,18})(?:-(\d{1,9})-(\d{1,18})-(\d{1,18}))?", text, re.ASCII)
        if found is None:
            raise InvalidArgument(
                "Last-Event-ID is not one that was sent.", hint="Leave it out to begin at the beginning."
            )
        return cls(*(int(number or 0) for number in found.groups()))

    def __str__(self) -> str:
        return f"{self.entry}-{self.position}-{self.stdout}-{self.stderr}"


class Follower:
    """One reader of one run."""

    def __init__(self, ledger: Ledger, outputs: Outputs, run: Run, cursor: Cursor) -> None:
        self._ledger = ledger
        self._outputs = outputs
        self._run = run
        self._positions = {step.id: position for position, step in enumerate(run.steps)}
        self._cursor = cursor

    def next(self) -> tuple[list[Live], bool]:
        """What is new, and whether the run is over; on a thread."""
        found: list[Live] = []
        current = self._ledger.progress(self._run.id)  # before the log: what is over adds nothing to it any more
        entries = self._ledger.log_after(self._cursor.entry, ENTRIES, run=self._run.id)
        for entry in entries:
            if self._has_more_before(entry, found):
                return found, False
            self._cursor = replace(self._cursor, entry=entry.id)
            found.append(Live(str(self._cursor), entry.kind, entry.body))
        if not entries and current.position < self._run.count:
            # Of a run that was killed, what its last command wrote is all that there will be of it.
            self._at(current.position)
            self._output(found, ended=current.status.is_final)
        return found, current.status.is_final and not entries and not found

    def _has_more_before(self, entry: Entry, found: list[Live]) -> bool:
        """The output of a command comes before its event; whether there is more of it than is sent at once."""
        position = self._positions.get(str(entry.body.get("operationId")))
        if entry.body.get("type") != "shell" or position is None:
            return False
        self._at(position)
        return all(self._output(found, ended=True) for _ in range(AT_ONCE))

    def _at(self, position: int) -> None:
        if position != self._cursor.position:
            self._cursor = Cursor(self._cursor.entry, position)

    def _output(self, found: list[Live], *, ended: bool) -> bool:
        """One chunk of each stream; whether there was something."""
        before = len(found)
        for stream in STREAMS:
            offset = getattr(self._cursor, stream)
            position = self._cursor.position
            text, after = self._outputs.read(self._run.id, position, stream, offset, CHUNK, ended=ended)
            if text:
                self._cursor = replace(self._cursor, **{stream: after})
                data = {"operationId": self._run.steps[position].id, "stream": stream, "chunk": text}
                found.append(Live(str(self._cursor), "output", data))
        return len(found) > before


async def follow(follower: Follower, hub: Hub, run: str, threads: Threads) -> AsyncGenerator[Live, None]:
    with hub.watching(run) as event:
        while not hub.is_closed:
            found, is_over = await threads.run(follower.next)
            for live in found:
                yield live
            if is_over:
                return
            if not found:
                await woken(event, POLL)


async def follow_all(
    ledger: Ledger, hub: Hub, last: int, by: str | None, threads: Threads
) -> AsyncGenerator[Live, None]:
    with hub.watching(EVERYTHING) as event:
        while not hub.is_closed:
            end = await threads.run(ledger.last_entry)
            entries = await threads.run(partial(ledger.log_after, last, ENTRIES, by=by))
            for entry in entries:
                last = entry.id
                yield Live(str(entry.id), entry.kind, {"runId": entry.run, **entry.body})
            if not entries:
                last = max(last, end)  # what others did need not be looked at again
                await woken(event, POLL)
