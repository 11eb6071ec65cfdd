"""The server's messages for one HTTP response: one answer as JSON, or a stream of events that can be resumed.

Most requests are answered at once and with nothing else, so the form is decided late: a message before the answer, or
a long wait, makes the response a stream of events.
"""

from __future__ import annotations

import asyncio
from collections import deque

from wap_kernel.dialects.mcp.http.event_store import EventStore, StoredEvent, encode_event
from wap_kernel.dialects.mcp.server import Reply
from wap_kernel.model.limits import MCP_MAX_QUEUED_BYTES, MCP_MAX_QUEUED_MESSAGES

RETRY_MS = 500
"""The delay after which a client reconnects."""


class ResponseStream:
    """The messages and the answers of one response. `expected` answers complete it; None: it stays open.

    With a `store`, the events have ids, and a client that lost its connection can resume. One connection at a time
    reads the stream: one that resumes it takes it over, since the server may not know yet that the other is lost.
    """

    def __init__(
        self,
        expected: int | None,
        *,
        is_stream: bool,
        takes_requests: bool = False,
        store: EventStore | None = None,
        session_id: str | None = None,
    ) -> None:
        self.session_id = session_id
        self.is_stream = is_stream
        self.takes_requests = is_stream and takes_requests
        self.replies: list[Reply] = []
        self._expected = expected
        self._store = store
        self._messages: list[bytes] = []
        """The messages before the response became a stream of events."""
        self._frames: deque[bytes] | None = None
        """The encoded events that have not been written; None before the response became a stream of events."""
        self._queued_bytes = 0
        """Bytes of the messages or events that have not been written."""
        self._reader: object | None = None
        """The connection that writes the events."""
        self._is_closed = False
        self._wake = asyncio.Event()

    @property
    def is_complete(self) -> bool:
        return self._is_closed or (self._expected is not None and len(self.replies) >= self._expected)

    @property
    def is_answer_only(self) -> bool:
        """Return whether there is nothing but answers, so that JSON can hold everything."""
        return not self._messages and self._frames is None

    @property
    def is_attached(self) -> bool:
        """Return whether a connection writes the events."""
        return self._reader is not None

    def send(self, message: bytes) -> None:
        """Add a message; a client that takes no events gets none, and one that does not read loses some."""
        count = len(self._messages if self._frames is None else self._frames)
        if self.is_stream and count < MCP_MAX_QUEUED_MESSAGES and self._queued_bytes < MCP_MAX_QUEUED_BYTES:
            self._add(message)

    def reply(self, reply: Reply) -> None:
        self.replies.append(reply)
        if self._frames is not None:
            self._add(reply.data)
        self._wake.set()

    def close(self) -> None:
        """End the stream without an answer."""
        self._is_closed = True
        self._wake.set()

    def _add(self, message: bytes) -> None:
        if self._frames is None:
            self._messages.append(message)
            self._queued_bytes += len(message)
        else:
            self._frame(message)
        self._wake.set()

    def _frame(self, message: bytes | None) -> None:
        event = None if self._store is None else self._store.add(self, message)
        if self._reader is not None:
            self._queue(encode_event(message, None if event is None else event.id, RETRY_MS))

    def _queue(self, frame: bytes) -> None:
        assert self._frames is not None
        self._frames.append(frame)
        self._queued_bytes += len(frame)

    # -- for the connection that writes the response

    def begin_events(self, reader: object, *, is_primed: bool = False) -> None:
        """Make the response a stream of events; the first one only gives a position to resume from."""
        self._attach(reader)
        if is_primed:
            self._frame(None)
        for message in (*self._messages, *(reply.data for reply in self.replies)):
            self._frame(message)
        self._messages = []

    def resume(self, reader: object, event: StoredEvent) -> None:
        """Write the events after `event`, and those that follow, to another connection."""
        assert self._store is not None  # it has stored the event
        self._attach(reader)
        for later in self._store.list_after(event):
            self._queue(later.encode(RETRY_MS))
        self._wake.set()

    def _attach(self, reader: object) -> None:
        self._frames, self._queued_bytes, self._reader = deque(), 0, reader

    def detach(self, reader: object) -> None:
        """Stop writing to a connection that is lost. Later events are stored only."""
        if self._reader is reader:
            self._reader = None
            self._frames, self._queued_bytes = deque(), 0
        self._wake.set()

    def take(self, reader: object) -> bytes | None:
        """Return the events that have not been written; None where another connection has taken the stream over."""
        if self._reader is not reader:
            return None
        assert self._frames is not None
        data = b"".join(self._frames)
        self._frames.clear()
        self._queued_bytes = 0
        return data

    async def wait(self, seconds: float | None) -> bool:
        """Wait until there is something to write, or nothing more will come; return False after `seconds`."""
        if self.is_complete or self._messages or self._frames:
            return True
        self._wake.clear()
        try:
            await asyncio.wait_for(self._wake.wait(), seconds)
        except asyncio.TimeoutError:
            return False
        return True

    async def wait_complete(self) -> None:
        while not self.is_complete:
            self._wake.clear()
            await self._wake.wait()
