"""The HTTP headers of messages that are forwarded over HTTP."""

from __future__ import annotations

from typing import Any

import pytest
from mcp_types import JSONRPCNotification, JSONRPCRequest, JSONRPCResponse

from wap_kernel.dialects.mcp.stdio.http_bridge import ProtocolHeaders


def _request(method: str, number: int = 1, **params: Any) -> JSONRPCRequest:
    return JSONRPCRequest(jsonrpc="2.0", id=number, method=method, params=params)


def test_a_session_speaks_the_version_that_the_server_named() -> None:
    stamps = ProtocolHeaders()
    assert stamps.build(_request("initialize", 5, protocolVersion="2099-01-01")) == {}
    stamps.observe(JSONRPCResponse(jsonrpc="2.0", id=4, result={"protocolVersion": "wrong"}))
    assert stamps.build(_request("ping")) == {}
    stamps.observe(JSONRPCResponse(jsonrpc="2.0", id=5, result={"protocolVersion": "2025-11-25"}))
    assert stamps.build(_request("tools/call", name="x")) == {"mcp-protocol-version": "2025-11-25"}
    cancelled = JSONRPCNotification(jsonrpc="2.0", method="notifications/cancelled", params={"requestId": 1})
    assert stamps.build(cancelled) == {"mcp-protocol-version": "2025-11-25"}
    assert stamps.build(_request("initialize", 6)) == {}
    assert stamps.build(_request("ping")) == {}


META = {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}


@pytest.mark.parametrize(
    ("method", "params", "name"),
    [
        ("tools/call", {"name": "readFile"}, "readFile"),
        ("resources/read", {"uri": "file:///a"}, "file:///a"),
        ("tools/list", {"name": "ignored"}, None),
        ("tools/call", {"name": 5}, None),
    ],
)
def test_a_message_that_names_its_version_is_described(method: str, params: dict[str, Any], name: str | None) -> None:
    expected = {"mcp-protocol-version": "2026-07-28", "mcp-method": method}
    assert ProtocolHeaders().build(_request(method, _meta=META, **params)) == {
        **expected,
        **({"mcp-name": name} if name else {}),
    }
