"""Run an ASGI application behind a Tornado handler; stream the request's body and the response.

There is back-pressure in both directions: a chunk of the body is read from the socket when the application has received
the one before, and the application continues when the chunk it sent has left. A client that disconnects before it has
its response cancels the application. A small body is buffered and handed over whole: every wait is a round of the event
loop, and most requests are small.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from functools import partial
from typing import Any
from urllib.parse import unquote

from tornado.httputil import HTTPServerRequest
from tornado.iostream import StreamClosedError
from tornado.web import RequestHandler

Message = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

CREDENTIAL_HEADERS = frozenset({"authorization", "cookie", "x-xsrftoken"})
"""Headers that the application does not get: the handler has checked them."""
_HOP_BY_HOP = frozenset({"connection", "keep-alive", "transfer-encoding", "upgrade"})
"""Headers of a response that Tornado sets itself."""
MAX_SMALL_BODY_BYTES = 64 * 1024
"""The largest body that is handed over whole."""
_MAX_LENGTH_DIGITS = 10
"""Digits of a Content-Length that are parsed; a longer number is not small."""


def build_scope(request: HTTPServerRequest, more: Mapping[str, Any]) -> Scope:
    """Build the ASGI scope of a request, without credentials; the query may hold one too and is left out."""
    headers = [
        (name.lower().encode("latin-1"), value.encode("latin-1", "replace"))
        for name, value in request.headers.get_all()
        if name.lower() not in CREDENTIAL_HEADERS
    ]
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": request.version.removeprefix("HTTP/"),
        "method": request.method,
        "scheme": request.protocol,
        "path": unquote(request.path),
        "raw_path": request.path.encode("ascii", "replace"),
        "root_path": "",
        "query_string": b"",
        "headers": headers,
        "client": (request.remote_ip, 0),
        "server": None,
        **more,
    }


class AsgiExchange:
    """One request to an application and its response: `feed` the body, `end_body`, then await `finish`."""

    def __init__(self, application: Application, handler: RequestHandler, scope: Scope) -> None:
        self._handler = handler
        self._buffer = bytearray() if _is_small(handler.request) else None
        """The part of a small body that has arrived; None for a body that is streamed."""
        self._chunk: bytes | None = None
        self._arrived = asyncio.Event()
        """Set while there is a chunk, and when the body has ended or the client has disconnected."""
        self._has_room = asyncio.Event()
        """Set while there is room for a chunk, and when the application receives no more."""
        self._has_room.set()
        self._body_ended = asyncio.Event()
        self._is_body_received = False
        self._disconnected = asyncio.Event()
        self._is_ignoring_body = False
        """True when the application receives no more of the body."""
        self._has_started = False
        self._is_complete = False
        self._application = partial(application, scope)
        self._task: asyncio.Task[None] | None = None
        if self._buffer is None:
            self._start_application()

    def _start_application(self) -> None:
        self._task = asyncio.ensure_future(self._serve())
        self._task.add_done_callback(_consume_exception)

    async def _serve(self) -> None:
        try:
            await self._application(self._receive, self._send)
        finally:
            self._ignore_body()

    def _ignore_body(self) -> None:
        self._is_ignoring_body = True
        self._has_room.set()

    @property
    def has_started(self) -> bool:
        """True when a part of the response has left."""
        return self._has_started

    async def feed(self, chunk: bytes) -> None:
        """Hand over a chunk when there is room; drop it when the application receives no more."""
        if self._buffer is not None:
            self._buffer += chunk
            return
        await self._has_room.wait()
        if not self._is_ignoring_body:
            self._chunk = chunk
            self._has_room.clear()
            self._arrived.set()

    def end_body(self) -> None:
        if self._buffer is not None and not self._disconnected.is_set():
            self._chunk = bytes(self._buffer)
            self._start_application()
        self._body_ended.set()
        self._arrived.set()

    def disconnect(self) -> None:
        """Cancel the application after the client disconnected, unless the response is complete."""
        self._disconnected.set()
        self._arrived.set()
        self._ignore_body()
        self._body_ended.set()
        if self._task is not None and not self._is_complete:
            self._task.cancel()

    async def finish(self) -> None:
        """Wait until the application has ended; raise what it raises."""
        if self._task is None:  # the client disconnected before its request was complete
            return
        try:
            await self._task
        except asyncio.CancelledError:
            if not self._disconnected.is_set():  # this request's own task was cancelled
                self._task.cancel()
                raise
        if not self._is_complete and not self._disconnected.is_set():
            raise RuntimeError("The application ended without a complete response.")

    # -- the application's side

    async def _receive(self) -> Message:
        if not self._is_body_received:
            await self._arrived.wait()
        if self._disconnected.is_set():
            return {"type": "http.disconnect"}
        if self._is_body_received:
            await self._disconnected.wait()
            return {"type": "http.disconnect"}
        chunk, self._chunk = self._chunk, None
        self._has_room.set()
        self._is_body_received = chunk is None or self._buffer is not None
        if not self._body_ended.is_set():
            self._arrived.clear()
        return {"type": "http.request", "body": chunk or b"", "more_body": not self._is_body_received}

    async def _send(self, message: Message) -> None:
        if self._disconnected.is_set():
            return  # `http.disconnect` says so; an exception would be logged as an error
        if message["type"] == "http.response.start":
            await self._start_response(message)
        elif message["type"] == "http.response.body":
            await self._write(message.get("body", b""), is_last=not message.get("more_body", False))

    async def _start_response(self, message: Message) -> None:
        """Set status and headers; a stream sends them now, since its first event may take a while."""
        handler = self._handler
        handler.set_status(message["status"])
        handler.clear_header("Content-Type")
        for raw_name, raw_value in message.get("headers", ()):
            name = raw_name.decode("latin-1")
            if name.lower() not in _HOP_BY_HOP:
                handler.set_header(name, raw_value.decode("latin-1"))
        if "Content-Length" not in handler._headers:
            await self._flush()

    async def _write(self, body: bytes, *, is_last: bool) -> None:
        if body:
            self._handler.write(bytes(body))
        if is_last:
            self._ignore_body()
            # Tornado would close the connection of a client that still sends its request, and cut the response off.
            await self._body_ended.wait()
            self._is_complete = True
        await self._flush()
        if is_last and not self._disconnected.is_set():
            self._handler.finish()

    async def _flush(self) -> None:
        self._has_started = True
        try:
            await self._handler.flush()
        except StreamClosedError:
            self.disconnect()


def _is_small(request: HTTPServerRequest) -> bool:
    """Return whether the body declares a small length; one without a length may be endless."""
    length = request.headers.get("Content-Length", "")
    return length.isdecimal() and len(length) < _MAX_LENGTH_DIGITS and int(length) <= MAX_SMALL_BODY_BYTES


def _consume_exception(task: asyncio.Task[None]) -> None:
    """Mark the exception of a task as retrieved; no caller may be left to await it."""
    if not task.cancelled():
        task.exception()
