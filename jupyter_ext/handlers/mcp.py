"""POST, GET and DELETE wap/mcp: MCP streamable HTTP, by the official SDK behind the ASGI bridge.

The handler authenticates the client, as on every route; the MCP server authorizes each operation. A refusal is a
JSON-RPC error, so that clients show its text.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Awaitable
from contextlib import AbstractAsyncContextManager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from wap_kernel.dialects.body_complexity import StructureCounter
from wap_kernel.model.caller import Caller
from wap_kernel.model.errors import Code, PermissionDenied, WapError
from wap_kernel.model.limits import MAX_BODY_BYTES
from wap_kernel.model.operations import Effect, Operation

from ..asgi import Application, AsgiExchange, Message, Receive, Scope, Send, build_scope
from ..tokens.bearer import find_token
from .base import RATE_LIMITER, WapHandler, verb

if TYPE_CHECKING:
    from wap_kernel.dialects.mcp.identity import Message as Received
    from wap_kernel.dialects.mcp.identity import Requester

    from ..app import WapExtension

SESSION = "Mcp-Session-Id"
REQUESTER = "wap.requester"
"""The key of the ASGI scope that holds the requester."""
MCP_HEADERS = "mcp-session-id, mcp-protocol-version, mcp-method, mcp-name"
CHECK_SECONDS = 10.0
"""The interval at which a stream's token is verified again."""
INVALID_REQUEST = -32600
INTERNAL_ERROR = -32603


def get_requester(message: Received) -> Requester:
    """Return the requester who sent a message."""
    assert message.request is not None  # always there over HTTP
    requester: Requester = message.request.scope[REQUESTER]
    return requester


class McpHandler(WapHandler):
    """Pass the messages of MCP clients to the MCP server."""

    allowed = ("GET", "POST", "DELETE")
    open_to_agents = True
    origin_hint = "See ServerApp.allow_origin, or use no browser."
    size_hint = "Write less at once, or have a command make the file."

    _exchange: AsgiExchange | None = None
    _size = 0
    _checked_at = 0.0

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._structure = StructureCounter()

    async def _admit(self) -> None:
        await super()._admit()
        if self.request.method not in self.allowed:
            return
        # A browser sends a page's origin with everything; MCP demands a refusal also where a token came with it.
        if not self.check_origin():
            raise PermissionDenied("Requests from this origin are not allowed.", hint=self.origin_hint)
        if SESSION not in self.request.headers:
            await self.authorize(Effect.READ)
        sessions = await cast("WapExtension", self.extensionapp).mcp.sessions()
        from wap_kernel.dialects.mcp.http.sessions import build_user

        scope = build_scope(self.request, {"user": build_user(self._credential), REQUESTER: _HttpRequester(self)})
        self._checked_at = asyncio.get_running_loop().time()
        self._exchange = AsgiExchange(partial(self._serve_while_valid, sessions.handle_request), self, scope)

    async def _serve_while_valid(self, application: Application, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve until the token is no longer valid; a stream sends something every 15 seconds at least."""

        async def send_if_valid(message: Message) -> None:
            if await self._is_token_valid():
                await send(message)
            elif self._exchange is not None:
                self._exchange.disconnect()

        await application(scope, receive, send_if_valid)

    async def _is_token_valid(self) -> bool:
        now, presented = asyncio.get_running_loop().time(), find_token(self.request)
        if presented is None or now - self._checked_at < CHECK_SECONDS:
            return True
        self._checked_at = now
        try:
            await self.tokens.verify(presented.token())
        except WapError:
            return False
        return True

    @property
    def _credential(self) -> str:
        """The credential that owns a session.

        Jupyter makes up a new user for each request without a cookie, so a name says nothing where there is a token, or
        no authentication at all.
        """
        if self.agent is not None:
            return f"agent {self.agent.id}"
        if not self.identity_provider.auth_enabled:
            return "anybody"
        token = self.identity_provider.get_token(self) if self.token_authenticated else None
        if token is not None:
            return f"token {hashlib.sha256(token.encode()).hexdigest()}"
        return f"user {self.current_user.username}"

    def skip_check_origin(self) -> bool:
        return False

    def data_received(self, chunk: bytes) -> Awaitable[None] | None:  # type: ignore[override]  # as tornado has it
        if self._exchange is None or self.refused:
            super().data_received(chunk)
            return None
        try:
            self._count(chunk)
        except WapError as error:
            if not self._exchange.has_started:
                self._exchange.disconnect()
                self._refuse_now(error)
            return None
        return self._exchange.feed(chunk)

    def _count(self, chunk: bytes) -> None:
        """Count the bytes and the structure of the body: the SDK parses it in one go, on the event loop."""
        self._size += len(chunk)
        if self._size > MAX_BODY_BYTES:
            raise self.too_large()
        self._structure.add(chunk)

    @verb
    async def post(self) -> None:
        assert self._exchange is not None
        self._exchange.end_body()
        await self._exchange.finish()

    get = delete = post

    def on_connection_close(self) -> None:
        super().on_connection_close()
        if self._exchange is not None:
            self._exchange.disconnect()

    def options(self, *args: str) -> None:
        super().options(*args)
        allowed = self._headers.get("Access-Control-Allow-Headers", "")
        self.set_header("Access-Control-Allow-Headers", f"{allowed}, {MCP_HEADERS}")

    def set_default_headers(self) -> None:
        super().set_default_headers()
        self.set_header("Access-Control-Expose-Headers", SESSION)

    def update_api_activity(self) -> None:
        """Record activity, but none for GET: an open stream would keep an idle server from being culled."""
        if self.request.method != "GET":
            super().update_api_activity()

    def _error_body(self, error: WapError) -> bytes:
        self.set_error_headers(error)
        code = INTERNAL_ERROR if error.code is Code.INTERNAL_ERROR else INVALID_REQUEST
        failure = {"code": code, "message": error.text, "data": {"code": error.code.value, **error.details}}
        return json.dumps({"jsonrpc": "2.0", "id": None, "error": failure}, default=str).encode("ascii")


class _HttpRequester:
    """The sender of one HTTP request; see `wap_kernel.dialects.mcp.identity.Requester`."""

    def __init__(self, handler: McpHandler) -> None:
        self._handler = handler
        self._caller = handler.caller
        self._session = self._caller.session or handler.claim_from(SESSION)

    @property
    def credential(self) -> str:
        return self._handler._credential

    def caller(self, client: str | None) -> Caller:
        return self._caller.model_copy(update={"session": self._session, "agent": self._caller.agent or client})

    async def authorize(self, effect: Effect) -> None:
        await self._handler.authorize(effect)

    def admit(self, operation: Operation) -> AbstractAsyncContextManager[None]:
        agent = self._handler.agent
        return nullcontext() if agent is None else self._handler.settings[RATE_LIMITER].admit(agent, operation)
