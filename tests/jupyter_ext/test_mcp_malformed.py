"""Messages that no client should send: the SDK refuses them before any handler sees them, and still says what to do."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.jupyter_ext.mcp_clients import INITIALIZE, MODERN, SECONDS, Post, mcp_url, post

__all__ = ["mcp_url", "post"]

ENVELOPE = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientInfo": {"name": "bare", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
CALLS: list[tuple[Any, str]] = [
    ({"name": "readFile", "arguments": ["a"]}, "params.arguments"),
    ({"name": "readFile", "arguments": "a"}, "params.arguments"),
    ({"name": "runOperations", "arguments": 1}, "params.arguments"),
    ({"name": 7, "arguments": {}}, "params.name"),
    ({"arguments": {}}, "params.name"),
    ({}, "params.name"),
]


def _sent(method: str, params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 5, "method": method, **({} if params is None else {"params": params})}


def _error(response: Any) -> dict[str, Any]:
    text = response.text
    if response.headers["Content-Type"].startswith("text/event-stream"):
        text = next(line[6:] for line in text.splitlines() if line.startswith("data: {"))
    told: dict[str, Any] = json.loads(text)
    assert told["id"] == 5
    error: dict[str, Any] = told["error"]
    return error


async def _session(post: Post) -> dict[str, str]:
    opened = await post(INITIALIZE)
    session = {"Mcp_Session_Id": opened.headers["Mcp-Session-Id"], "Mcp_Protocol_Version": "2025-11-25"}
    await post({"jsonrpc": "2.0", "method": "notifications/initialized"}, **session)
    return session


@pytest.mark.parametrize(("params", "field"), [*CALLS, (None, "params")])
async def test_a_call_that_is_none(post: Post, params: Any, field: str) -> None:
    error = _error(await post(_sent("tools/call", params), **await _session(post)))
    assert (error["code"], error["data"]["code"]) == (-32602, "INVALID_ARGUMENT")
    assert error["message"].startswith(f"{field}: ")
    assert error["data"]["problems"][0]["field"] == field
    assert "tools/list" in error["data"]["hint"] and "object" in error["data"]["hint"]


@pytest.mark.parametrize(("params", "field"), [call for call in CALLS if call[0].get("name") != 7])
async def test_the_same_without_a_session(post: Post, params: dict[str, Any], field: str) -> None:
    headers = {"Mcp_Protocol_Version": MODERN, "Mcp_Method": "tools/call", "Mcp_Name": str(params.get("name", ""))}
    error = _error(await post(_sent("tools/call", {**params, "_meta": ENVELOPE}), **headers))
    assert error["code"] == -32602
    assert (error["data"]["code"], error["data"]["problems"][0]["field"]) == ("INVALID_ARGUMENT", field)


@pytest.mark.parametrize(
    ("method", "params"),
    [("resources/read", {}), ("resources/subscribe", {"uri": 1}), ("prompts/get", None), ("logging/setLevel", {})],
)
async def test_other_methods(post: Post, method: str, params: Any) -> None:
    error = _error(await post(_sent(method, params), **await _session(post)))
    assert (error["code"], error["data"]["code"]) == (-32602, "INVALID_ARGUMENT")
    assert method in error["data"]["hint"]


def test_a_call_before_the_handshake(tmp_path: Path) -> None:
    """Over HTTP there is no session to ask in then."""
    command = [sys.executable, "-m", "wap_kernel.cli", "mcp", str(tmp_path)]
    line = json.dumps(_sent("tools/list", {})) + "\n"
    done = subprocess.run(command, input=line, capture_output=True, text=True, timeout=SECONDS, check=False)
    error = json.loads(done.stdout)["error"]
    assert (error["code"], error["data"]["code"]) == (-32602, "INVALID_ARGUMENT")
    assert error["message"].startswith("The session is not open yet.") and "initialize" in error["data"]["hint"]
