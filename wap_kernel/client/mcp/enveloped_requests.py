"""The connections of requests with envelopes: a client cancels such a request, and the bridge closes its connection."""

from __future__ import annotations

import socket
from contextlib import suppress
from threading import Lock
from typing import Any

from wap_kernel.dialects.mcp.messages import RequestId


class EnvelopedRequest:
    """A request that the client may cancel, also before its connection is open."""

    def __init__(self, request_id: RequestId) -> None:
        self.id = request_id
        self.is_cancelled = False
        self._socket: Any = None
        self._lock = Lock()

    def connect(self, connection: Any) -> None:
        """Remember the socket of the request."""
        with self._lock:
            self._socket = connection
        if self.is_cancelled:
            self.cancel()

    def cancel(self) -> None:
        self.is_cancelled = True
        with self._lock, suppress(OSError):
            if self._socket is not None:
                self._socket.shutdown(socket.SHUT_RDWR)


class EnvelopedRequests:
    """The requests with envelopes that are under way. Threads share it."""

    def __init__(self) -> None:
        self._requests: dict[RequestId, EnvelopedRequest] = {}

    def begin(self, request_id: RequestId) -> EnvelopedRequest:
        request = self._requests[request_id] = EnvelopedRequest(request_id)
        return request

    def end(self, request: EnvelopedRequest) -> None:
        if self._requests.get(request.id) is request:
            self._requests.pop(request.id, None)

    def cancel(self, request_id: object) -> bool:
        """Cancel a request; return whether it is under way."""
        if isinstance(request_id, bool) or not isinstance(request_id, int | str):  # True would find the request 1
            return False
        request = self._requests.get(request_id)
        if request is not None:
            request.cancel()
        return request is not None

    def close(self) -> None:
        for request in list(self._requests.values()):
            request.cancel()
