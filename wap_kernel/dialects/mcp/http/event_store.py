"""A cache of recent messages: a client that lost its connection reconnects and gets those it missed.

In memory and bounded for the whole server; the oldest goes first. A session sees only its own events: the SDK numbers
streams per session and would otherwise mix those of different clients.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

from mcp.server.streamable_http import EventCallback, EventId, EventMessage, EventStore, StreamId
from mcp_types import JSONRPCMessage, JSONRPCResponse

from wap_kernel.model.limits import MCP_MAX_STORED_EVENT_BYTES, MCP_MAX_STORED_EVENTS

_EVENT_OVERHEAD = 1024
"""The weight of an event without its message, in bytes."""


@dataclass(frozen=True)
class _Event:
    session: object
    stream: StreamId
    message: JSONRPCMessage | None
    """The message; None for an event that only gives a position to continue from."""
    weight: int


class EventCache:
    """The recent events of all sessions."""

    def __init__(self, max_events: int = MCP_MAX_STORED_EVENTS, max_weight: int = MCP_MAX_STORED_EVENT_BYTES) -> None:
        self._max_events = max_events
        self._max_weight = max_weight
        self._events: OrderedDict[int, _Event] = OrderedDict()
        self._weight = 0
        self._last = 0

    def open_session_store(self) -> EventStore:
        """Open the event store of a new session."""
        return _SessionEvents(self)

    def add(self, session: object, stream: StreamId, message: JSONRPCMessage | None) -> EventId:
        self._last += 1
        event = _Event(session, stream, message, _EVENT_OVERHEAD + _estimate_size(message))
        self._events[self._last] = event
        self._weight += event.weight
        while len(self._events) > self._max_events or (self._weight > self._max_weight and len(self._events) > 1):
            _, oldest = self._events.popitem(last=False)
            self._weight -= oldest.weight
        return str(self._last)

    def find(self, session: object, event_id: EventId) -> _Event | None:
        number = int(event_id) if event_id.isascii() and event_id.isdigit() and len(event_id) < 19 else 0
        event = self._events.get(number)
        return event if event is not None and event.session is session else None

    def after(self, event_id: EventId, event: _Event) -> list[tuple[EventId, JSONRPCMessage]]:
        """Return the messages that followed `event` in its stream."""
        return [
            (str(number), later.message)
            for number, later in self._events.items()
            if number > int(event_id)
            and later.session is event.session
            and later.stream == event.stream
            and later.message is not None
        ]


class _SessionEvents(EventStore):
    def __init__(self, events: EventCache) -> None:
        self._events = events

    async def store_event(self, stream_id: StreamId, message: JSONRPCMessage | None) -> EventId:
        return self._events.add(self, stream_id, message)

    async def replay_events_after(self, last_event_id: EventId, send_callback: EventCallback) -> StreamId | None:
        event = self._events.find(self, last_event_id)
        if event is None:
            return None
        for number, message in self._events.after(last_event_id, event):
            await send_callback(EventMessage(message, number))
        return event.stream


def _estimate_size(message: JSONRPCMessage | None) -> int:
    """Estimate the memory of a message: only the texts of its contents can be large, and `structured` repeats them."""
    if not isinstance(message, JSONRPCResponse):
        return 0
    parts: list[Any] = [*message.result.get("content", ()), *message.result.get("contents", ())]
    return 2 * sum(len(part.get("text") or part.get("blob") or "") for part in parts if isinstance(part, dict))
