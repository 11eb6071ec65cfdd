"""An ASGI application behind a tornado handler: the request's body as it comes, the answer as it is made.

What flows is slowed by who reads it, in both directions: a chunk of the body is taken from the socket when the one
before was taken by the application, and the application goes on when what it sent has left. A client that goes away
before it has its answer ends the application's work. A small body is waited for and handed over whole: every wait is a
round of the event loop, and most requests are small.
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

CREDENTIALS = frozenset({"authorization", "cookie", "x-xsrftoken"})
"""Headers that end here: the handler has seen them, and an application has no use for them."""
_PER_CONNECTION = frozenset({"connection", "keep-alive", "transfer-encoding", "upgrade"})
"""Of an answer: tornado's own affair."""
SMALL = 64 * 1024
"""Bytes of a body that is handed over whole."""
_DIGITS = 10
"""A longer number is no small one, whatever it is made of."""


def scope_of(request: HTTPServerRequest, more: Mapping[str, Any]) -> Scope:
    """The request as ASGI has it, without credentials. The query may hold one too and is left out."""
    headers = [
        (name.lower().encode("latin-1"), value.encode("latin-1", "replace"))
        for name, value in request.headers.get_all()
        if name.lower() not in CREDENTIALS
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


class Exchange:
    """One request to an application and its answer. `feed` it the body, then `end_body`, then await `answered`."""

    def __init__(self, application: Application, handler: RequestHandler, scope: Scope) -> None:
        self._handler = handler
        self._whole = bytearray() if _is_small(handler.request) else None
        """What there is of a small body."""
        self._chunk: bytes | None = None
        self._arrived = asyncio.Event()
        """There is a chunk, the body has ended, or the client has gone."""
        self._taken = asyncio.Event()
        """There is room for a chunk, or nobody takes any more."""
        self._taken.set()
        self._body_ended = asyncio.Event()
        self._is_body_told = False
        self._is_gone = asyncio.Event()
        self._is_deaf = False
        """The application takes nothing any more."""
        self._has_started = False
        self._is_complete = False
        self._application = partial(application, scope)
        self._task: asyncio.Task[None] | None = None
        if self._whole is None:
            self._begin_work()

    def _begin_work(self) -> None:
        self._task = asyncio.ensure_future(self._serve())
        self._task.add_done_callback(_hear)

    async def _serve(self) -> None:
        try:
            await self._application(self._receive, self._send)
        finally:
            self._deafen()

    def _deafen(self) -> None:
        self._is_deaf = True
        self._taken.set()

    @property
    def has_started(self) -> bool:
        """Whether some of the answer has left."""
        return self._has_started

    async def feed(self, chunk: bytes) -> None:
        """Returns when there is room for more. What the application will not take any more is dropped."""
        if self._whole is not None:
            self._whole += chunk
            return
        await self._taken.wait()
        if not self._is_deaf:
            self._chunk = chunk
            self._taken.clear()
            self._arrived.set()

    def end_body(self) -> None:
        if self._whole is not None and not self._is_gone.is_set():
            self._chunk = bytes(self._whole)
            self._begin_work()
        self._body_ended.set()
        self._arrived.set()

    def disconnect(self) -> None:
        """The client has gone. Whoever has its whole answer was not interrupted, and what follows an answer goes on."""
        self._is_gone.set()
        self._arrived.set()
        self._deafen()
        self._body_ended.set()
        if self._task is not None and not self._is_complete:
            self._task.cancel()

    async def answered(self) -> None:
        """Until the application has ended. Raises what it raises."""
        if self._task is None:  # the client went before its request was whole
            return
        try:
            await self._task
        except asyncio.CancelledError:
            if not self._is_gone.is_set():  # it is this request's own task that was cancelled
                self._task.cancel()
                raise
        if not self._is_complete and not self._is_gone.is_set():
            raise RuntimeError("The application ended without an answer.")

    # -- the application's side

    async def _receive(self) -> Message:
        if not self._is_body_told:
            await self._arrived.wait()
        if self._is_gone.is_set():
            return {"type": "http.disconnect"}
        if self._is_body_told:
            await self._is_gone.wait()
            return {"type": "http.disconnect"}
        chunk, self._chunk = self._chunk, None
        self._taken.set()
        self._is_body_told = chunk is None or self._whole is not None
        if not self._body_ended.is_set():
            self._arrived.clear()
        return {"type": "http.request", "body": chunk or b"", "more_body": not self._is_body_told}

    async def _send(self, message: Message) -> None:
        if self._is_gone.is_set():
            return  # `http.disconnect` tells; an error would be logged as one
        if message["type"] == "http.response.start":
            await self._begin(message)
        elif message["type"] == "http.response.body":
            await self._write(message.get("body", b""), is_last=not message.get("more_body", False))

    async def _begin(self, message: Message) -> None:
        """Of a stream the headers leave at once, since its first word may take a while; else they go with the body."""
        handler = self._handler
        handler.set_status(message["status"])
        handler.clear_header("Content-Type")
        for raw_name, raw_value in message.get("headers", ()):
            name = raw_name.decode("latin-1")
            if name.lower() not in _PER_CONNECTION:
                handler.set_header(name, raw_value.decode("latin-1"))
        if "Content-Length" not in handler._headers:
            await self._flush()

    async def _write(self, body: bytes, *, is_last: bool) -> None:
        if body:
            self._handler.write(bytes(body))
        if is_last:
            self._deafen()
            # An answer that is finished while its request is still being sent would be cut off with the connection.
            await self._body_ended.wait()
            self._is_complete = True
        await self._flush()
        if is_last and not self._is_gone.is_set():
            self._handler.finish()

    async def _flush(self) -> None:
        self._has_started = True
        try:
            await self._handler.flush()
        except StreamClosedError:
            self.disconnect()


def _is_small(request: HTTPServerRequest) -> bool:
    """A body of a length that was not told may go on for ever."""
    length = request.headers.get("Content-Length", "")
    return length.isdecimal() and len(length) < _DIGITS and int(length) <= SMALL


def _hear(task: asyncio.Task[None]) -> None:
    """Nobody may be left to await it."""
    if not task.cancelled():
        task.exception()
