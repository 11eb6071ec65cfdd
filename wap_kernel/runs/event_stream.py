"""Stream the events of runs: each stream is notified, and then reads what is stored at its own pace.

So a slow client never slows a run and loses nothing. A run that another process executes notifies no stream here;
therefore each stream also polls every POLL_SECONDS.
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

from wap_kernel.engine.thread_pool import ThreadPool
from wap_kernel.model.errors import InvalidArgument
from wap_kernel.model.run import Run
from wap_kernel.runs.store.outputs import STREAMS, OutputStore
from wap_kernel.runs.store.records import LogEntry
from wap_kernel.runs.store.run_store import RunStore

POLL_SECONDS = 1.0
PAGE_ENTRIES = 100
CHUNK_BYTES = 64 * 1024
MAX_CHUNKS = 16
"""Chunks of output that are read into memory for one stream."""
ALL_RUNS = ""
"""Key of the streams of all runs, in place of the id of a run."""


class RunNotifier:
    """Notifies the streams of a run that there is something to read. On the event loop only."""

    def __init__(self) -> None:
        self._subscribers: defaultdict[str, set[asyncio.Event]] = defaultdict(set)
        self.is_closed = False

    def notify(self, run: str) -> None:
        for key in (run, ALL_RUNS):
            for event in self._subscribers.get(key, ()):
                event.set()

    def close(self) -> None:
        """Notify all streams, which then end."""
        self.is_closed = True
        for events in self._subscribers.values():
            for event in events:
                event.set()

    def has_subscribers(self, run: str) -> bool:
        return run in self._subscribers or ALL_RUNS in self._subscribers

    @contextmanager
    def subscribe(self, run: str) -> Iterator[asyncio.Event]:
        """Yield an event that is set whenever the run is notified."""
        event = asyncio.Event()
        self._subscribers[run].add(event)
        try:
            yield event
        finally:
            self._subscribers[run].discard(event)
            if not self._subscribers[run]:
                del self._subscribers[run]


async def wait_for_notice(event: asyncio.Event, seconds: float) -> None:
    """Wait for a notice or until the time is over, and reset the event."""
    try:
        await asyncio.wait_for(event.wait(), seconds)
    except asyncio.TimeoutError:
        pass
    event.clear()


@dataclass(frozen=True)
class StreamEvent:
    """An event of a stream: an entry of a run's log, or a chunk of output."""

    id: str
    """Position after it in the stream, to resume from."""
    name: str
    data: dict[str, Any]


@dataclass(frozen=True)
class Cursor:
    """A position in a stream: in the log, and in the output of the operation that follows there."""

    entry: int = 0
    position: int = 0
    stdout: int = 0
    stderr: int = 0

    @classmethod
    def parse(cls, text: str | None) -> Cursor:
        if not text:
            return cls()
        match = re.fullmatch(r"(\d{1,18})(?:-(\d{1,9})-(\d{1,18})-(\d{1,18}))?", text, re.ASCII)
        if match is None:
            raise InvalidArgument(
                "Last-Event-ID is not one that was sent.", hint="Leave it out to begin at the beginning."
            )
        return cls(*(int(number or 0) for number in match.groups()))

    def __str__(self) -> str:
        return f"{self.entry}-{self.position}-{self.stdout}-{self.stderr}"


class EventReader:
    """A reader of the log and the output of one run, from a cursor on."""

    def __init__(self, store: RunStore, outputs: OutputStore, run: Run, cursor: Cursor) -> None:
        self._store = store
        self._outputs = outputs
        self._run = run
        self._positions = {step.id: position for position, step in enumerate(run.steps)}
        self._cursor = cursor

    def read_next(self) -> tuple[list[StreamEvent], bool]:
        """Return the events after the last call, and whether the run has ended and all is read. On a thread."""
        found: list[StreamEvent] = []
        current = self._store.progress(self._run.id)  # read before the log: a run that has ended adds nothing to it
        entries = self._store.log_after(self._cursor.entry, PAGE_ENTRIES, run=self._run.id)
        for entry in entries:
            if self._has_more_before(entry, found):
                return found, False
            self._cursor = replace(self._cursor, entry=entry.id)
            found.append(StreamEvent(str(self._cursor), entry.kind, entry.body))
        if not entries and current.position < self._run.count:
            # When a run was killed, its last command has output but never gets an event.
            self._at(current.position)
            self._output(found, ended=current.status.is_final)
        return found, current.status.is_final and not entries and not found

    def _has_more_before(self, entry: LogEntry, found: list[StreamEvent]) -> bool:
        """Add the output of a command before its event; return whether there is more than one read may take."""
        position = self._positions.get(str(entry.body.get("operationId")))
        if entry.body.get("type") != "shell" or position is None:
            return False
        self._at(position)
        return all(self._output(found, ended=True) for _ in range(MAX_CHUNKS))

    def _at(self, position: int) -> None:
        if position != self._cursor.position:
            self._cursor = Cursor(self._cursor.entry, position)

    def _output(self, found: list[StreamEvent], *, ended: bool) -> bool:
        """Add one chunk of stdout and of stderr; return whether there was any."""
        before = len(found)
        for stream in STREAMS:
            offset = getattr(self._cursor, stream)
            position = self._cursor.position
            text, after = self._outputs.read(self._run.id, position, stream, offset, CHUNK_BYTES, ended=ended)
            if text:
                self._cursor = replace(self._cursor, **{stream: after})
                data = {"operationId": self._run.steps[position].id, "stream": stream, "chunk": text}
                found.append(StreamEvent(str(self._cursor), "output", data))
        return len(found) > before


async def stream_run(
    reader: EventReader, notifier: RunNotifier, run: str, threads: ThreadPool
) -> AsyncGenerator[StreamEvent, None]:
    """Yield the events of one run until it has ended."""
    with notifier.subscribe(run) as event:
        while not notifier.is_closed:
            events, is_over = await threads.run(reader.read_next)
            for one in events:
                yield one
            if is_over:
                return
            if not events:
                await wait_for_notice(event, POLL_SECONDS)


async def stream_all_runs(
    store: RunStore, notifier: RunNotifier, last: int, by: str | None, threads: ThreadPool
) -> AsyncGenerator[StreamEvent, None]:
    """Yield the events of all runs after the entry `last`; with `by` only those of this sender."""
    with notifier.subscribe(ALL_RUNS) as event:
        while not notifier.is_closed:
            end = await threads.run(store.last_entry)
            entries = await threads.run(partial(store.log_after, last, PAGE_ENTRIES, by=by))
            for entry in entries:
                last = entry.id
                yield StreamEvent(str(entry.id), entry.kind, {"runId": entry.run, **entry.body})
            if not entries:
                last = max(last, end)  # skips the entries of other senders
                await wait_for_notice(event, POLL_SECONDS)
