"""Response streams over HTTP: each event reaches one connection, once, and nothing is left behind."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest

from jupyter_ext.handlers import mcp as mcp_handlers
from jupyter_ext.tokens import rate_limits
from tests.support.agent_tokens import bearer, mint
from tests.support.http_runs import until
from tests.support.mcp_clients import ACCEPT, ENVELOPE, INITIALIZE, MODERN, SECONDS, Post, mcp_url, post, request
from tests.support.mcp_clients import within_time as within

__all__ = ["mcp_url", "post"]

pytestmark = pytest.mark.wap_settings(allow_unconfined=True)

SCRIPT = "touch begun; until [ -e go ]; do sleep 0.01; done; echo done"
CALL = request("tools/call", 7, name="runCommand", arguments={"command": "sh", "args": ["-c", SCRIPT]})
ENVELOPED = {"Mcp-Protocol-Version": MODERN, "Mcp-Method": "tools/call", "Mcp-Name": "runCommand"}


async def _open(post: Post, version: str = "2025-11-25", **headers: str) -> str:
    params = {**INITIALIZE["params"], "protocolVersion": version}
    opened = await post({**INITIALIZE, "params": params}, **headers)
    session: str = opened.headers["Mcp-Session-Id"]
    return session


@asynccontextmanager
async def _streaming(url: str, method: str, headers: dict[str, str], body: Any = None) -> AsyncIterator[Any]:
    async with (
        httpx2.AsyncClient(timeout=SECONDS, trust_env=False) as http,
        http.stream(method, url, headers={**ACCEPT, **headers}, json=body) as response,
    ):
        assert response.status_code == 200
        yield response


async def _first_id(response: Any) -> str:
    async for line in response.aiter_lines():
        if line.startswith("id: "):
            return str(line.removeprefix("id: "))
    raise AssertionError("the stream has ended")


async def _answers(response: Any) -> list[dict[str, Any]]:
    """Every answer until the stream ends."""
    found = []
    async for line in response.aiter_lines():
        message = json.loads(line[6:] or "{}") if line.startswith("data: ") else {}
        if "result" in message or "error" in message:
            found.append(message)
    return found


async def test_a_connection_that_resumes_a_stream_takes_it_over(
    post: Post, mcp_url: str, jp_auth_header: dict[str, str], jp_root_dir: Any
) -> None:
    """The server has not noticed yet that the first connection is lost."""
    headers = {**jp_auth_header, "Mcp-Session-Id": await _open(post)}
    async with _streaming(mcp_url, "POST", headers, CALL) as first:
        resume = {**headers, "Last-Event-ID": await _first_id(first)}
        async with _streaming(mcp_url, "GET", resume) as second:
            # The first one ends, so nothing goes where no client reads any more.
            await within(first.aclose())
            async with _streaming(mcp_url, "GET", resume) as third:
                assert await within(_answers(second)) == []
                await until((jp_root_dir / "begun").exists)
                (jp_root_dir / "go").touch()
                (answer,) = await within(_answers(third))
    assert answer["result"]["structuredContent"]["stdout"] == "done\n"
    async with _streaming(mcp_url, "GET", resume) as again:
        assert await within(_answers(again)) == [answer]


async def test_a_refused_stream_is_not_taken(
    post: Post, fetch: Any, mcp_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = bearer(await mint(fetch))
    session = await _open(post, **agent)
    with monkeypatch.context() as patch:
        patch.setattr(rate_limits, "MAX_STREAMS_PER_TOKEN", 0)
        assert (await post(b"", "GET", Mcp_Session_Id=session, **agent)).status_code == 429
    async with _streaming(mcp_url, "GET", {**agent, "Mcp-Session-Id": session}):
        pass


async def test_the_stream_of_an_invalid_token_ends_its_request(
    fetch: Any, mcp_url: str, jp_root_dir: Any, extension: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A token that expires is told to nothing else; a connection may stay open for the next request."""
    monkeypatch.setattr(mcp_handlers, "CHECK_SECONDS", 0)
    monkeypatch.setattr(mcp_handlers, "KEEPALIVE_SECONDS", 0.05)
    token = await mint(fetch)
    call = {**CALL, "params": {**CALL["params"], "_meta": ENVELOPE}}
    async with _streaming(mcp_url, "POST", {**bearer(token), **ENVELOPED}, call) as response:
        await until((jp_root_dir / "begun").exists)
        assert extension.workspace.running == 1

        async def verify(_: str) -> None:
            raise mcp_handlers.WapError("The token has expired.")

        monkeypatch.setattr(extension.tokens, "verify", verify)
        assert await within(_answers(response)) == []
        await until(lambda: extension.workspace.running == 0)


@pytest.mark.parametrize("ids", [[1, 2, 1], [*range(1, 1003)]], ids=["the same id", "too many"])
async def test_a_refused_batch_does_nothing(post: Post, jp_root_dir: Any, ids: list[int]) -> None:
    session = await _open(post, "2025-03-26")
    write = {"name": "writeFile", "arguments": {"path": "made.txt", "contents": "x"}}
    batch = [request("tools/call", number, **write) for number in ids]
    refused = await post(batch, Mcp_Session_Id=session)
    assert refused.status_code in (400, 429), refused.text
    assert (await post(request("ping", 1), Mcp_Session_Id=session)).json()["id"] == 1
    assert not (jp_root_dir / "made.txt").exists()


async def test_a_session_is_not_idle_while_a_request_without_connection_goes_on(
    post: Post, mcp_url: str, jp_auth_header: dict[str, str], jp_root_dir: Any, extension: Any
) -> None:
    """The idle time begins when the request ends, so that the client can still fetch the answer."""
    name = await _open(post)
    headers = {**jp_auth_header, "Mcp-Session-Id": name}
    async with _streaming(mcp_url, "POST", headers, CALL) as first:
        event = await _first_id(first)
        await until((jp_root_dir / "begun").exists)
    session = extension.open_mcp()._sessions[name]
    await until(lambda: session._uses == 0)
    disconnected_at = session.idle_since
    (jp_root_dir / "go").touch()
    await until(lambda: session.is_idle)
    assert session.idle_since > disconnected_at
    async with _streaming(mcp_url, "GET", {**headers, "Last-Event-ID": event}) as again:
        assert len(await within(_answers(again))) == 1
