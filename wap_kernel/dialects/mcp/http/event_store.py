"""A store of recent messages: a client that lost its connection reconnects and gets those it missed.

In memory and bounded for the whole server; the oldest goes first.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

from wap_kernel.model.limits import MCP_MAX_STORED_EVENT_BYTES, MCP_MAX_STORED_EVENTS

_EVENT_OVERHEAD = 1024
"""The weight of an event without its message, in bytes."""
_MAX_ID_DIGITS = 18


@dataclass(frozen=True)
class StoredEvent:
    """A message of a stream; None for an event that only gives a position to resume from."""

    id: int
    stream: object
    message: bytes | None

    @property
    def weight(self) -> int:
        return _EVENT_OVERHEAD + len(self.message or b"")

    def encode(self, retry_ms: int) -> bytes:
        return encode_event(self.message, self.id, retry_ms)


def encode_event(message: bytes | None, event_id: int | None = None, retry_ms: int = 0) -> bytes:
    """Encode a message as a server-sent event; JSON has no line breaks in it."""
    head = b"" if event_id is None else b"id: %d\n" % event_id
    if message is None:
        return head + b"retry: %d\ndata: \n\n" % retry_ms
    return head + b"event: message\ndata: %b\n\n" % message


class EventStore:
    """The recent events of all streams."""

    def __init__(self, max_events: int = MCP_MAX_STORED_EVENTS, max_weight: int = MCP_MAX_STORED_EVENT_BYTES) -> None:
        self._max_events = max_events
        self._max_weight = max_weight
        self._events: OrderedDict[int, StoredEvent] = OrderedDict()
        self._weight = 0
        self._last = 0

    def add(self, stream: object, message: bytes | None) -> StoredEvent:
        self._last += 1
        event = StoredEvent(self._last, stream, message)
        self._events[event.id] = event
        self._weight += event.weight
        while len(self._events) > self._max_events or (self._weight > self._max_weight and len(self._events) > 1):
            _, oldest = self._events.popitem(last=False)
            self._weight -= oldest.weight
        return event

    def find(self, event_id: str) -> StoredEvent | None:
        is_number = event_id.isascii() and event_id.isdigit() and len(event_id) <= _MAX_ID_DIGITS
        return self._events.get(int(event_id)) if is_number else None

    def list_after(self, event: StoredEvent) -> list[StoredEvent]:
        """List the events that followed `event` in its stream, except those without a message."""
        return [
            later
            for later in self._events.values()
            if later.id > event.id and later.stream is event.stream and later.message is not None
        ]
