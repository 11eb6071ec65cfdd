"""POST, GET and DELETE wap/mcp: MCP streamable HTTP.

The handler authenticates the client, as on every route, and writes JSON or server-sent events; the MCP server
authorizes each operation. A refusal is a JSON-RPC error, so that clients show its text.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import TYPE_CHECKING, Any, cast

from tornado.iostream import StreamClosedError

from wap_kernel.dialects.body_complexity import check_complexity
from wap_kernel.dialects.coding_environment.rpc_errors import RpcError
from wap_kernel.dialects.mcp import protocol
from wap_kernel.dialects.mcp.http.exchange import Exchange
from wap_kernel.dialects.mcp.http.response_stream import ResponseStream
from wap_kernel.dialects.mcp.http.sessions import BEGIN, McpSessions, Session
from wap_kernel.dialects.mcp.messages import Batch, Message, ProtocolError, encode_error, parse_body
from wap_kernel.dialects.tool import LARGE_BODY_BYTES
from wap_kernel.model.caller import Caller
from wap_kernel.model.errors import Code, PermissionDenied, WapError
from wap_kernel.model.operations import Effect, Operation

from ..tokens.bearer import find_token
from . import parameters
from .base import RATE_LIMITER, REVOCATIONS, WapHandler, verb

if TYPE_CHECKING:
    from ..app import WapExtension

MCP_HEADERS = "mcp-session-id, mcp-protocol-version, mcp-method, mcp-name"
CHECK_SECONDS = 10.0
"""The interval at which a stream's token is verified again."""
DEFER_SECONDS = 0.1
"""The time within which an answer without other messages is sent as JSON to a client that takes events as well."""
KEEPALIVE_SECONDS = 15.0
JSON = "application/json"
PING = b": ping\n\n"
_ACCEPT_HINT = "Send Accept: application/json, text/event-stream."


class McpHandler(WapHandler):
    """Pass the messages of MCP clients to the MCP server."""

    allowed = ("GET", "POST", "DELETE")
    open_to_agents = True
    origin_hint = "See ServerApp.allow_origin, or use no browser."
    size_hint = "Write less at once, or have a command make the file."

    _stream: ResponseStream | None = None
    _exchange: Exchange | None = None
    _is_disconnected = False
    _checked_at = 0.0

    async def _admit(self) -> None:
        await super()._admit()
        # A browser sends a page's origin with everything; MCP demands a refusal also where a token came with it.
        if self.request.method not in self.allowed:
            return
        if not self.check_origin():
            raise PermissionDenied("Requests from this origin are not allowed.", hint=self.origin_hint)
        if protocol.SESSION_HEADER not in self.request.headers:
            await self.authorize(Effect.READ)

    @property
    def sessions(self) -> McpSessions:
        return cast("WapExtension", self.extensionapp).open_mcp()

    # -- methods

    @verb
    async def post(self) -> None:
        try:
            message = await self._parse_message()
            exchange = Exchange(self.sessions, _HttpRequester(self), accepts_events=self._accepts("text/event-stream"))
            await self._send_message(exchange, message)
        except ProtocolError as error:
            self._write_protocol_error(error)

    @verb
    async def get(self) -> None:
        try:
            self._check_era()
            if not self._accepts("text/event-stream"):
                raise ProtocolError(protocol.INVALID_REQUEST, "Not acceptable.", _ACCEPT_HINT, status=406)
            session = self._find_session()
            await self._listen(session)
        except ProtocolError as error:
            self._write_protocol_error(error)

    @verb
    async def delete(self) -> None:
        try:
            self._check_era()
            self.sessions.end(self._find_session())
            self.finish()
        except ProtocolError as error:
            self._write_protocol_error(error)

    async def _parse_message(self) -> Message | Batch:
        media_type = self.request.headers.get("Content-Type", JSON).partition(";")[0].strip().lower()
        if media_type != JSON:
            hint = "Send Content-Type: application/json."
            raise ProtocolError(protocol.INVALID_REQUEST, "Unsupported media type.", hint, status=415)
        if not self._accepts(JSON):
            raise ProtocolError(protocol.INVALID_REQUEST, "Not acceptable.", _ACCEPT_HINT, status=406)
        body = self.take_body()
        return await self.workspace.offload(lambda: _parse(body)) if len(body) > LARGE_BODY_BYTES else _parse(body)

    async def _send_message(self, exchange: Exchange, message: Message | Batch) -> None:
        version = self.request.headers.get(protocol.VERSION_HEADER)
        session_id = self.request.headers.get(protocol.SESSION_HEADER)
        if version is not None and version not in protocol.HANDSHAKE_VERSIONS:
            headers = {name.lower(): self.request.headers.get_list(name) for name in (*self.request.headers,)}
            stream = exchange.begin_enveloped(message, version, headers)
        elif session_id is not None:
            stream = exchange.begin_in_session(message, self._find_session())
        else:
            stream = exchange.begin_session(message, self._credential)
        self._exchange = exchange
        if self._is_disconnected:
            exchange.disconnect()
        if stream is None:
            self.set_status(202)
            self.finish()
            return
        self._stream = stream
        with nullcontext() if exchange.session is None else exchange.session.use():
            await self._respond(exchange, stream)

    # -- responses

    async def _respond(self, exchange: Exchange, stream: ResponseStream) -> None:
        """Answer as JSON where that can hold everything, else with events as they come."""
        if stream.is_stream:
            await stream.wait(DEFER_SECONDS)
        else:
            await stream.wait_complete()
        if self._is_disconnected:
            return
        if (session := exchange.session) is not None:
            self.set_header(protocol.SESSION_HEADER, session.id)
        if stream.is_complete and stream.is_answer_only:
            self.set_status(exchange.status)
            self.set_header("Content-Type", JSON)
            self.finish(exchange.encode_replies())
            return
        stream.begin_events(self, is_primed=exchange.is_primed)
        await self._write_events(stream)

    async def _listen(self, session: Session) -> None:
        """Open the stream of a session, or resume one after the event that the client saw last."""
        last_seen = self.request.headers.get("Last-Event-ID")
        found = None if last_seen is None else session.find_event(last_seen)
        if last_seen is not None and found is None:  # the event is forgotten, or another session's
            self.set_header("Content-Type", "text/event-stream")
            self.finish()
            return
        if found is None and session.standing.is_attached:
            hint = "Close the other stream of this session first."
            raise ProtocolError(
                protocol.INVALID_REQUEST, "The session has such a stream.", hint, code=Code.CONFLICT, status=409
            )
        self.set_header(protocol.SESSION_HEADER, session.id)
        counted = nullcontext() if self.agent is None else self.settings[RATE_LIMITER].open_stream(self.agent.id)
        with session.use(), counted:
            if found is None:
                self._stream = session.standing
                self._stream.begin_events(self)
            else:
                self._stream, event = found
                self._stream.resume(self, event)
            await self._write_events(self._stream)

    async def _write_events(self, stream: ResponseStream) -> None:
        """Write events until the stream is complete, the client disconnects, or its token is no longer valid."""
        self.set_header("Content-Type", "text/event-stream")
        self.set_header("Cache-Control", "no-cache, no-transform")
        self.set_header("X-Accel-Buffering", "no")  # nginx would buffer
        self._checked_at = asyncio.get_running_loop().time()
        unsubscribe = self._watch_token()
        try:
            await self.flush()
            while not self._is_disconnected and await self._is_token_valid():
                data = stream.take(self)
                if data is None or (not data and stream.is_complete):
                    break
                if data:
                    self.write(data)
                    await self.flush()
                elif not await stream.wait(KEEPALIVE_SECONDS):
                    self.write(PING)
                    await self.flush()
        except StreamClosedError:
            pass  # the client has disconnected
        finally:
            unsubscribe()
            stream.detach(self)
            if self._exchange is not None and not stream.is_complete:
                self._exchange.disconnect()  # the token is no longer valid: the answer has no reader
        self.finish()

    def _watch_token(self) -> Callable[[], None]:
        """End the stream when the agent's token is revoked; return a function that ends the watch."""
        if self.agent is None:
            return lambda: None
        unsubscribe: Callable[[], None] = self.settings[REVOCATIONS].watch(self.agent.id, self.on_connection_close)
        return unsubscribe

    async def _is_token_valid(self) -> bool:
        """Verify the token now and then: a stream may outlive the token that opened it."""
        now, presented = asyncio.get_running_loop().time(), find_token(self.request)
        if presented is None or now - self._checked_at < CHECK_SECONDS:
            return True
        self._checked_at = now
        try:
            await self.tokens.verify(presented.token())
        except WapError:
            return False
        return True

    def on_connection_close(self) -> None:
        super().on_connection_close()
        self._is_disconnected = True
        if self._stream is not None:
            self._stream.detach(self)
        if self._exchange is not None:
            self._exchange.disconnect()

    # -- requests

    def _accepts(self, media_type: str) -> bool:
        kinds = {
            kind.partition(";")[0].strip().lower() for kind in self.request.headers.get("Accept", "*/*").split(",")
        }
        return not kinds.isdisjoint((media_type, "*/*", f"{media_type.partition('/')[0]}/*"))

    def _check_era(self) -> None:
        """Raise ProtocolError for a method that the versions with envelopes do not have."""
        version = self.request.headers.get(protocol.VERSION_HEADER)
        if version is not None and version not in protocol.HANDSHAKE_VERSIONS:
            self.set_header("Allow", "POST, OPTIONS")
            hint = "From 2026-07-28 on everything is sent by POST."
            raise ProtocolError(
                protocol.INVALID_REQUEST, "Method not allowed.", hint, code=Code.METHOD_NOT_ALLOWED, status=405
            )

    def _find_session(self) -> Session:
        session_id = self.request.headers.get(protocol.SESSION_HEADER)
        if session_id is None:
            raise ProtocolError(protocol.INVALID_REQUEST, f"The header {protocol.SESSION_HEADER} is missing.", BEGIN)
        return self.sessions.find(session_id, self._credential)

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

    def options(self, *args: str) -> None:
        super().options(*args)
        allowed = self._headers.get("Access-Control-Allow-Headers", "")
        self.set_header("Access-Control-Allow-Headers", f"{allowed}, {MCP_HEADERS}")

    def set_default_headers(self) -> None:
        super().set_default_headers()
        self.set_header("Access-Control-Expose-Headers", protocol.SESSION_HEADER)

    def update_api_activity(self) -> None:
        """Record activity, but none for GET: an open stream would keep an idle server from being culled."""
        if self.request.method != "GET":
            super().update_api_activity()

    # -- errors

    def _write_protocol_error(self, error: ProtocolError) -> None:
        self.set_status(error.status)
        self.set_header("Content-Type", JSON)
        self.finish(encode_error(error.request_id, error))

    def set_error_headers(self, error: WapError) -> None:
        super().set_error_headers(error)
        if error.code is Code.UNAUTHENTICATED:  # MCP clients expect it; there is no OAuth to point them to
            self.set_status(401)
            self.set_header("WWW-Authenticate", "Bearer")

    def _error_body(self, error: WapError) -> bytes:
        self.set_error_headers(error)
        code = protocol.INTERNAL_ERROR if error.code is Code.INTERNAL_ERROR else protocol.INVALID_REQUEST
        return encode_error(None, RpcError(code, error.text, {"code": error.code.value, **error.details}))


def _parse(body: bytes) -> Message | Batch:
    if len(body) > LARGE_BODY_BYTES:
        check_complexity(body)
    return parse_body(body)


class _HttpRequester:
    """The sender of one HTTP request; see `wap_kernel.dialects.mcp.identity.Requester`."""

    def __init__(self, handler: McpHandler) -> None:
        self._handler = handler
        self._caller = handler.caller
        self._session = self._caller.session or handler.claim_from(protocol.SESSION_HEADER)
        self._profile = parameters.get_text(handler.request, "profile") or None

    @property
    def credential(self) -> str:
        return self._handler._credential

    @property
    def profile(self) -> str | None:
        return self._profile

    def caller(self, client: str | None) -> Caller:
        return self._caller.model_copy(update={"session": self._session, "agent": self._caller.agent or client})

    async def authorize(self, effect: Effect) -> None:
        await self._handler.authorize(effect)

    def admit(self, operation: Operation) -> AbstractAsyncContextManager[None]:
        agent = self._handler.agent
        if agent is None:
            return nullcontext()
        admission: Any = self._handler.settings[RATE_LIMITER].admit(agent, operation)
        return cast("AbstractAsyncContextManager[None]", admission)
