"""GET wap/runs/{runId}/stream and GET wap/events: server-sent events, for as long as somebody reads them.

What is sent is pulled from the runner one by one, each only when the one before has left: a slow reader holds up nobody
and is not remembered by anybody. Who comes back with `Last-Event-ID` goes on where they were.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import ClassVar

from tornado.iostream import StreamClosedError

from wap_kernel.dialects.tool import LARGE
from wap_kernel.model.errors import WapError
from wap_kernel.model.operations import Effect
from wap_kernel.runs.event_stream import Cursor, StreamEvent

from ..tokens.bearer import presented
from . import parameters
from .base import WapHandler, verb

HEARTBEAT = b": still here\n\n"


class StreamHandler(WapHandler):
    allowed = ("GET",)
    open_to_agents = True
    heartbeat_seconds: ClassVar[float] = 15.0

    _task: asyncio.Task[None] | None = None
    _is_gone = False
    _checked_at = 0.0

    @property
    def last_event_id(self) -> str | None:
        """A browser sends the header when it comes back; what stands in for one may only have the address."""
        sent = self.request.headers.get("Last-Event-ID") or parameters.text(self.request, "lastEventId") or None
        Cursor.parse(sent)  # while there is still a status to refuse it with
        return sent

    async def relay(self, events: AsyncGenerator[StreamEvent, None], first: StreamEvent | None = None) -> None:
        """`first`, which was taken already, and the others, until they end, the reader goes or its token does."""
        self.set_header("Content-Type", "text/event-stream")
        self.set_header("Cache-Control", "no-cache")
        self.set_header("X-Accel-Buffering", "no")  # nginx would collect
        self._task = asyncio.current_task()
        self._checked_at = asyncio.get_running_loop().time()
        try:
            await self._send(b"" if first is None else await self._frame(first))
            async with aclosing(with_heartbeats(events, self.heartbeat_seconds)) as lively:
                async for live in lively:
                    await self._check_token()
                    await self._send(HEARTBEAT if live is None else await self._frame(live))
        except StreamClosedError:
            pass  # the reader has gone
        except asyncio.CancelledError:
            if not self._is_gone:
                raise
        except WapError as error:  # too late for a status; who comes back is told
            self.log.info("wap: a stream of events ends: %s", error.code.value)
        finally:
            self._task = None

    async def _send(self, text: bytes) -> None:
        """Returns when it has left, so that nothing piles up for who reads slowly."""
        self.write(text)
        await self.flush()

    async def _frame(self, live: StreamEvent) -> bytes:
        large = sum(len(value) for value in live.data.values() if isinstance(value, str)) > LARGE
        return await self.workspace.offload(lambda: frame(live)) if large else frame(live)

    async def _check_token(self) -> None:
        """Once a heartbeat: a stream may outlive the token that opened it."""
        now = asyncio.get_running_loop().time()
        shown = presented(self.request)
        if shown is not None and now - self._checked_at >= self.heartbeat_seconds:
            await self.tokens.verify(shown.token())
            self._checked_at = now

    def on_connection_close(self) -> None:
        super().on_connection_close()
        self._is_gone = True
        if self._task is not None:
            self._task.cancel()

    def update_api_activity(self) -> None:
        """Nothing: to watch is not to work, and an open page would keep an idle server from being culled."""


class RunStreamHandler(StreamHandler):
    @verb
    async def get(self, run_id: str) -> None:
        await self.authorize(Effect.READ)
        run = await self.runner.get(run_id, self.caller)
        events = self.runner.follow(run_id, self.last_event_id, self.caller)
        if not run.status.is_final:
            await self.relay(events)
        elif (first := await anext(events, None)) is None:
            self.set_status(204)  # there will be nothing more; it keeps a browser from coming back
            self.finish()
        else:
            await self.relay(events, first)


class EventsHandler(StreamHandler):
    @verb
    async def get(self) -> None:
        await self.authorize(Effect.READ)
        await self.relay(await self.runner.follow_all(self.last_event_id, self.caller))


async def with_heartbeats(
    events: AsyncGenerator[StreamEvent, None], seconds: float
) -> AsyncGenerator[StreamEvent | None, None]:
    """The events, and None after so many seconds without one; closes them in the end."""
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


def frame(live: StreamEvent) -> bytes:
    identifier = f"id: {live.id}\n" if live.id else ""
    return f"{identifier}event: {live.name}\ndata: {json.dumps(live.data)}\n\n".encode()
