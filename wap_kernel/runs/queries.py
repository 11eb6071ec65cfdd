"""What can be seen of runs: one, a list, their events as they come, their output and their changes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Sequence
from functools import partial
from typing import Any, TypeVar

from wap_kernel.engine.thread_pool import Threads
from wap_kernel.model.caller import Caller
from wap_kernel.model.command import Stream
from wap_kernel.model.errors import InvalidArgument, NotFound
from wap_kernel.model.run import Run, RunStatus
from wap_kernel.redaction.results import redacted
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
from wap_kernel.runs.store.run_store import sender_key

STATE_THREADS = 4
T = TypeVar("T")


class RunQueries:
    """An agent sees its own runs only, a person all of them."""

    def __init__(self, parts: RunServices) -> None:
        self.workspace = parts.workspace
        self._parts = parts
        self._ledger = parts.ledger
        self._threads = Threads("state", STATE_THREADS)

    async def wait(self, run_id: str, seconds: float) -> Run:
        """Until it no longer runs, or the time is over. A glance, without its operations."""
        return await self._until(run_id, seconds, lambda status: status is not RunStatus.RUNNING)

    async def _until(self, run_id: str, seconds: float, enough: Callable[[RunStatus], bool]) -> Run:
        deadline = asyncio.get_running_loop().time() + seconds
        with self._parts.hub.watching(run_id) as event:
            while True:
                current = await self._on_thread(lambda: self._ledger.progress(run_id))
                left = deadline - asyncio.get_running_loop().time()
                if enough(current.status) or left <= 0:
                    return await self._on_thread(lambda: self._ledger.glance(run_id))
                await wait_for_notice(event, min(left, POLL_SECONDS))

    async def get(self, run_id: str, caller: Caller) -> Run:
        return await self._on_thread(lambda: self._get(run_id, caller))

    def _get(self, run_id: str, caller: Caller) -> Run:
        run = self._ledger.find(run_id)
        if run is None or (caller.token is not None and sender_key(run.caller) != caller.token):
            raise NotFound(f"There is no run {run_id!r}.", hint="List the runs to see their ids.")
        if run.status is RunStatus.RUNNING and run.owner != self.workspace.lease.id:
            run = recovery.recover_run_of_dead_owner(self._parts, run)
        return run

    async def page(
        self, caller: Caller, status: RunStatus | None, limit: int, cursor: str | None
    ) -> tuple[list[Run], str | None]:
        """Glances, newest first, and where to go on."""
        if cursor is not None and not (cursor.isascii() and cursor.isdigit() and len(cursor) < 19):
            raise InvalidArgument("cursor: It is not one that was answered.", hint="Leave it out to begin anew.")
        before = None if cursor is None else int(cursor)
        found = await self._on_thread(lambda: self._ledger.page(status, before, limit + 1, caller.token))
        return found[:limit], str(found[limit - 1].number) if len(found) > limit else None

    async def encoded(self, run: Run, caller: Caller) -> bytes:
        """The events message for this caller, as JSON."""
        is_person = caller.token is None
        return await self._on_thread(lambda: messages.encode_message(self._ledger, run, is_person=is_person))

    async def message(self, run: Run, caller: Caller) -> dict[str, Any]:
        told: dict[str, Any] = json.loads(await self.encoded(run, caller))
        return told

    async def summaries(self, runs: Sequence[Run], caller: Caller) -> list[dict[str, Any]]:
        """As in a list."""
        is_person = caller.token is None
        summary, redact = partial(messages.summarize_run, self._ledger, is_person=is_person), self.workspace.redactor
        return await self._on_thread(lambda: [summary(run, redact) for run in runs])

    async def output(
        self, run_id: str, operation_id: str, stream: Stream, offset: int, limit: int, caller: Caller
    ) -> dict[str, Any]:
        """A page of the whole output of a command."""

        def read() -> dict[str, Any]:
            run = self._get(run_id, caller)
            return messages.read_output(self._parts.outputs, run, operation_id, stream, offset, limit)

        return await self._on_thread(read)

    async def changes(self, run_id: str, caller: Caller) -> dict[str, Any]:
        """What the run changed, and what a revert would do."""
        run = await self.get(run_id, caller)

        judge = self.workspace.judge

        def describe() -> dict[str, Any]:
            readable, nameable = partial(judge.may_read, caller=caller), partial(judge.may_name, caller=caller)
            told: dict[str, Any] = redacted(
                self.workspace.undo.describe(run.id, readable, nameable), self.workspace.redactor.without_known
            )
            return told

        return await self.workspace.offload(describe)

    async def follow(self, run_id: str, last_event_id: str | None, caller: Caller) -> AsyncGenerator[StreamEvent, None]:
        """What has happened and happens in the run, to its end. An id that is not this run's is none: rather tell
        everything again than leave something out."""
        sent = Cursor.parse(last_event_id)

        def begin() -> EventReader:
            run = self._get(run_id, caller)
            known = any(one.id == sent.entry for one in self._ledger.log_after(sent.entry - 1, 1, run=run_id))
            return EventReader(self._ledger, self._parts.outputs, run, sent if known else Cursor())

        follower = await self._on_thread(begin)
        async for live in stream_run(follower, self._parts.hub, run_id, self._threads):
            yield live

    async def follow_all(self, last_event_id: str | None, caller: Caller) -> AsyncGenerator[StreamEvent, None]:
        """What happens in all runs from now on, or after the event that was seen last. One that is still to come was
        seen before the state began anew: then everything is told. "Now" is when this returns, not when the first event
        is asked for: who was told that the stream is open misses nothing after that."""
        last, end = Cursor.parse(last_event_id).entry, await self._on_thread(self._ledger.last_entry)
        if not last_event_id:
            last = end
        elif last > end:
            last = 0
        return stream_all_runs(self._ledger, self._parts.hub, last, caller.token, self._threads)

    async def _on_thread(self, work: Callable[[], T]) -> T:
        await self._begun()
        return await self._threads.run(work)

    async def _begun(self) -> None:
        """Whoever asks finds everything settled."""
        raise NotImplementedError
