"""`wap mcp --url URL`: forward the messages of a stdio client to a server over HTTP, and the answers back.

Messages pass unchanged, requests of the server too; only errors about the connection are reworded. The headers that
HTTP demands are added: the version of the protocol, and from 2026-07-28 on the method and the name.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio
import httpx2
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.inbound import (
    MCP_METHOD_HEADER,
    MCP_NAME_HEADER,
    MCP_PROTOCOL_VERSION_HEADER,
    NAME_BEARING_METHODS,
    encode_header_value,
)
from mcp.shared.message import ClientMessageMetadata, SessionMessage
from mcp_types import (
    PROTOCOL_VERSION_META_KEY,
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCRequest,
    JSONRPCResponse,
    RequestId,
)

from wap_kernel.dialects.mcp.stdio import line_reader
from wap_kernel.dialects.mcp.stdio.session_renewal import Send, SessionRenewal
from wap_kernel.model.errors import Code, ProviderUnavailable

if TYPE_CHECKING:
    from mcp.shared._stream_protocols import ReadStream, WriteStream

SILENCE_SECONDS = 300.0
"""The read timeout; a stream sends something every 15 seconds."""
ROUTE = "wap/mcp"
SESSION = "mcp-session-id"
_NO_WAP = ("Not Found", "Server returned an error response")
"""The SDK's messages for an HTTP error response that is no JSON-RPC."""


class ProtocolHeaders:
    """The HTTP headers of each message."""

    def __init__(self) -> None:
        self._negotiating: RequestId | None = None
        self._version: str | None = None
        """The version of the session, once the server has named it."""

    def build(self, message: JSONRPCMessage) -> dict[str, str]:
        if isinstance(message, JSONRPCRequest) and message.method == "initialize":
            self._negotiating, self._version = message.id, None
            return {}
        if isinstance(message, JSONRPCRequest) and (version := _find_version(message.params)) is not None:
            return {MCP_PROTOCOL_VERSION_HEADER: version, MCP_METHOD_HEADER: message.method, **_name_header(message)}
        return {} if self._version is None else {MCP_PROTOCOL_VERSION_HEADER: self._version}

    def observe(self, message: JSONRPCMessage) -> None:
        """Observe a message of the server."""
        if isinstance(message, JSONRPCResponse) and message.id == self._negotiating and self._negotiating is not None:
            self._negotiating = None
            version = message.result.get("protocolVersion")
            self._version = version if isinstance(version, str) else None


def _find_version(params: Mapping[str, Any] | None) -> str | None:
    meta = (params or {}).get("_meta")
    version = meta.get(PROTOCOL_VERSION_META_KEY) if isinstance(meta, Mapping) else None
    return version if isinstance(version, str) else None


def _name_header(message: JSONRPCRequest) -> dict[str, str]:
    name = (message.params or {}).get(NAME_BEARING_METHODS.get(message.method, ""))
    return {MCP_NAME_HEADER: encode_header_value(name)} if isinstance(name, str) else {}


def explain_error(message: JSONRPCMessage, address: str, token: str) -> JSONRPCMessage:
    """Reword errors about the connection for the person who started this command."""
    if not isinstance(message, JSONRPCError):
        return message
    error = message.error
    if error.data is None and error.message in _NO_WAP:
        text = (
            f"There is no wap at {address}. The address has the server's base URL in it: `jupyter server list` shows "
            "it. Is the extension enabled there (`jupyter server extension list`)?"
        )
    elif isinstance(error.data, Mapping) and error.data.get("code") == Code.UNAUTHENTICATED.value:
        why = "The server does not accept this token." if token else "The server wants a token."
        text = f"{why} Name a file that holds one with --token-file, or set WAP_TOKEN; `wap token create` makes one."
    else:
        return message
    return message.model_copy(update={"error": error.model_copy(update={"message": text})})


async def run_bridge(address: str, token: str, stop: asyncio.Event) -> None:
    """Forward messages until the client closes its end, or `stop` is set; then end the session.

    Raises ProviderUnavailable where there is no server. After `stop` the thread that reads standard input is left
    behind: nothing interrupts it.
    """
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    over: asyncio.Future[Exception | None] = asyncio.get_running_loop().create_future()
    explain = partial(explain_error, address=address, token=token)
    bridge = asyncio.ensure_future(_run_bridge(address + ROUTE, headers, explain, stop, over))
    failure = await over
    if failure is not None and _is_unreachable(failure):
        hint = "Start Jupyter; `jupyter server list` shows the addresses of those that run."
        raise ProviderUnavailable(f"There is no server at {address}", hint=hint)
    if not stop.is_set():
        await bridge


async def _run_bridge(
    endpoint: str,
    headers: dict[str, str],
    explain: Callable[[JSONRPCMessage], JSONRPCMessage],
    stop: asyncio.Event,
    over: asyncio.Future[Exception | None],
) -> None:
    async with line_reader.open_stdio() as (from_client, to_client):
        try:
            async with (
                to_client,
                httpx2.AsyncClient(
                    headers=headers,
                    timeout=httpx2.Timeout(30.0, read=SILENCE_SECONDS),
                    event_hooks={"request": [_drop_empty_session]},
                ) as http,
                # Answers with files may be of any size.
                streamable_http_client(endpoint, http_client=http, max_sse_event_size=None) as (from_server, to_server),
                anyio.create_task_group() as tasks,
            ):
                protocol_headers, ending = ProtocolHeaders(), asyncio.Event()

                async def send(message: JSONRPCMessage) -> None:
                    is_opening = isinstance(message, JSONRPCRequest) and message.method == "initialize"
                    headers = {**protocol_headers.build(message), **({SESSION: ""} if is_opening else {})}
                    await to_server.send(SessionMessage(message, ClientMessageMetadata(headers=headers)))

                renewal = SessionRenewal(send)
                tasks.start_soon(_forward_responses, from_server, to_client, protocol_headers, renewal, explain)
                tasks.start_soon(_forward_requests, from_client, send, renewal, ending)
                tasks.start_soon(_link_events, stop, ending)
                await ending.wait()
                tasks.cancel_scope.cancel()
            over.set_result(None)
        except Exception as error:
            over.set_result(error)
            raise


async def _forward_requests(
    from_client: ReadStream[SessionMessage | Exception], send: Send, renewal: SessionRenewal, ending: asyncio.Event
) -> None:
    async for item in from_client:
        if isinstance(item, SessionMessage):
            renewal.observe_request(item.message)
            await send(item.message)
    ending.set()


async def _forward_responses(
    from_server: ReadStream[SessionMessage | Exception],
    to_client: WriteStream[SessionMessage],
    protocol_headers: ProtocolHeaders,
    renewal: SessionRenewal,
    explain: Callable[[JSONRPCMessage], JSONRPCMessage],
) -> None:
    async for item in from_server:
        if isinstance(item, SessionMessage):
            protocol_headers.observe(item.message)
            for message in await renewal.observe(item.message):
                await to_client.send(SessionMessage(explain(message)))


async def _drop_empty_session(request: httpx2.Request) -> None:
    """Remove the session header from the request that opens a new session: the SDK adds it to every request."""
    if request.headers.get(SESSION) == "":
        del request.headers[SESSION]


async def _link_events(first: asyncio.Event, second: asyncio.Event) -> None:
    await first.wait()
    second.set()


def _is_unreachable(failure: BaseException) -> bool:
    parts: Sequence[BaseException] = getattr(failure, "exceptions", ())  # an exception group has them
    return isinstance(failure, httpx2.TransportError) or any(map(_is_unreachable, parts))
