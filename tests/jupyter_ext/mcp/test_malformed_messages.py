"""Messages that no client should send are refused, and the error says what to do."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.mcp_clients import ENVELOPE, INITIALIZE, MODERN, SECONDS, Post, mcp_url, post

__all__ = ["mcp_url", "post"]

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
    reply: dict[str, Any] = json.loads(text)
    assert reply["id"] == 5
    error: dict[str, Any] = reply["error"]
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


@pytest.mark.parametrize(
    ("meta", "is_about_the_call"), [({"progressToken": {}}, False), (None, True)], ids=["another field", "no field"]
)
async def test_the_hint_is_about_what_is_wrong(post: Post, meta: Any, is_about_the_call: bool) -> None:
    params = {"name": "readFile", "_meta": meta} if meta else {}
    error = _error(await post(_sent("tools/call", params), **await _session(post)))
    assert ("tools/list has both" in error["data"]["hint"]) is is_about_the_call


BODIES = [
    (b'{"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": []}', -32602),
    (b'{"jsonrpc": "2.0", "id": 5, "method": "ping", "params": {"a": "cut \\ud83d"}}', -32700),
    (b'{"jsonrpc": "2.0", "id": 16,', -32700),
    (b'{"jsonrpc": "2.0", "id": 5, "method": "ping", "params": {"a": "\xff"}}', -32700),
    (b"[]", -32600),
]


@pytest.mark.parametrize(("body", "code"), BODIES)
async def test_a_body_that_is_no_message(post: Post, body: bytes, code: int) -> None:
    refusal = await post(body, **await _session(post))
    error = refusal.json()["error"]
    assert (refusal.status_code, error["code"], error["data"]["code"]) == (400, code, "INVALID_ARGUMENT")
    assert error["data"]["hint"]
    assert "pydantic" not in refusal.text and "\n" not in error["message"]


HEADERS = {"Mcp_Protocol_Version": MODERN, "Mcp_Method": "tools/list"}
LISTED = _sent("tools/list", {"_meta": ENVELOPE})
REFUSED: list[tuple[Any, dict[str, str], int, str, str]] = [
    (_sent("tools/list", {}), HEADERS, -32602, "INVALID_ARGUMENT", "2026-07-28"),
    (LISTED, {**HEADERS, "Mcp_Method": "ping"}, -32020, "INVALID_ARGUMENT", "Mcp-Method"),
    (LISTED, {**HEADERS, "Mcp_Protocol_Version": "2099-01-01"}, -32020, "INVALID_ARGUMENT", "Mcp-Protocol-Version"),
    (_sent("tools/list", {}), {}, -32600, "INVALID_ARGUMENT", "initialize"),
    (_sent("tools/list", {}), {"Mcp_Session_Id": "gone"}, -32600, "NOT_FOUND", "initialize"),
    (_sent("tools/list", {}), {"Content_Type": "text/plain"}, -32600, "INVALID_ARGUMENT", "Content-Type"),
    (_sent("tools/list", {}), {"Accept": "text/html"}, -32600, "INVALID_ARGUMENT", "Accept"),
    (LISTED, {**HEADERS, "Accept": "text/html"}, -32600, "INVALID_ARGUMENT", "Accept"),
    ([], HEADERS, -32600, "INVALID_ARGUMENT", "one JSON object"),
]


@pytest.mark.parametrize(("body", "headers", "number", "code", "word"), REFUSED)
async def test_a_refusal_says_what_to_do(
    post: Post, body: Any, headers: dict[str, str], number: int, code: str, word: str
) -> None:
    refusal = await post(body, **headers)
    assert 400 <= refusal.status_code < 500
    assert refusal.headers["Content-Type"] == "application/json"
    error = refusal.json()["error"]
    assert (error["code"], error["data"]["code"]) == (number, code)
    assert word in error["data"]["hint"]


async def test_a_version_that_nobody_speaks_is_told_those_that_are(post: Post) -> None:
    strange = {**ENVELOPE, "io.modelcontextprotocol/protocolVersion": "2099-01-01"}
    headers = {**HEADERS, "Mcp_Protocol_Version": "2099-01-01"}
    data = (await post(_sent("tools/list", {"_meta": strange}), **headers)).json()["error"]["data"]
    assert data["code"] == "INVALID_ARGUMENT" and MODERN in data["supported"]


async def test_a_long_name_is_not_told_again(post: Post) -> None:
    error = _error(await post(_sent("prompts/get", {"name": "x" * 100_000}), **await _session(post)))
    assert error["message"].startswith("There is no prompt") and len(json.dumps(error)) < 2_000


async def test_a_method_that_there_is_not(post: Post) -> None:
    error = _error(await post(_sent("nothing/at/all", {}), **await _session(post)))
    assert (error["code"], error["data"]["code"]) == (-32601, "NOT_FOUND")
    assert error["data"]["hint"]


def test_a_call_before_the_handshake(tmp_path: Path) -> None:
    """Over HTTP there is no session to ask in then."""
    command = [sys.executable, "-m", "wap_kernel.cli", "mcp", str(tmp_path)]
    line = json.dumps(_sent("tools/list", {})) + "\n"
    done = subprocess.run(command, input=line, capture_output=True, text=True, timeout=SECONDS, check=False)
    error = json.loads(done.stdout)["error"]
    assert (error["code"], error["data"]["code"]) == (-32602, "INVALID_ARGUMENT")
    assert error["message"].startswith("The session is not open yet.") and "initialize" in error["data"]["hint"]
