"""A connected client, and one request of it."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from wap_kernel.dialects.mcp.identity import Requester
from wap_kernel.dialects.mcp.messages import (
    SERVER_REQUEST_PREFIX,
    ProtocolError,
    Request,
    RequestId,
    Response,
    encode_notification,
    encode_request,
)
from wap_kernel.dialects.mcp.protocol import INVALID_REQUEST
from wap_kernel.model.errors import Code
from wap_kernel.model.limits import MCP_MAX_CALLS

if TYPE_CHECKING:
    from wap_kernel.dialects.mcp.subscriptions import Subscriber

DEFAULT_LOG_LEVEL = "info"


class Outlet(Protocol):
    """The way of the server's messages to the client: the response to an HTTP request, or standard output."""

    @property
    def takes_requests(self) -> bool:
        """Return whether the client can answer a request that is sent here."""

    @property
    def is_stream(self) -> bool:
        """Return whether the client takes more than one message here."""

    def send(self, message: bytes) -> None:
        """Send a message without waiting for the client."""


class ClientGone(Exception):
    """The client disconnected, or answered a request of the server with an error."""


class Connection:
    """A client: the version that it speaks, its name, capabilities and log level, and the requests under way.

    Until 2025-11-25 a connection lasts from `initialize` to the end of the session; later each request has its own.
    """

    def __init__(
        self, version: str | None = None, client: str | None = None, capabilities: Mapping[str, Any] | None = None
    ) -> None:
        self.version = version
        """The version of the protocol; None until the client has negotiated it."""
        self.client = client
        """The name that the client gives itself."""
        self.capabilities: Mapping[str, Any] = capabilities or {}
        self.log_level = DEFAULT_LOG_LEVEL
        self.subscriber: Subscriber | None = None
        """The subscriptions of a session, once there is one."""
        self.calls: dict[RequestId, asyncio.Future[Any]] = {}
        """The requests of the client that are not answered yet."""
        self._server_requests: dict[RequestId, asyncio.Future[Mapping[str, Any] | None]] = {}
        """The requests of the server that are not answered yet."""
        self._closers: list[Callable[[], None]] = []

    def add_call(self, request_id: RequestId, task: asyncio.Future[Any]) -> None:
        """Remember the task that answers a request, until it is done."""
        self.calls[request_id] = task
        task.add_done_callback(lambda _: self.calls.pop(request_id, None))

    def check_calls(self, request_ids: Sequence[RequestId]) -> None:
        """Raise ProtocolError for an id that is in use, and for more requests than a client needs."""
        if len({*self.calls, *request_ids}) < len(self.calls) + len(request_ids):
            raise ProtocolError(
                INVALID_REQUEST, "A request with this id is under way.", "Give every request an id of its own."
            )
        if len(self.calls) + len(request_ids) > MCP_MAX_CALLS:
            raise ProtocolError(
                INVALID_REQUEST,
                f"More than {MCP_MAX_CALLS} requests are under way.",
                "Wait for some of them.",
                code=Code.RATE_LIMITED,
                status=429,
                request_id=request_ids[0] if len(request_ids) == 1 else None,
            )

    def cancel_call(self, request_id: Any) -> None:
        # True would find the request 1.
        is_id = isinstance(request_id, int | str) and not isinstance(request_id, bool)
        task = self.calls.get(request_id) if is_id else None
        if task is not None:
            task.cancel()

    async def ask(self, outlet: Outlet, method: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
        """Send a request to the client and return its result; raise ClientGone."""
        # Nobody else can guess the id, so an answer comes from the client that was asked.
        request_id = f"{SERVER_REQUEST_PREFIX}{secrets.token_hex(8)}"
        answer: asyncio.Future[Mapping[str, Any] | None] = asyncio.get_running_loop().create_future()
        self._server_requests[request_id] = answer
        try:
            outlet.send(encode_request(request_id, method, params))
            result = await answer
        finally:
            self._server_requests.pop(request_id, None)
        if result is None:
            raise ClientGone
        return result

    def resolve(self, response: Response) -> None:
        """Pass the client's answer to the request that waits for it; a second answer is ignored."""
        pending = self._server_requests.get(response.id)
        if pending is not None and not pending.done():
            pending.set_result(response.result)

    def on_close(self, closer: Callable[[], None]) -> None:
        """Call `closer` when the connection ends."""
        self._closers.append(closer)

    def close(self) -> None:
        """End everything that belongs to the client: its requests, and the server's requests to it."""
        for task in list(self.calls.values()):
            task.cancel()
        for pending in self._server_requests.values():
            if not pending.done():
                pending.set_result(None)
        while self._closers:
            self._closers.pop()()


@dataclass(frozen=True)
class Call:
    """One request of a client."""

    connection: Connection
    request: Request
    requester: Requester
    outlet: Outlet
    standing_outlet: Outlet
    """The outlet for messages that are about no request."""

    @property
    def version(self) -> str:
        assert self.connection.version is not None  # no other request is handled before it is negotiated
        return self.connection.version

    @property
    def meta(self) -> Mapping[str, Any]:
        return self.request.meta

    def notify(self, method: str, params: Mapping[str, Any]) -> None:
        """Send a notification that is about this request."""
        self.outlet.send(encode_notification(method, params))

    async def report_progress(self, progress: float, total: float | None, message: str) -> None:
        params = {"progressToken": self.meta["progressToken"], "progress": progress, "message": message}
        self.notify("notifications/progress", params if total is None else {**params, "total": total})
