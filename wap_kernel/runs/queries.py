"""Query runs: one run, a page of runs, their events as a stream, their output and their changes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Sequence
from functools import partial
from typing import Any, TypeVar

from wap_kernel.engine.thread_pool import ThreadPool
from wap_kernel.model.caller import Caller
from wap_kernel.model.command import Stream
from wap_kernel.model.errors import InvalidArgument, NotFound
from wap_kernel.model.run import Run, RunStatus
from wap_kernel.redaction.results import redact_value
from wap_kernel.runs import messages, recovery
from wap_kernel.runs.event_stream import (
    POLL_SECONDS,
    Cursor,
    EventReader,
    StreamEvent,
    stream_all_runs,
    stream_run,
    wait_for_notice,
)
from wap_kernel.runs.services import RunServices
from wap_kernel.runs.store.records import sender_key

STATE_THREADS = 4
T = TypeVar("T")


class RunQueries:
    """The queries of the runs of one workspace; an agent sees its own runs only, a person all of them."""

    def __init__(self, services: RunServices) -> None:
        self.workspace = services.workspace
        self._services = services
        self._store = services.store
        self._threads = ThreadPool("state", STATE_THREADS)

    async def wait(self, run_id: str, seconds: float) -> Run:
        """Wait until a run is no longer running or the time is over; return its header."""
        return await self._wait_for_status(run_id, seconds, lambda status: status is not RunStatus.RUNNING)

    async def _wait_for_status(self, run_id: str, seconds: float, is_enough: Callable[[RunStatus], bool]) -> Run:
        deadline = asyncio.get_running_loop().time() + seconds
        with self._services.notifier.subscribe(run_id) as event:
            while True:
                current = await self._on_thread(lambda: self._store.progress(run_id))
                left = deadline - asyncio.get_running_loop().time()
                if is_enough(current.status) or left <= 0:
                    return await self._on_thread(lambda: self._store.require_header(run_id))
                await wait_for_notice(event, min(left, POLL_SECONDS))

    async def get(self, run_id: str, caller: Caller) -> Run:
        return await self._on_thread(lambda: self._get(run_id, caller))

    def _get(self, run_id: str, caller: Caller) -> Run:
        run = self._store.find(run_id)
        if run is None or (caller.token is not None and sender_key(run.caller) != caller.token):
            raise NotFound(f"There is no run {run_id!r}.", hint="List the runs to see their ids.")
        if run.status is RunStatus.RUNNING and run.owner != self.workspace.lease.id:
            run = recovery.recover_run_of_dead_owner(self._services, run)
        return run

    async def page(
        self, caller: Caller, status: RunStatus | None, limit: int, cursor: str | None
    ) -> tuple[list[Run], str | None]:
        """Return a page of headers, newest first, and the cursor of the next page if there is one."""
        if cursor is not None and not (cursor.isascii() and cursor.isdigit() and len(cursor) < 19):
            raise InvalidArgument("cursor: No response had this cursor.", hint="Leave it out to begin anew.")
        before = None if cursor is None else int(cursor)
        found = await self._on_thread(lambda: self._store.page(status, before, limit + 1, caller.token))
        return found[:limit], str(found[limit - 1].number) if len(found) > limit else None

    async def encode_message(self, run: Run, caller: Caller) -> bytes:
        """Return the events message for this caller, as JSON."""
        is_person = caller.token is None
        return await self._on_thread(lambda: messages.encode_message(self._store, run, is_person=is_person))

    async def message(self, run: Run, caller: Caller) -> dict[str, Any]:
        message: dict[str, Any] = json.loads(await self.encode_message(run, caller))
        return message

    async def summaries(self, runs: Sequence[Run], caller: Caller) -> list[dict[str, Any]]:
        """Return the entries of these runs in a list."""
        is_person = caller.token is None
        summary, redact = partial(messages.summarize_run, self._store, is_person=is_person), self.workspace.redactor
        return await self._on_thread(lambda: [summary(run, redact) for run in runs])

    async def output(
        self, run_id: str, operation_id: str, stream: Stream, offset: int, limit: int, caller: Caller
    ) -> dict[str, Any]:
        """Return a page of the whole output of a command."""

        def read() -> dict[str, Any]:
            run = self._get(run_id, caller)
            return messages.read_output(self._services.outputs, run, operation_id, stream, offset, limit)

        return await self._on_thread(read)

    async def changes(self, run_id: str, caller: Caller) -> dict[str, Any]:
        """Return what the run changed, and what a revert would do."""
        run = await self.get(run_id, caller)
        judge = self.workspace.judge

        def describe() -> dict[str, Any]:
            readable = partial(judge.may_read, caller=caller)
            changes: dict[str, Any] = redact_value(
                self.workspace.undo.describe(run.id, readable), self.workspace.redactor.mask_known
            )
            return changes

        return await self.workspace.offload(describe)

    async def stream_events(
        self, run_id: str, last_event_id: str | None, caller: Caller
    ) -> AsyncGenerator[StreamEvent, None]:
        """Yield the events of a run, from the first or after the last one received, until it has ended.

        An id that is not of this run counts as none: repeating events is better than leaving some out.
        """
        cursor = Cursor.parse(last_event_id)

        def begin() -> EventReader:
            run = self._get(run_id, caller)
            is_known = any(one.id == cursor.entry for one in self._store.log_after(cursor.entry - 1, 1, run=run_id))
            return EventReader(self._store, self._services.outputs, run, cursor if is_known else Cursor())

        reader = await self._on_thread(begin)
        async for event in stream_run(reader, self._services.notifier, run_id, self._threads):
            yield event

    async def stream_all_events(self, last_event_id: str | None, caller: Caller) -> AsyncGenerator[StreamEvent, None]:
        """Return the stream of the events of all runs, from now on or after the last one received.

        An id beyond the end of the log is of an earlier state folder: then the stream begins at the first event. "Now"
        is when this returns, so that a client misses no event after the stream is open.
        """
        last, end = Cursor.parse(last_event_id).entry, await self._on_thread(self._store.last_entry)
        if not last_event_id:
            last = end
        elif last > end:
            last = 0
        return stream_all_runs(self._store, self._services.notifier, last, caller.token, self._threads)

    async def _on_thread(self, work: Callable[[], T]) -> T:
        await self._ensure_started()
        return await self._threads.run(work)

    async def _ensure_started(self) -> None:
        """Wait until the runs that an earlier process left are recovered."""
        raise NotImplementedError
