"""GET wap/runs/{runId}/stream and GET wap/events: server-sent events, until the client disconnects.

The handler pulls each event from the runner only when the one before has left: a slow client delays nobody and needs no
buffer. A client that reconnects with `Last-Event-ID` continues where it was.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing, contextmanager
from typing import ClassVar

from tornado.iostream import StreamClosedError

from wap_kernel.dialects.tool import LARGE_BODY_BYTES
from wap_kernel.model.errors import WapError
from wap_kernel.model.operations import Effect
from wap_kernel.runs.event_stream import Cursor, StreamEvent

from . import parameters
from .base import RATE_LIMITER, REVOCATIONS, WapHandler, verb

HEARTBEAT = b": still here\n\n"


class StreamHandler(WapHandler):
    """Send server-sent events to a client."""

    allowed = ("GET",)
    open_to_agents = True
    heartbeat_seconds: ClassVar[float] = 15.0

    _task: asyncio.Task[None] | None = None
    _is_over = False
    """True when the client has disconnected, or its token was revoked."""
    _checked_at = 0.0

    @property
    def last_event_id(self) -> str | None:
        """The event to continue after: the header of a browser that reconnects, or the query parameter."""
        sent = self.request.headers.get("Last-Event-ID") or parameters.get_text(self.request, "lastEventId") or None
        Cursor.parse(sent)  # while the response can still have an error status
        return sent

    async def relay(self, events: AsyncGenerator[StreamEvent, None], first: StreamEvent | None = None) -> None:
        """Send `first`, if any, and the events, until they end, the client disconnects or its token is not valid."""
        try:
            with self._hold_stream():
                await self._relay(events, first)
        finally:
            await events.aclose()

    @contextmanager
    def _hold_stream(self) -> Iterator[None]:
        """Count the stream of an agent while the block runs, and end it when the token is revoked."""
        if self.agent is None:
            yield
            return
        with self.settings[RATE_LIMITER].open_stream(self.agent.id):
            unsubscribe = self.settings[REVOCATIONS].watch(self.agent.id, self._end)
            try:
                yield
            finally:
                unsubscribe()

    async def _relay(self, events: AsyncGenerator[StreamEvent, None], first: StreamEvent | None) -> None:
        self.set_header("Content-Type", "text/event-stream")
        self.set_header("Cache-Control", "no-cache")
        self.set_header("X-Accel-Buffering", "no")  # nginx would buffer
        self._task = asyncio.current_task()
        self._checked_at = asyncio.get_running_loop().time()
        try:
            await self._send(b"" if first is None else await self._frame(first))
            async with aclosing(add_heartbeats(events, self.heartbeat_seconds)) as beating:
                async for live in beating:
                    await self._check_token()
                    await self._send(HEARTBEAT if live is None else await self._frame(live))
        except StreamClosedError:
            pass  # the client has disconnected
        except asyncio.CancelledError:
            if not self._is_over:
                raise
        except WapError as error:  # too late for a status; a client that reconnects gets the error
            self.log.info("wap: a stream of events ends: %s", error.code.value)
        finally:
            self._task = None

    async def _send(self, text: bytes) -> None:
        """Write `text` and return when it has left, so that nothing piles up for a slow client."""
        self.write(text)
        await self.flush()

    async def _frame(self, live: StreamEvent) -> bytes:
        large = sum(len(value) for value in live.data.values() if isinstance(value, str)) > LARGE_BODY_BYTES
        return await self.workspace.offload(lambda: encode_event(live)) if large else encode_event(live)

    async def _check_token(self) -> None:
        """Verify the token once a heartbeat: a stream may outlive the expiry of the token that opened it."""
        now = asyncio.get_running_loop().time()
        if now - self._checked_at >= self.heartbeat_seconds:
            await self.verify_agent()
            self._checked_at = now

    def on_connection_close(self) -> None:
        super().on_connection_close()
        self._end()

    def _end(self) -> None:
        self._is_over = True
        if self._task is not None:
            self._task.cancel()

    def update_api_activity(self) -> None:
        """Record no activity: an open page would keep an idle server from being culled."""


class RunStreamHandler(StreamHandler):
    """Stream the events, output and status of one run."""

    @verb
    async def get(self, run_id: str) -> None:
        await self.authorize(Effect.READ)
        run = await self.runner.get(run_id, self.caller)
        events = self.runner.stream_events(run_id, self.last_event_id, self.caller)
        if not run.status.is_final:
            await self.relay(events)
        elif (first := await anext(events, None)) is None:
            self.set_status(204)  # a browser does not reconnect after 204
            self.finish()
        else:
            await self.relay(events, first)


class EventsHandler(StreamHandler):
    """Stream the events of all runs that the caller may see."""

    @verb
    async def get(self) -> None:
        await self.authorize(Effect.READ)
        await self.relay(await self.runner.stream_all_events(self.last_event_id, self.caller))


async def add_heartbeats(
    events: AsyncGenerator[StreamEvent, None], seconds: float
) -> AsyncGenerator[StreamEvent | None, None]:
    """Yield the events, and None after `seconds` without one; close the events at the end."""
    upcoming: asyncio.Future[StreamEvent | None] | None = None
    try:
        while True:
            upcoming = upcoming or asyncio.ensure_future(_next(events))
            await asyncio.wait({upcoming}, timeout=seconds)
            if not upcoming.done():
                yield None
                continue
            live, upcoming = upcoming.result(), None
            if live is None:
                return
            yield live
    finally:
        if upcoming is not None:
            upcoming.cancel()
            await asyncio.wait({upcoming})
        await events.aclose()


async def _next(events: AsyncGenerator[StreamEvent, None]) -> StreamEvent | None:
    return await anext(events, None)


def encode_event(live: StreamEvent) -> bytes:
    identifier = f"id: {live.id}\n" if live.id else ""
    return f"{identifier}event: {live.name}\ndata: {json.dumps(live.data)}\n\n".encode()
