"""Read a request's body: only from authenticated callers, only up to a limit, and without resetting connections.

Tornado closes a connection whose answer is finished before the body was read. A client that is still sending then gets
a reset and loses the answer; one that is not has no hint that its next request goes nowhere. So a refusal is written
immediately and the rest of the body, if there is one, is read and dropped, for a bounded number of bytes and seconds. A
request that is read to its end keeps its connection; an answer that cannot wait for that says `Connection: close`.
"""

from __future__ import annotations

import asyncio
from typing import Any

from tornado.web import RequestHandler

from wap_kernel.model.errors import TooLarge, WapError
from wap_kernel.model.limits import MAX_BODY_BYTES

MAX_DROPPED_BYTES = 4 * MAX_BODY_BYTES
MAX_DROP_SECONDS = 30.0
IDLE_SECONDS = 2.0


class BodyReader(RequestHandler):
    """A mixin for a handler with `@stream_request_body`; `write_refusal` writes the errors."""

    size_hint = "Write large files in parts with mode append."
    refused = False
    is_read = False
    """True when the request was read to its end."""
    _dropped = 0

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._received = bytearray()

    def take_body(self) -> bytes:
        """Return the whole body, once; the handler drops its own copy."""
        taken, self._received = bytes(self._received), bytearray()
        return taken

    def check_length(self) -> None:
        """Refuse a body whose declared length is too large; other bodies are counted as they arrive."""
        if self._declared_length() > MAX_BODY_BYTES:
            raise self.too_large()

    def refuse(self, error: WapError) -> None:
        """Answer with `error` before the body has been read; raise it where Tornado should answer instead."""
        # With `Expect: 100-continue` the client has sent nothing yet, and an unfinished answer would be followed
        # by Tornado's "100 Continue". A body over the drop limit is not worth waiting for.
        if "Expect" in self.request.headers or self._declared_length() > MAX_DROPPED_BYTES:
            raise error
        self._refuse_now(error)

    def data_received(self, chunk: bytes) -> None:
        if self.refused:
            self._dropped += len(chunk)
            if self._dropped > MAX_DROPPED_BYTES and not self._finished:
                self.finish()
        elif len(self._received) + len(chunk) > MAX_BODY_BYTES:
            self._received = bytearray()
            self._refuse_now(self.too_large())
        else:
            self._received += chunk

    def too_large(self) -> TooLarge:
        return TooLarge(
            f"The request's body is over {MAX_BODY_BYTES} bytes.", hint=self.size_hint, limit=MAX_BODY_BYTES
        )

    def write_refusal(self, error: WapError) -> None:
        """Write an error as the handler formats it; `ErrorResponses` implements it."""
        raise NotImplementedError

    def _refuse_now(self, error: WapError) -> None:
        self.refused = True
        self.clear()
        self.write_refusal(error)
        self.flush()
        loop = asyncio.get_running_loop()
        loop.call_later(IDLE_SECONDS, self._close_when_idle, loop.time() + MAX_DROP_SECONDS, 0)

    def _close_when_idle(self, deadline: float, dropped_before: int) -> None:
        if self._finished:
            return
        loop = asyncio.get_running_loop()
        if self._dropped == dropped_before or loop.time() > deadline:
            self.finish()
        else:
            loop.call_later(IDLE_SECONDS, self._close_when_idle, deadline, self._dropped)

    def _declared_length(self) -> int:
        declared = self.request.headers.get("Content-Length", "")
        # Tornado refuses what is not a number. 19 digits are enough to be too large, 5,000 make int() raise.
        return int(declared[:19]) if declared.isascii() and declared.isdigit() else 0
