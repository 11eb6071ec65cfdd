"""MCP from 2026-07-28 on, by bare requests: each is an exchange of its own, and ends with its connection."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.http_runs import until
from tests.support.mcp_clients import ENVELOPE, MODERN, Post, mcp_url, post, request

__all__ = ["mcp_url", "post"]

BOTH = "application/json, text/event-stream"
accepted = pytest.mark.parametrize("accept", [BOTH, "application/json"], ids=["both", "json"])


def _headers(method: str, accept: str, **more: str) -> dict[str, str]:
    return {"Mcp_Protocol_Version": MODERN, "Mcp_Method": method, "Accept": accept, **more}


@accepted
async def test_an_answer_in_json(post: Post, accept: str) -> None:
    answered = await post(request("tools/list", _meta=ENVELOPE), **_headers("tools/list", accept))
    assert (answered.status_code, answered.headers["Content-Type"]) == (200, "application/json")
    assert answered.json()["result"]["tools"]


async def test_who_takes_no_events_gets_json_whatever_is_told_on_the_way(post: Post) -> None:
    meta = {**ENVELOPE, "progressToken": "p", "io.modelcontextprotocol/logLevel": "debug"}
    call = request("tools/call", name="runCommand", arguments={"command": "true"}, _meta=meta)
    answered = await post(call, **_headers("tools/call", "application/json", Mcp_Name="runCommand"))
    assert (answered.status_code, answered.headers["Content-Type"]) == (200, "application/json")
    assert answered.json()["result"]["structuredContent"]["exitCode"] == 0


async def test_nothing_is_logged_unless_the_request_wants_it(post: Post) -> None:
    bodies = []
    for meta in (ENVELOPE, {**ENVELOPE, "io.modelcontextprotocol/logLevel": "info"}):
        call = request("tools/call", name="runCommand", arguments={"command": "true"}, _meta=meta)
        answered = await post(call, **_headers("tools/call", BOTH, Mcp_Name="runCommand"))
        assert answered.status_code == 200
        bodies.append(answered.text)
    assert ["notifications/message" in body for body in bodies] == [False, True]


async def test_a_prompt_is_the_answer_and_no_request_of_the_server(post: Post, jp_root_dir: Path) -> None:
    (jp_root_dir / ".cws-policy.json").write_text('{"confirmationRequired": ["runCommand"]}')
    capabilities = {"elicitation": {}}
    meta = {**ENVELOPE, "io.modelcontextprotocol/clientCapabilities": capabilities, "progressToken": "p"}
    call = request("tools/call", name="runCommand", arguments={"command": "true"}, _meta=meta)
    answered = await post(call, **_headers("tools/call", BOTH, Mcp_Name="runCommand"))
    (message,) = _read_messages(answered)
    assert message["id"] == call["id"]
    assert message["result"]["resultType"] == "input_required"


def _read_messages(answered: Any) -> list[dict[str, Any]]:
    """Return the messages of a response, in JSON or as events."""
    if answered.headers["Content-Type"] == "application/json":
        return [answered.json()]
    lines = answered.text.splitlines()
    return [json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data: {")]


async def test_who_takes_no_events_cannot_listen_and_is_told_why(post: Post) -> None:
    listen = request("subscriptions/listen", notifications={}, _meta=ENVELOPE)
    refusal = await post(listen, **_headers("subscriptions/listen", "application/json"))
    assert refusal.status_code == 406
    assert "text/event-stream" in refusal.json()["error"]["data"]["hint"]


@accepted
async def test_a_dropped_connection_ends_the_command(post: Post, jp_root_dir: Any, accept: str) -> None:
    script = {"command": "sh", "args": ["-c", "echo $$ >new; mv new pid; exec sleep 1000"]}
    call = request("tools/call", name="runCommand", arguments=script, _meta=ENVELOPE)
    calling = asyncio.ensure_future(post(call, **_headers("tools/call", accept, Mcp_Name="runCommand")))
    pid = jp_root_dir / "pid"
    await until(pid.exists)
    process = Path(f"/proc/{pid.read_text().strip()}")
    assert not calling.done()
    calling.cancel()
    await until(lambda: not process.exists())
