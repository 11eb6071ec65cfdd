"""The official Python client on pytest-jupyter's server: both eras of the protocol, any credential."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, NamedTuple

import httpx2
import mcp_types as types
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError

LEGACY = "legacy"
MODERN = "2026-07-28"
ERAS = (LEGACY, MODERN)
SECONDS = 60
"""What anything may take at most."""

Connect = Callable[..., AbstractAsyncContextManager[Client]]
Post = Callable[..., Awaitable[httpx2.Response]]
ACCEPT = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}


@asynccontextmanager
async def connected(url: str, headers: dict[str, str], mode: str, **options: Any) -> AsyncIterator[Client]:
    """Without cookies: most clients keep none, and Jupyter takes each of their requests for another user's."""
    async with httpx2.AsyncClient(headers=headers, timeout=SECONDS, trust_env=False, verify=False) as http:
        http.event_hooks["request"].append(_without_cookies)
        transport = streamable_http_client(url, http_client=http)
        async with Client(transport, mode=mode, read_timeout_seconds=SECONDS, **options) as client:
            yield client


async def _without_cookies(request: httpx2.Request) -> None:
    request.headers.pop("Cookie", None)


@pytest.fixture
def mcp_url(http_server_client: Any, jp_base_url: str) -> str:
    return f"http://127.0.0.1:{http_server_client.get_http_port()}{jp_base_url}wap/mcp"


@pytest.fixture
def connect(mcp_url: str, jp_auth_header: dict[str, str]) -> Connect:
    """Open a client in an `async with`; `headers` take the place of the server's token."""

    def connect(mode: str = LEGACY, headers: dict[str, str] | None = None, **options: Any) -> Any:
        return connected(mcp_url, dict(jp_auth_header if headers is None else headers), mode, **options)

    return connect


@pytest.fixture
def post(mcp_url: str, jp_auth_header: dict[str, str], jp_asyncio_loop: Any) -> Iterator[Post]:
    """A bare request, for what no client does."""
    http = httpx2.AsyncClient(timeout=SECONDS, trust_env=False, verify=False)
    http.event_hooks["request"].append(_without_cookies)

    async def post(body: Any, method: str = "POST", **headers: str) -> httpx2.Response:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        sent = {**ACCEPT, **jp_auth_header, **{name.replace("_", "-"): value for name, value in headers.items()}}
        return await http.request(method, mcp_url, content=content, headers=sent)

    yield post
    jp_asyncio_loop.run_until_complete(http.aclose())


def request(method: str, number: int = 1, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}


INITIALIZE = request(
    "initialize", 0, protocolVersion="2025-11-25", capabilities={}, clientInfo={"name": "bare", "version": "1"}
)
ENVELOPE = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientInfo": {"name": "bare", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
"""What every request says of its client from 2026-07-28 on, in `params._meta`."""


def answer(result: types.CallToolResult) -> dict[str, Any]:
    """What a tool answered: the same in both of its forms."""
    assert not result.is_error, result
    (content,) = result.content
    assert isinstance(content, types.TextContent)
    found: dict[str, Any] = json.loads(content.text)
    assert found == result.structured_content
    return found


class Refusal(NamedTuple):
    """The error of a call: a JSON-RPC error, or the one in the result of a tool."""

    code: int
    message: str
    data: Any
    is_result: bool


async def refused(call: Awaitable[Any]) -> Refusal:
    """Return the error that a call ends with."""
    try:
        result = await call
    except MCPError as error:
        return Refusal(error.code, error.message, error.data, False)
    return find_refusal(result)


def find_refusal(result: types.CallToolResult) -> Refusal:
    assert result.is_error, result
    (content,) = result.content
    assert isinstance(content, types.TextContent) and json.loads(content.text) == result.structured_content
    error = json.loads(content.text)["error"]
    return Refusal(error["code"], error["message"], error["data"], True)


async def within_time(work: Awaitable[Any]) -> Any:
    return await asyncio.wait_for(work, SECONDS)
