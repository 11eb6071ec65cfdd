"""The session of a forwarded client: the headers of its messages, and a new session when the server lost the old one.

A server loses a session when it is restarted, or when the session was idle too long. The new one begins as the client
began the first; subscriptions are lost with the session.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

from wap_kernel.dialects.mcp.envelope import encode_header, is_enveloped
from wap_kernel.dialects.mcp.messages import Batch, Message, Notification, Request
from wap_kernel.dialects.mcp.protocol import (
    METHOD_HEADER,
    NAME_HEADER,
    NAMED_METHODS,
    SESSION_HEADER,
    VERSION_HEADER,
    VERSION_KEY,
)
from wap_kernel.model.errors import Code

READY = Notification("notifications/initialized", None)


class ForwardedSession:
    """The session that the bridge has with the server, for the client. Threads share it."""

    def __init__(self) -> None:
        self.renewal = threading.Lock()
        """Held while a session begins, so that requests which fail together begin one new session."""
        self.opening: Request | None = None
        """The client's `initialize`, to begin another session with."""
        self.id: str | None = None
        self._version: str | None = None

    def begin(self, opening: Request) -> None:
        """Forget the session: a new one begins."""
        self.opening, self.id, self._version = opening, None, None

    def accept(self, session_id: str | None, result: object) -> None:
        """Remember the session that the server opened, and the version that it named."""
        version = result.get("protocolVersion") if isinstance(result, Mapping) else None
        self.id, self._version = session_id, version if isinstance(version, str) else None

    def build_headers(self, message: Message | Batch | None) -> dict[str, str]:
        """Build the headers that HTTP demands: the session and version, or those of the message's envelope."""
        headers = {"Accept": "application/json, text/event-stream"}
        if isinstance(message, Request) and message.method == "initialize":
            return headers
        if isinstance(message, Request) and is_enveloped(message):
            return {**headers, **_build_envelope_headers(message)}
        if self.id is not None:
            headers[SESSION_HEADER] = self.id
        return headers if self._version is None else {**headers, VERSION_HEADER: self._version}


def _build_envelope_headers(request: Request) -> dict[str, str]:
    # A header cannot hold every text that JSON can.
    version, method = encode_header(str(request.meta[VERSION_KEY])), encode_header(request.method)
    headers = {VERSION_HEADER: version, METHOD_HEADER: method}
    name = (request.params or {}).get(NAMED_METHODS.get(request.method, ""))
    return {**headers, NAME_HEADER: encode_header(name)} if isinstance(name, str) else headers


def is_session_lost(status: int, error: Mapping[str, Any]) -> bool:
    """Return whether the server does not know the session; it has done nothing then."""
    data = error.get("data")
    return status == 404 and isinstance(data, Mapping) and data.get("code") == Code.NOT_FOUND.value
