"""The sessions of MCP clients over HTTP, with limits that one client cannot use up for all.

A session opens only to the credential that began it. It ends when the client ends it, when it is idle for long, and,
idle longest, when there are too many.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Iterator
from contextlib import contextmanager

from wap_kernel.dialects.mcp.connection import Connection
from wap_kernel.dialects.mcp.http.event_store import EventStore, StoredEvent
from wap_kernel.dialects.mcp.http.response_stream import ResponseStream
from wap_kernel.dialects.mcp.messages import ProtocolError
from wap_kernel.dialects.mcp.protocol import INVALID_REQUEST, SESSION_HEADER
from wap_kernel.dialects.mcp.server import McpServer
from wap_kernel.model.errors import Code
from wap_kernel.model.limits import MCP_IDLE_SECONDS, MCP_MAX_SESSIONS, MCP_MAX_SESSIONS_PER_CREDENTIAL

BEGIN = f"Send initialize without {SESSION_HEADER}, and what it answers there with every request of the session."


class Session:
    """A client's session: its connection, and the stream for messages that are about no request."""

    def __init__(self, owner: str, store: EventStore) -> None:
        self.id = secrets.token_hex(16)
        self.owner = owner
        """The credential that began the session."""
        self.connection = Connection()
        self.store = store
        self.standing = ResponseStream(None, is_stream=True, takes_requests=True, store=store, session_id=self.id)
        self.idle_since = 0.0
        self._uses = 0

    @property
    def is_idle(self) -> bool:
        """Return whether no request is under way and no stream is open."""
        return self._uses == 0 and not self.connection.calls

    @contextmanager
    def use(self) -> Iterator[None]:
        """Keep the session from counting as idle while the block runs."""
        self._uses += 1
        try:
            yield
        finally:
            self._uses -= 1
            self.mark_use()

    def mark_use(self) -> None:
        """Begin to count the idle time anew. A request may end long after its client disconnected."""
        self.idle_since = asyncio.get_running_loop().time()

    def open_stream(self, expected: int, *, is_stream: bool) -> ResponseStream:
        return ResponseStream(expected, is_stream=is_stream, takes_requests=True, store=self.store, session_id=self.id)

    def find_event(self, event_id: str) -> tuple[ResponseStream, StoredEvent] | None:
        """Find a stored event of this session, and the stream to resume."""
        event = self.store.find(event_id)
        if event is None or not isinstance(event.stream, ResponseStream) or event.stream.session_id != self.id:
            return None
        return event.stream, event

    def end(self) -> None:
        self.connection.close()
        self.standing.close()


class McpSessions:
    """The open sessions of all clients of one server."""

    def __init__(
        self,
        server: McpServer,
        *,
        idle_seconds: float = MCP_IDLE_SECONDS,
        max_sessions: int = MCP_MAX_SESSIONS,
        max_per_credential: int = MCP_MAX_SESSIONS_PER_CREDENTIAL,
    ) -> None:
        self.server = server
        self.idle_seconds = idle_seconds
        self.max_sessions = max_sessions
        self._max_per_credential = max_per_credential
        self._sessions: dict[str, Session] = {}
        self._store = EventStore()
        self._sweep: asyncio.TimerHandle | None = None

    @property
    def open(self) -> int:
        return len(self._sessions)

    def begin(self, owner: str) -> Session:
        """Begin a session; at a limit, end the one that was idle longest, of the same credential if it has many."""
        own = [session for session in self._sessions.values() if session.owner == owner]
        if len(own) >= self._max_per_credential:
            self._end_longest_idle(own)
        elif self.open >= self.max_sessions:
            self._end_longest_idle(list(self._sessions.values()))
        session = Session(owner, self._store)
        session.idle_since = asyncio.get_running_loop().time()
        self._sessions[session.id] = session
        self._schedule_sweep()
        return session

    def find(self, session_id: str, owner: str) -> Session:
        """Find a session of a credential; raise ProtocolError."""
        session = self._sessions.get(session_id)
        if session is None or session.owner != owner:
            raise ProtocolError(
                INVALID_REQUEST,
                "Session not found.",
                f"The session has ended, or is another's. {BEGIN}",
                code=Code.NOT_FOUND,
                status=404,
            )
        return session

    def end(self, session: Session) -> None:
        self._sessions.pop(session.id, None)
        session.end()

    async def close(self) -> None:
        """End every session and every request."""
        if self._sweep is not None:
            self._sweep.cancel()
        calls = [call for session in self._sessions.values() for call in session.connection.calls.values()]
        for session in list(self._sessions.values()):
            self.end(session)
        self.server.close()
        if calls:
            await asyncio.wait(calls)

    def _end_longest_idle(self, sessions: list[Session]) -> None:
        idle = [session for session in sessions if session.is_idle]
        if not idle:
            raise ProtocolError(
                INVALID_REQUEST,
                "Too many open sessions.",
                "End some with DELETE, or try again later.",
                code=Code.RATE_LIMITED,
                status=503,
            )
        self.end(min(idle, key=lambda session: session.idle_since))

    def _schedule_sweep(self) -> None:
        if self._sweep is None and self._sessions:
            self._sweep = asyncio.get_running_loop().call_later(self.idle_seconds / 2, self._end_expired)

    def _end_expired(self) -> None:
        self._sweep = None
        expired = asyncio.get_running_loop().time() - self.idle_seconds
        for session in list(self._sessions.values()):
            if session.is_idle and session.idle_since <= expired:
                self.end(session)
        self._schedule_sweep()
