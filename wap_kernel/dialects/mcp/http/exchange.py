"""One HTTP request of a client: begin to answer its messages, and collect the answers."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import partial

from wap_kernel.dialects.mcp.connection import Connection
from wap_kernel.dialects.mcp.envelope import check_version, read_envelope
from wap_kernel.dialects.mcp.http.response_stream import ResponseStream
from wap_kernel.dialects.mcp.http.sessions import BEGIN, McpSessions, Session
from wap_kernel.dialects.mcp.identity import Requester, clean_name
from wap_kernel.dialects.mcp.messages import SHAPE, Batch, Message, Notification, ProtocolError, Request, encode_error
from wap_kernel.dialects.mcp.protocol import (
    BATCH_VERSION,
    HANDSHAKE_VERSIONS,
    INVALID_REQUEST,
    PRIMING_VERSION,
)
from wap_kernel.dialects.mcp.server import Reply, build_cancelled_reply


class Exchange:
    """The messages of one HTTP request and the answers to them.

    Each `begin` method returns the stream of the response, or None where the messages want no answer.
    """

    def __init__(self, sessions: McpSessions, requester: Requester, *, accepts_events: bool) -> None:
        self._sessions = sessions
        self._requester = requester
        self._accepts_events = accepts_events
        self._stream: ResponseStream | None = None
        self._calls: list[asyncio.Task[Reply]] = []
        self._is_batch = False
        self.session: Session | None = None
        """The session that the messages belong to; from 2026-07-28 on there is none."""

    @property
    def is_primed(self) -> bool:
        """Return whether the client can resume from an event without a message; earlier clients cannot parse it."""
        version = None if self.session is None else self.session.connection.version
        return version is not None and HANDSHAKE_VERSIONS.index(version) >= HANDSHAKE_VERSIONS.index(PRIMING_VERSION)

    @property
    def status(self) -> int:
        """Return the HTTP status of an answer as JSON: sessions have the error in the body only."""
        assert self._stream is not None
        return 200 if self.session is not None else self._stream.replies[0].status

    def encode_replies(self) -> bytes:
        """Encode the answers as the body of a response."""
        assert self._stream is not None
        replies = [reply.data for reply in self._stream.replies]
        return b"[%b]" % b",".join(replies) if self._is_batch else replies[0]

    def begin_session(self, message: Message | Batch, owner: str) -> ResponseStream | None:
        """Answer `initialize`, which begins a session of the credential `owner`."""
        if not isinstance(message, Request) or message.method != "initialize":
            request_id = message.id if isinstance(message, Request) else None
            raise ProtocolError(INVALID_REQUEST, "There is no session.", BEGIN, request_id=request_id)
        session = self._sessions.begin(owner)
        stream = self.begin_in_session(message, session)
        self._calls[0].add_done_callback(partial(self._end_unopened, session))
        return stream

    def _end_unopened(self, session: Session, _: object) -> None:
        if session.connection.version is None:  # `initialize` failed
            self._sessions.end(session)

    def begin_in_session(self, message: Message | Batch, session: Session) -> ResponseStream | None:
        self.session = session
        if isinstance(message, list):
            if session.connection.version != BATCH_VERSION:
                raise ProtocolError(INVALID_REQUEST, f"Only {BATCH_VERSION} has batches.", SHAPE)
            self._is_batch = True
        messages = message if isinstance(message, list) else [message]
        requests = [each for each in messages if isinstance(each, Request)]
        refusals = [each for each in messages if isinstance(each, ProtocolError)]
        session.connection.check_calls([request.id for request in requests])  # before the first one begins
        session.mark_use()
        for each in messages:
            if not isinstance(each, Request | ProtocolError):
                self._sessions.server.receive(session.connection, each)
        if not requests and not refusals:
            return None
        self._stream = stream = session.open_stream(len(requests) + len(refusals), is_stream=self._accepts_events)
        for refusal in refusals:
            stream.reply(Reply(encode_error(refusal.request_id, refusal)))
        for request in requests:
            self._start(request, session.connection, stream, session.standing)
            self._calls[-1].add_done_callback(lambda _: session.mark_use())
        return stream

    def begin_enveloped(
        self, message: Message | Batch, version: str, headers: Mapping[str, list[str]]
    ) -> ResponseStream | None:
        """Answer a request that stands alone. Its client cancels it by closing the connection."""
        if isinstance(message, Notification):  # there is none that means something here, and clients still send some
            check_version(version)
            return None
        if not isinstance(message, Request):
            raise ProtocolError(INVALID_REQUEST, "The body is no request.", SHAPE)
        envelope = read_envelope(message, headers)
        client = None if envelope.client is None else clean_name(envelope.client)
        connection = Connection(envelope.version, client, envelope.capabilities)
        stream = ResponseStream(1, is_stream=self._accepts_events)
        self._start(message, connection, stream, stream)
        self._calls[0].add_done_callback(lambda _: connection.close())
        return stream

    def _start(
        self, request: Request, connection: Connection, stream: ResponseStream, standing: ResponseStream
    ) -> None:
        self._stream = stream
        call = self._sessions.server.start(connection, request, self._requester, stream, standing)
        call.add_done_callback(lambda done: stream.reply(_get_reply(request, done)))
        self._calls.append(call)

    def disconnect(self) -> None:
        """Cancel the requests of a client that is gone, unless it can come back for the answers."""
        if self.session is None:
            for call in self._calls:
                call.cancel()


def _get_reply(request: Request, done: asyncio.Task[Reply]) -> Reply:
    return build_cancelled_reply(request) if done.cancelled() else done.result()
