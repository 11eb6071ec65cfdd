"""The sessions of MCP clients over HTTP: by the SDK's manager, with limits that one client cannot use up for all.

Comments say why the code reaches below the SDK's public interface; tests fail if a later version differs.
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
from wap_kernel.dialects.mcp.http.event_store import EventCache
from wap_kernel.model.limits import MAX_BODY_BYTES, MCP_MAX_SESSIONS, MCP_MAX_SESSIONS_PER_CREDENTIAL

IDLE_SECONDS = 30 * 60.0
RETRY_MS = 500
"""The delay after which a client reconnects."""
_BODY_HEADERS = (b"content-type", b"content-length")


def build_user(name: str) -> AuthenticatedUser:
    """Build `scope["user"]` of a request: the SDK opens a session only to the credential that started it."""
    return AuthenticatedUser(AccessToken(token="", client_id=name, scopes=[]))


async def cancel_shutdown_watchers() -> None:
    """Cancel the tasks of the SDK's streams that wait for a uvicorn server to end: there is none."""
    watchers = [
        task for task in asyncio.all_tasks() if getattr(task.get_coro(), "__qualname__", None) == "_shutdown_watcher"
    ]
    for task in watchers:
        task.cancel()
    await asyncio.gather(*watchers, return_exceptions=True)


class McpSessions(StreamableHTTPSessionManager):
    """The open sessions of all MCP clients."""

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
        self._recent = EventCache()

    @property
    def open(self) -> int:
        return len(self._server_instances)

    async def handle_request(self, scope: Scope, receive: Receive, send: Send) -> None:
        await super().handle_request(scope, receive, _ErrorExplainer(send))

    async def _handle_request(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer with JSON a client that does not accept events; the SDK does so for all clients or for none."""
        _, takes_events = check_accept_headers(Request(scope))
        manager = self
        if not takes_events:
            manager = copy(self)
            manager.json_response = True
        await super(McpSessions, manager)._handle_request(scope, receive, send)

    def _admit_session(self, requestor: AuthorizationContext | None) -> StreamableHTTPServerTransport | None:
        """Admit a session; at the limit, end the session that was idle longest.

        The SDK would refuse every client until sessions expire. A credential with many sessions loses one of its own.
        """
        own = [name for name, owner in self._session_owners.items() if owner == requestor]
        if len(own) >= self._max_per_credential and not self._end_longest_idle(own):
            return None
        if self.max_sessions is not None and self.open >= self.max_sessions:
            self._end_longest_idle(list(self._server_instances))
        return super()._admit_session(requestor)

    def _end_longest_idle(self, names: list[str]) -> bool:
        """End the session idle longest; return whether there was one.

        A session with a running request or an open stream is not idle.
        """
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
        http_transport._event_store = self._recent.open_session_store()
        await super()._serve_opening_request(http_transport, scope, receive, send)


class _ErrorExplainer:
    """Send an answer on; buffer a refusal until it is complete, and explain it."""

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
        body = sdk_errors.explain_response(start["status"], self._body)
        headers = [(name, value) for name, value in start["headers"] if name.lower() not in _BODY_HEADERS]
        body_headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode("ascii"))]
        await self._send({**start, "headers": [*headers, *body_headers]})
        await self._send({"type": "http.response.body", "body": body})
