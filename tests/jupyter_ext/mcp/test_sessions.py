"""MCP sessions over HTTP: whose they are, how they are resumed, and that nobody can use them up."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest

from jupyter_ext.handlers import mcp as mcp_handlers
from tests.support.agent_tokens import bearer, mint
from tests.support.http_runs import until
from tests.support.mcp_clients import (
    ACCEPT,
    INITIALIZE,
    SECONDS,
    Connect,
    Post,
    answer,
    connect,
    mcp_url,
    post,
    request,
    within_time,
)
from wap_kernel.dialects.mcp.http.sessions import BEGIN
from wap_kernel.model.limits import MCP_MAX_SESSIONS_PER_CREDENTIAL

__all__ = ["connect", "mcp_url", "post"]

VERSION = {"Mcp-Protocol-Version": "2025-11-25"}
NOT_FOUND = f"Session not found. The session has ended, or is another's. {BEGIN}"


async def _open(post: Post, **headers: str) -> str:
    opened = await post(INITIALIZE, **headers)
    assert opened.status_code == 200, opened.text
    session: str = opened.headers["Mcp-Session-Id"]
    headers = {**headers, "Mcp_Session_Id": session}
    ready = await post({"jsonrpc": "2.0", "method": "notifications/initialized"}, **headers)
    assert ready.status_code == 202
    return session


def _events(text: str) -> list[dict[str, str]]:
    """Server-sent events that were read whole; pings are left out."""
    frames = (frame for frame in text.replace("\r\n", "\n").split("\n\n") if frame and not frame.startswith(":"))
    return [dict(line.split(": ", 1) for line in frame.split("\n") if ": " in line) for frame in frames]


async def test_a_session_is_used_and_ended(post: Post, extension: Any) -> None:
    session = await _open(post)
    listed = await post(request("tools/list"), Mcp_Session_Id=session)
    assert listed.headers["Content-Type"] == "application/json", "nothing but the answer is sent"
    assert listed.json()["result"]["tools"]
    written = await post(
        request("tools/call", name="writeFile", arguments={"path": "a", "contents": ""}), Mcp_Session_Id=session
    )
    assert written.headers["Content-Type"] == "text/event-stream", "a log message comes before the answer"
    first, logged, answered = _events(written.text)
    assert first["id"] and first["retry"] and "notifications/message" in logged["data"]
    assert json.loads(answered["data"])["result"]["structuredContent"]["path"] == "a"
    assert (await post(b"", "DELETE", Mcp_Session_Id=session)).status_code == 200
    gone = await post(request("tools/list"), Mcp_Session_Id=session)
    assert (gone.status_code, gone.json()["error"]["message"]) == (404, NOT_FOUND)
    assert extension.open_mcp().open == 0


async def test_a_session_opens_only_to_the_credential_that_began_it(post: Post, fetch: Any) -> None:
    one, other = await mint(fetch), await mint(fetch)
    session = await _open(post, **bearer(one))
    for headers in (bearer(other), {}):
        stolen = await post(request("tools/list"), Mcp_Session_Id=session, **headers)
        assert (stolen.status_code, stolen.json()["error"]["message"]) == (404, NOT_FOUND)
        assert (await post(b"", "DELETE", Mcp_Session_Id=session, **headers)).status_code == 404
    assert (await post(request("ping"), Mcp_Session_Id=session, **bearer(one))).status_code == 200


async def test_a_revoked_token_ends_the_use_of_its_session(post: Post, fetch: Any, jp_fetch: Any) -> None:
    token = await mint(fetch)
    session = await _open(post, **bearer(token))
    await jp_fetch(f"wap/tokens/{token['id']}", method="DELETE")
    refused = await post(request("ping"), Mcp_Session_Id=session, **bearer(token))
    assert (refused.status_code, refused.json()["error"]["data"]["code"]) == (401, "UNAUTHENTICATED")


@pytest.mark.parametrize("revoked", [True, False])
async def test_a_stream_ends_with_its_token(
    post: Post,
    fetch: Any,
    jp_fetch: Any,
    mcp_url: str,
    jp_root_dir: Any,
    monkeypatch: pytest.MonkeyPatch,
    revoked: bool,
) -> None:
    monkeypatch.setattr(mcp_handlers, "CHECK_SECONDS", 0)
    token = await mint(fetch)
    headers = bearer(token)
    session = await _open(post, **headers)
    uri = (jp_root_dir / "a.txt").as_uri()
    subscribed = await post(request("resources/subscribe", uri=uri), Mcp_Session_Id=session, **headers)
    assert subscribed.status_code == 200
    async with _streaming(mcp_url, "GET", {**headers, "Mcp-Session-Id": session}) as response:
        if revoked:
            await jp_fetch(f"wap/tokens/{token['id']}", method="DELETE")
        await fetch("wap/api/writeFile", method="POST", body=json.dumps({"path": "a.txt", "content": "x"}))
        if revoked:
            assert await within_time(response.aread()) == b""
        else:
            assert "updated" in (await _event(response.aiter_lines()))["data"]


async def test_a_client_that_takes_only_json_gets_json(post: Post) -> None:
    only = {"Accept": "application/json"}
    session = await _open(post, **only)
    ran = await post(
        request("tools/call", name="runCommand", arguments={"command": "true"}), Mcp_Session_Id=session, **only
    )
    assert ran.headers["Content-Type"] == "application/json"
    assert ran.json()["result"]["structuredContent"]["exitCode"] == 0


@asynccontextmanager
async def _streaming(url: str, method: str, headers: dict[str, str], body: Any = None) -> AsyncIterator[Any]:
    sent = {**ACCEPT, **VERSION, **headers}
    async with (
        httpx2.AsyncClient(timeout=SECONDS, trust_env=False, verify=False) as http,
        http.stream(method, url, headers=sent, json=body) as response,
    ):
        assert response.status_code == 200
        yield response


async def _event(lines: AsyncIterator[str]) -> dict[str, str]:
    """The next one that is more than a ping."""
    fields: dict[str, str] = {}
    async for line in lines:
        name, _, value = line.partition(": ")
        if line and name:
            fields[name] = value
        elif fields:
            return fields
    raise AssertionError("the stream has ended")


async def test_a_dropped_connection_is_resumed(
    post: Post, mcp_url: str, jp_auth_header: dict[str, str], jp_root_dir: Any
) -> None:
    session = await _open(post)
    headers = {**jp_auth_header, "Mcp-Session-Id": session}
    script = "touch begun; until [ -e go ]; do sleep 0.01; done; echo done"
    call = request("tools/call", 7, name="runCommand", arguments={"command": "sh", "args": ["-c", script]})
    async with _streaming(mcp_url, "POST", headers, call) as response:
        first = await _event(response.aiter_lines())
        assert first["id"] and first["retry"]
        await until((jp_root_dir / "begun").exists)
    (jp_root_dir / "go").touch()  # it ends while nobody listens
    async with _streaming(mcp_url, "GET", {**headers, "Last-Event-ID": first["id"]}) as response:
        lines, message = response.aiter_lines(), {}
        while "id" not in message:  # what was logged comes before
            message = json.loads((await _event(lines)).get("data") or "{}")
    assert (message["id"], message["result"]["structuredContent"]["stdout"]) == (7, "done\n")


async def test_an_answer_to_a_question_that_is_none_is_a_no(
    post: Post, mcp_url: str, jp_auth_header: dict[str, str], jp_root_dir: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """An answer after the first is ignored."""
    (jp_root_dir / ".cws-policy.json").write_text(json.dumps({"confirmationRequired": ["runCommand"]}))
    asking = {**INITIALIZE, "params": {**INITIALIZE["params"], "capabilities": {"elicitation": {}}}}
    session = (await post(asking)).headers["Mcp-Session-Id"]
    await post({"jsonrpc": "2.0", "method": "notifications/initialized"}, Mcp_Session_Id=session)
    call = request("tools/call", 7, name="runCommand", arguments={"command": "touch", "args": ["a.txt"]})
    async with _streaming(mcp_url, "POST", {**jp_auth_header, "Mcp-Session-Id": session}, call) as response:
        lines, message = response.aiter_lines(), dict[str, Any]()
        while message.get("id") != 7 or "method" in message:
            message = json.loads((await _event(lines)).get("data") or "{}")
            for action in ("maybe", "accept") if message.get("method") == "elicitation/create" else ():
                reply = {"action": action, "content": {"confirm": True}}
                await post({"jsonrpc": "2.0", "id": message["id"], "result": reply}, Mcp_Session_Id=session)
    error = message["result"]["structuredContent"]["error"]
    assert (error["code"], error["data"]["declined"]) == (-32005, True)
    assert not (jp_root_dir / "a.txt").exists()
    assert not [record for record in caplog.records if record.exc_info]


async def test_a_long_name_that_no_tool_has_is_not_told_again(post: Post) -> None:
    refused = await post(request("tools/call", name="x" * 1_000_000, arguments={}), Mcp_Session_Id=await _open(post))
    assert "There is no tool named" in refused.text and len(refused.text) < 10_000


async def test_events_of_another_session_are_not_replayed(
    post: Post, mcp_url: str, jp_auth_header: dict[str, str], jp_root_dir: Any
) -> None:
    (jp_root_dir / "secret.txt").write_text("a secret")
    one, other = await _open(post), await _open(post)
    await post(request("logging/setLevel", 6, level="debug"), Mcp_Session_Id=one)  # so that the answer is a stream
    read = request("tools/call", 7, name="readFile", arguments={"path": "secret.txt"})
    answered = await post(read, Mcp_Session_Id=one, **{"Mcp_Protocol_Version": "2025-11-25"})
    first = _events(answered.text)[0]["id"]
    replay = {"Mcp_Session_Id": other, "Last_Event_ID": first, "Mcp_Protocol_Version": "2025-11-25"}
    replayed = await within_time(post(b"", "GET", **replay))  # it ends: there is nothing to go on with
    assert "secret" not in replayed.text


async def test_the_official_client_comes_back_by_itself(
    connect: Connect, jp_root_dir: Any, http_server_client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server drops the connection in the middle of a call; the client resumes and gets its answer."""
    from jupyter_ext.handlers.mcp import McpHandler

    handlers: list[McpHandler] = []
    begin = McpHandler.prepare

    async def prepare(self: McpHandler) -> None:
        handlers.append(self)
        await begin(self)

    async with connect() as client:
        monkeypatch.setattr(McpHandler, "prepare", prepare)
        script = "touch begun; until [ -e go ]; do sleep 0.01; done; echo done"
        call = asyncio.ensure_future(client.call_tool("runCommand", {"command": "sh", "args": ["-c", script]}))
        await until((jp_root_dir / "begun").exists)
        # Not what came before the call, nor the stream that a client opens for whatever it may be told.
        (calling,) = [one for one in handlers if one.request.method == "POST" and not one._finished]
        await until(lambda: calling._headers_written)  # with the position to resume from
        calling.request.connection.stream.close()  # type: ignore[union-attr]
        await until(lambda: any("Last-Event-ID" in one.request.headers for one in handlers))
        (jp_root_dir / "go").touch()
        assert answer(await within_time(call))["stdout"] == "done\n"


async def test_a_thousand_abandoned_sessions_leave_room(post: Post, extension: Any, fetch: Any) -> None:
    mine = await _open(post)
    agent = bearer(await mint(fetch))
    for _ in range(10):
        opened = await asyncio.gather(*(post(INITIALIZE, **agent) for _ in range(100)))
        assert {response.status_code for response in opened} == {200}
    sessions = extension.open_mcp()
    assert sessions.open == MCP_MAX_SESSIONS_PER_CREDENTIAL + 1
    assert (await post(request("ping"), Mcp_Session_Id=mine)).status_code == 200  # of somebody else, though older
    assert (await fetch("wap/tools")).status == 200


async def test_when_all_sessions_are_taken_the_longest_idle_one_goes(post: Post, extension: Any) -> None:
    sessions = extension.open_mcp()
    sessions.max_sessions = 3
    first, second, third = [await _open(post) for _ in range(3)]
    assert (await post(request("ping"), Mcp_Session_Id=first)).status_code == 200
    await _open(post)
    statuses = [(await post(request("ping"), Mcp_Session_Id=name)).status_code for name in (first, second, third)]
    assert (statuses, sessions.open) == ([200, 404, 200], 3)


async def test_a_session_in_use_is_not_ended_for_another(
    post: Post, extension: Any, mcp_url: str, jp_auth_header: dict[str, str]
) -> None:
    sessions = extension.open_mcp()
    sessions.max_sessions = 1
    session = await _open(post)
    async with _streaming(mcp_url, "GET", {**jp_auth_header, "Mcp-Session-Id": session}):
        refused = await post(INITIALIZE)
    assert (refused.status_code, refused.json()["error"]["data"]["code"]) == (503, "RATE_LIMITED")


async def test_an_idle_session_ends(post: Post, extension: Any) -> None:
    sessions = extension.open_mcp()
    sessions.idle_seconds = 0.05
    session = (await post(INITIALIZE)).headers["Mcp-Session-Id"]  # a second request might come too late already
    await until(lambda: sessions.open == 0)
    assert (await post(request("ping"), Mcp_Session_Id=session)).status_code == 404


async def test_stopping_the_server_ends_sessions_and_their_commands(
    connect: Connect, jp_root_dir: Any, extension: Any
) -> None:
    async with connect() as client:
        arguments = {"command": "sh", "args": ["-c", "touch begun; sleep 1000"]}
        call = asyncio.ensure_future(client.call_tool("runCommand", arguments))
        await until((jp_root_dir / "begun").exists)
        workspace = extension.workspace
        await within_time(extension.stop_extension())
        assert workspace.running == 0
        call.cancel()
        await asyncio.wait([call])
