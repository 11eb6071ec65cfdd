"""A session that the server has forgotten (it was started again, or nobody asked for anything for long) is begun anew,
as the client began it, and what came to nothing by that is sent once more. Subscriptions are gone with the session."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from mcp_types import JSONRPCError, JSONRPCMessage, JSONRPCNotification, JSONRPCRequest, JSONRPCResponse, RequestId

RENEWAL = "wap-renewal"
"""The id of our own request."""
_FORGOTTEN = frozenset(
    {
        "Session not found",
        "Session terminated",
        "Not Found: Session has been terminated",
        "Not Found: Invalid or expired session ID",
    }
)
"""What is said then, by the server's SDK or in its place: nothing has been done."""

Send = Callable[[JSONRPCMessage], Awaitable[None]]


class Renewal:
    """`send` goes to the server."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._opening: JSONRPCRequest | None = None
        self._asked: dict[RequestId, JSONRPCRequest] = {}
        self._waiting: list[JSONRPCRequest] = []
        self._is_under_way = False

    def note(self, message: JSONRPCMessage) -> None:
        """Of the client."""
        if isinstance(message, JSONRPCRequest) and message.method == "initialize":
            self._opening = message
        elif isinstance(message, JSONRPCRequest):
            self._asked[message.id] = message
        elif isinstance(message, JSONRPCNotification) and message.method == "notifications/cancelled":
            cancelled = (message.params or {}).get("requestId")
            if isinstance(cancelled, int | str):
                self._asked.pop(cancelled, None)
                self._waiting = [request for request in self._waiting if request.id != cancelled]

    async def hear(self, message: JSONRPCMessage) -> list[JSONRPCMessage]:
        """Of the server. What the client is told."""
        if not isinstance(message, JSONRPCResponse | JSONRPCError) or message.id is None:
            return [message]
        if message.id == RENEWAL:
            return await self._renewed(message)
        request, opening = self._asked.pop(message.id, None), self._opening
        if request is None or opening is None or not _is_forgotten(message):
            return [message]
        self._waiting.append(request)
        if not self._is_under_way:
            self._is_under_way = True
            await self._send(opening.model_copy(update={"id": RENEWAL}))
        return []

    async def _renewed(self, answer: JSONRPCResponse | JSONRPCError) -> list[JSONRPCMessage]:
        waiting, self._waiting, self._is_under_way = self._waiting, [], False
        if isinstance(answer, JSONRPCError):
            return [JSONRPCError(jsonrpc="2.0", id=request.id, error=answer.error) for request in waiting]
        await self._send(JSONRPCNotification(jsonrpc="2.0", method="notifications/initialized"))
        for request in waiting:  # no more is known of them: a second time is told
            await self._send(request)
        return []


def _is_forgotten(answer: JSONRPCResponse | JSONRPCError) -> bool:
    return isinstance(answer, JSONRPCError) and answer.error.message in _FORGOTTEN
