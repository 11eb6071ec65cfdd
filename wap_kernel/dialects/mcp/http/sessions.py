"""The sessions of MCP clients over HTTP: by the SDK's manager, with limits that one client cannot use up for all.

Where it reaches below the SDK's surface it says why; the tests fail if a later version differs.
"""

from __future__ import annotations

import asyncio
import math
from copy import copy
from http import HTTPStatus
from typing import Any

from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser, AuthorizationContext
from mcp.server.auth.provider import AccessToken
from mcp.server.lowlevel import Server
from mcp.server.streamable_http import StreamableHTTPServerTransport, check_accept_headers
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.requests import Request
from starlette.types import Message, Receive, Scope, Send

from wap_kernel.dialects.mcp import sdk_errors
from wap_kernel.dialects.mcp.http.event_store import RecentEvents
from wap_kernel.model.limits import MAX_BODY_BYTES, MCP_MAX_SESSIONS, MCP_MAX_SESSIONS_PER_CREDENTIAL

IDLE_SECONDS = 30 * 60.0
RETRY_MS = 500
"""How soon a client that lost its connection comes back."""
_OF_THE_BODY = (b"content-type", b"content-length")


def credential(name: str) -> AuthenticatedUser:
    """For a request's `scope["user"]`: the SDK opens a session only to the credential that began it."""
    return AuthenticatedUser(AccessToken(token="", client_id=name, scopes=[]))


async def end_watch() -> None:
    """The SDK's streams leave a task behind that looks out for the end of a uvicorn server, which there is none of."""
    watchers = [
        task for task in asyncio.all_tasks() if getattr(task.get_coro(), "__qualname__", None) == "_shutdown_watcher"
    ]
    for task in watchers:
        task.cancel()
    await asyncio.gather(*watchers, return_exceptions=True)


class McpSessions(StreamableHTTPSessionManager):
    def __init__(
        self,
        server: Server[Any],
        *,
        idle_seconds: float = IDLE_SECONDS,
        max_sessions: int = MCP_MAX_SESSIONS,
        max_per_credential: int = MCP_MAX_SESSIONS_PER_CREDENTIAL,
    ) -> None:
        super().__init__(
            server,
            retry_interval=RETRY_MS,
            session_idle_timeout=idle_seconds,
            max_request_body_size=MAX_BODY_BYTES,
            max_sessions=max_sessions,
        )
        self._max_per_credential = max_per_credential
        self._recent = RecentEvents()

    @property
    def open(self) -> int:
        return len(self._server_instances)

    async def handle_request(self, scope: Scope, receive: Receive, send: Send) -> None:
        await super().handle_request(scope, receive, _Explained(send))

    async def _handle_request(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The SDK answers JSON alone to all or to none; here, whoever takes no events gets it."""
        _, takes_events = check_accept_headers(Request(scope))
        manager = self
        if not takes_events:
            manager = copy(self)
            manager.json_response = True
        await super(McpSessions, manager)._handle_request(scope, receive, send)

    def _admit_session(self, requestor: AuthorizationContext | None) -> StreamableHTTPServerTransport | None:
        """The SDK refuses everybody at its limit until sessions expire. Here the one that was idle longest makes room,
        among those of the same credential if it has many."""
        mine = [name for name, owner in self._session_owners.items() if owner == requestor]
        if len(mine) >= self._max_per_credential and not self._end_longest_idle(mine):
            return None
        if self.max_sessions is not None and self.open >= self.max_sessions:
            self._end_longest_idle(list(self._server_instances))
        return super()._admit_session(requestor)

    def _end_longest_idle(self, names: list[str]) -> bool:
        """Whether there was one. A session with a request under way, or a stream open, is not idle."""
        idle = {
            name: scope.deadline
            for name in names
            if (scope := self._server_instances[name].idle_scope) is not None and scope.deadline < math.inf
        }
        if not idle:
            return False
        longest = min(idle, key=idle.__getitem__)
        scope = self._server_instances.pop(longest).idle_scope
        self._session_owners.pop(longest, None)
        assert scope is not None
        scope.cancel()
        return True

    async def _serve_opening_request(
        self, http_transport: StreamableHTTPServerTransport, scope: Scope, receive: Receive, send: Send
    ) -> None:
        # One store for all sessions, as the SDK has it, would replay the events of one client to another.
        http_transport._event_store = self._recent.of_session()
        await super()._serve_opening_request(http_transport, scope, receive, send)


class _Explained:
    """Sends an answer on; one that refuses is held until it is whole, and told in our words."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._start: Message | None = None
        self._body = b""

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start" and message["status"] >= HTTPStatus.BAD_REQUEST:
            self._start = message
        elif self._start is None:
            await self._send(message)
        else:
            self._body += message.get("body", b"")
            if not message.get("more_body", False):
                await self._finish(self._start)

    async def _finish(self, start: Message) -> None:
        body = sdk_errors.of_answer(start["status"], self._body)
        kept = [(name, value) for name, value in start["headers"] if name.lower() not in _OF_THE_BODY]
        told = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode("ascii"))]
        await self._send({**start, "headers": [*kept, *told]})
        await self._send({"type": "http.response.body", "body": body})
