"""Open a new session when the server has lost the old one: it was restarted, or the session was idle too long.

The new session begins as the client began the first, and requests that failed because of the loss are sent again.
Subscriptions are lost with the session.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from mcp_types import JSONRPCError, JSONRPCMessage, JSONRPCNotification, JSONRPCRequest, JSONRPCResponse, RequestId

RENEWAL_ID = "wap-renewal"
"""The id of the request that opens the new session."""
_SESSION_LOST = frozenset(
    {
        "Session not found",
        "Session terminated",
        "Not Found: Session has been terminated",
        "Not Found: Invalid or expired session ID",
    }
)
"""The errors for a lost session, of the server's SDK or of this one; the server has done nothing then."""

Send = Callable[[JSONRPCMessage], Awaitable[None]]


class SessionRenewal:
    """The renewal of one client's session; `send` sends to the server."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._opening: JSONRPCRequest | None = None
        self._requests: dict[RequestId, JSONRPCRequest] = {}
        self._waiting: list[JSONRPCRequest] = []
        self._is_under_way = False

    def observe_request(self, message: JSONRPCMessage) -> None:
        """Observe a message of the client."""
        if isinstance(message, JSONRPCRequest) and message.method == "initialize":
            self._opening = message
        elif isinstance(message, JSONRPCRequest):
            self._requests[message.id] = message
        elif isinstance(message, JSONRPCNotification) and message.method == "notifications/cancelled":
            cancelled = (message.params or {}).get("requestId")
            if isinstance(cancelled, int | str):
                self._requests.pop(cancelled, None)
                self._waiting = [request for request in self._waiting if request.id != cancelled]

    async def observe(self, message: JSONRPCMessage) -> list[JSONRPCMessage]:
        """Observe a message of the server; return the messages for the client."""
        if not isinstance(message, JSONRPCResponse | JSONRPCError) or message.id is None:
            return [message]
        if message.id == RENEWAL_ID:
            return await self._finish_renewal(message)
        request, opening = self._requests.pop(message.id, None), self._opening
        if request is None or opening is None or not _is_session_lost(message):
            return [message]
        self._waiting.append(request)
        if not self._is_under_way:
            self._is_under_way = True
            await self._send(opening.model_copy(update={"id": RENEWAL_ID}))
        return []

    async def _finish_renewal(self, answer: JSONRPCResponse | JSONRPCError) -> list[JSONRPCMessage]:
        waiting, self._waiting, self._is_under_way = self._waiting, [], False
        if isinstance(answer, JSONRPCError):
            return [JSONRPCError(jsonrpc="2.0", id=request.id, error=answer.error) for request in waiting]
        await self._send(JSONRPCNotification(jsonrpc="2.0", method="notifications/initialized"))
        for request in waiting:  # not recorded again: a second failure reaches the client
            await self._send(request)
        return []


def _is_session_lost(answer: JSONRPCResponse | JSONRPCError) -> bool:
    return isinstance(answer, JSONRPCError) and answer.error.message in _SESSION_LOST
