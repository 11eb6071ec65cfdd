"""Authentication and authorization at wap/mcp, and what a stranger can do to it."""

from __future__ import annotations

import asyncio
import json
import re
from contextlib import suppress
from typing import Any

import pytest

from tests.support.agent_tokens import bearer, mint
from tests.support.http_runs import Notes
from tests.support.mcp_clients import (
    ERAS,
    INITIALIZE,
    LEGACY,
    MODERN,
    Connect,
    Post,
    answer,
    connect,
    find_refusal,
    mcp_url,
    post,
    refused,
    request,
    within_time,
)
from wap_kernel.dialects.coding_environment import progress as call_progress
from wap_kernel.dialects.coding_environment.tools import TOOLS
from wap_kernel.model.limits import MAX_BODY_BYTES

__all__ = ["connect", "mcp_url", "post"]


pytestmark = pytest.mark.wap_settings(allow_unconfined=True)


def _refusal(response: Any) -> tuple[int, str]:
    body = response.json()
    assert (body["jsonrpc"], body["id"]) == ("2.0", None)
    assert body["error"]["message"]
    return response.status_code, body["error"]["data"]["code"]


@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ({"Authorization": ""}, "UNAUTHENTICATED"),
        ({"Authorization": "token wrong"}, "UNAUTHENTICATED"),
        ({"Authorization": "Bearer wap_000000000000_" + "x" * 43}, "UNAUTHENTICATED"),
        ({"Host": "evil.example"}, "PERMISSION_DENIED"),
        ({"Origin": "http://evil.example"}, "PERMISSION_DENIED"),
        ({"Origin": "null"}, "PERMISSION_DENIED"),
    ],
)
async def test_strangers_are_refused(
    post: Post, extension: Any, method: str, headers: dict[str, str], code: str
) -> None:
    response = await post(INITIALIZE, method, **headers)
    is_stranger = code == "UNAUTHENTICATED"
    assert _refusal(response) == (401 if is_stranger else 403, code)
    assert response.headers.get("WWW-Authenticate") == ("Bearer" if is_stranger else None)
    assert extension.open_mcp().open == 0


async def test_a_foreign_origin_is_refused_to_an_agent_too(post: Post, fetch: Any) -> None:
    agent = bearer(await mint(fetch))
    assert (await post(INITIALIZE, **agent)).status_code == 200
    refusal = await post(INITIALIZE, **agent, Origin="http://evil.example")
    assert _refusal(refusal) == (403, "PERMISSION_DENIED")
    assert refusal.json()["error"]["message"].endswith("See ServerApp.allow_origin, or use no browser.")


async def test_a_foreign_origin_is_not_told_to_send_what_it_has_sent(post: Post) -> None:
    refusal = await post(INITIALIZE, Origin="http://evil.example")
    assert refusal.json()["error"]["message"].endswith("See ServerApp.allow_origin, or use no browser.")


async def test_our_own_pages_and_allowed_origins_are_welcome(post: Post, mcp_url: str, jp_serverapp: Any) -> None:
    own = mcp_url.partition("/a%40b")[0]
    assert (await post(INITIALIZE, Origin=own)).status_code == 200
    jp_serverapp.web_app.settings["allow_origin_pat"] = re.compile(r"http://friend\.example")
    opened = await post(INITIALIZE, Origin="http://friend.example")
    assert opened.status_code == 200
    assert opened.headers["Access-Control-Allow-Origin"] == "http://friend.example"
    assert opened.headers["Access-Control-Expose-Headers"] == "Mcp-Session-Id"
    asked = await post(b"", "OPTIONS", Origin="http://friend.example", Authorization="")
    assert "mcp-session-id" in asked.headers["Access-Control-Allow-Headers"]


async def test_other_methods_are_told_which_there_are(post: Post) -> None:
    response = await post(b"", "PUT")
    assert _refusal(response) == (405, "METHOD_NOT_ALLOWED")
    assert response.headers["Allow"] == "GET, POST, DELETE, OPTIONS"


async def test_a_body_that_says_it_is_too_large_is_refused(post: Post) -> None:
    body = b" " * (MAX_BODY_BYTES + 1)
    refusal = await post(body)
    assert _refusal(refusal) == (413, "SIZE_LIMIT_EXCEEDED")
    assert "append" not in refusal.json()["error"]["message"], "no tool over MCP can"


async def test_a_body_that_grows_too_large_is_refused(mcp_url: str, jp_auth_header: dict[str, str]) -> None:
    """Chunked, so nobody knows how long it will be."""
    host, _, path = mcp_url.removeprefix("http://").partition("/")
    reader, writer = await asyncio.open_connection(*host.split(":"))
    head = [f"POST /{path} HTTP/1.1", f"Host: {host}", "Transfer-Encoding: chunked", "Content-Type: application/json"]
    head += ["Accept: application/json, text/event-stream", f"Authorization: {jp_auth_header['Authorization']}"]
    writer.write("\r\n".join([*head, "", ""]).encode())
    piece = b"%x\r\n" % 2**20 + b" " * 2**20 + b"\r\n"
    try:
        for _ in range(MAX_BODY_BYTES // 2**20 + 1):
            writer.write(piece)
            await writer.drain()
        status = (await within_time(reader.readline())).split()[1]
    finally:
        writer.close()
    assert status == b"413"


async def test_a_body_of_countless_parts_is_refused_before_it_is_parsed(post: Post) -> None:
    """Refuse it: parsing it would block the event loop, and every kernel with it, for seconds."""
    body = b'{"jsonrpc": "2.0", "id": 1, "method": "ping", "params": {"a": [' + b"[]," * 100_000 + b"[]]}}"
    response = await post(body)
    assert _refusal(response) == (400, "INVALID_ARGUMENT")
    assert "fields and items" in response.json()["error"]["message"]


async def test_a_large_body_within_the_limit_is_taken(connect: Connect, jp_root_dir: Any) -> None:
    text = "a line\n" * (128 * 1024)
    async with connect(MODERN) as client:
        answer(await client.call_tool("writeFile", {"path": "big.txt", "contents": text}))
        found, start = "", 1
        while len(found) < len(text):
            page = answer(await client.call_tool("readFile", {"path": "big.txt", "startLine": start}))
            found, start = found + page["content"], page["endLine"] + 1
    assert found == text == (jp_root_dir / "big.txt").read_text()


async def test_oversized_headers_are_not_taken(post: Post, mcp_url: str) -> None:
    host, _, path = mcp_url.removeprefix("http://").partition("/")
    reader, writer = await asyncio.open_connection(*host.split(":"))
    writer.write(f"POST /{path} HTTP/1.1\r\nHost: {host}\r\nMcp-Session-Id: {'x' * 200_000}\r\n\r\n".encode())
    with suppress(ConnectionResetError):
        assert await within_time(reader.read()) == b""
    writer.close()
    assert (await post(INITIALIZE)).status_code == 200


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b"null", b'"x"', b"[" * 100_000, json.dumps([INITIALIZE]).encode(), b"\xff"]
)
@pytest.mark.parametrize("version", ["2025-11-25", MODERN, "nonsense"])
async def test_what_is_no_message_is_an_error_and_no_session(
    post: Post, extension: Any, body: bytes, version: str
) -> None:
    response = await post(body, Mcp_Protocol_Version=version)
    assert response.status_code == 400
    assert response.json()["error"]["code"] in (-32700, -32600, -32602)
    assert extension.open_mcp().open == 0


@pytest.mark.parametrize("mode", ERAS)
async def test_an_agent_sees_and_uses_the_tools_of_its_scope(connect: Connect, fetch: Any, mode: str) -> None:
    agent = bearer(await mint(fetch, tools=["readFile", "getWorkspaceInfo"]))
    async with connect(mode, agent) as client:
        names = [tool.name for tool in (await client.list_tools()).tools]
        runs = ["runOperations", "getRun", "getOutput", "cancelRun"]
        assert names == ["readFile", "readNotebook", *runs, "getWorkspaceInfo"]
        error = await refused(client.call_tool("runCommand", {"command": "true"}))
        assert (error.code, error.data["rule"]) == (-32004, "token.tools")
        error = await refused(client.list_resources())
        assert (error.code, error.data["rule"]) == (-32004, "token.tools")
    records = (await fetch("wap/audit", params={"outcome": "denied"})).body["records"]
    assert {(record["tool"], record["agent"]) for record in records} == {
        ("runCommand", "an agent"),
        ("listFiles", "an agent"),
    }


async def test_a_setting_chooses_the_tools(connect: Connect, extension: Any) -> None:
    extension.mcp_tools = ["readFile", "listFiles"]
    async with connect() as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == ["readFile", "listFiles"]
        error = await refused(client.call_tool("writeFile", {"path": "a", "contents": ""}))
        assert (error.code, error.data["code"]) == (-32602, "NOT_FOUND")


@pytest.mark.parametrize("mode", ERAS)
@pytest.mark.parametrize(
    ("offered", "lists", "reads"),
    [(["searchFiles"], False, False), (["listFiles"], True, False), (["readFile"], False, True)],
)
async def test_the_setting_binds_resources_and_prompts_too(
    connect: Connect, extension: Any, jp_root_dir: Any, mode: str, offered: list[str], lists: bool, reads: bool
) -> None:
    (jp_root_dir / "a").write_text("x")
    extension.mcp_tools = offered
    async with connect(mode) as client:
        for may, ask in (
            (lists, client.list_resources),
            (reads, lambda: client.read_resource((jp_root_dir / "a").as_uri())),
            (reads, client.list_resource_templates),
        ):
            if may:
                await ask()
            else:
                error = await refused(ask())
                assert (error.code, error.data["rule"]) == (-32004, "mcp_tools")
        (reply,) = (await client.get_prompt("explore_workspace")).messages
        assert {name for name in TOOLS if name in reply.content.text} == set(offered)
        assert {name for name in TOOLS if f"with {name}." in (client.instructions or "")} <= set(offered)


@pytest.mark.parametrize("mode", ERAS)
async def test_the_authorizer_is_asked_about_each_operation(connect: Connect, jp_serverapp: Any, mode: str) -> None:
    notes = jp_serverapp.web_app.settings["authorizer"] = Notes(parent=jp_serverapp)
    async with connect(mode) as client:
        notes.refused = ("write", "execute")
        notes.asked.clear()
        for tool, arguments, action in (
            ("getWorkspaceInfo", {}, "read"),
            ("writeFile", {"path": "a", "contents": ""}, "write"),
            ("runCommand", {"command": "true"}, "execute"),
        ):
            result = await client.call_tool(tool, arguments)
            assert action == "read" or find_refusal(result).data["code"] == "PERMISSION_DENIED"
            assert result.is_error is (action != "read")
            assert notes.asked[-1] == (action, "wap")


async def test_who_may_not_read_opens_no_session(post: Post, jp_serverapp: Any, extension: Any) -> None:
    notes = jp_serverapp.web_app.settings["authorizer"] = Notes(parent=jp_serverapp)
    notes.refused = ("read",)
    assert _refusal(await post(INITIALIZE)) == (403, "PERMISSION_DENIED")
    assert extension.open_mcp().open == 0


async def test_an_agents_calls_are_counted(connect: Connect, fetch: Any) -> None:
    agent = bearer(await mint(fetch, limits={"commandsPerMinute": 1}))
    async with connect(LEGACY, agent) as client:
        answer(await client.call_tool("runCommand", {"command": "true"}))
        error = await refused(client.call_tool("runCommand", {"command": "true"}))
        assert error.data["code"] == "RATE_LIMITED"
        assert error.data["retryAfterMs"] > 0


async def test_a_person_in_jupyter_decides_what_asks(
    connect: Connect, fetch: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`confirmed` and the client's user do not satisfy a preset that asks; the call can wait for the person."""
    monkeypatch.setattr(call_progress, "HEARTBEAT_SECONDS", 0.05)
    agent = bearer(await mint(fetch, preset="standard"))
    arguments = {"command": "sh", "args": ["-c", "echo hi"], "options": {"confirmed": True}}
    reported = asyncio.Event()

    async def progress(*_: Any) -> None:
        reported.set()

    async with connect(LEGACY, agent) as client:
        error = await refused(client.call_tool("runCommand", arguments))
        assert (error.code, "getRun" in error.data["hint"]) == (-32005, True)
        wait = {"wap/wait": 60}
        calling = client.call_tool("runCommand", arguments, meta=wait, progress_callback=progress)
        waiting = asyncio.ensure_future(calling)
        await within_time(reported.wait())
        decision = {"approvalId": error.data["approvalId"], "decision": "approved"}
        path = f"wap/runs/{error.data['runId']}/decision"
        assert (await fetch(path, method="POST", body=json.dumps(decision))).status == 200
        assert answer(await within_time(waiting))["stdout"] == "hi\n"
        error = await refused(client.call_tool("runCommand", arguments, meta={"wap/wait": "long"}))
        assert error.code == -32602


async def test_where_nobody_logs_in_a_session_is_kept_all_the_same(post: Post, jp_serverapp: Any) -> None:
    jp_serverapp.identity_provider.token = ""
    jp_serverapp.web_app.settings["disable_check_xsrf"] = True
    opened = await post(INITIALIZE, Authorization="")
    session = opened.headers["Mcp-Session-Id"]
    assert (await post(request("ping"), Authorization="", Mcp_Session_Id=session)).status_code == 200
