"""MCP over HTTP by the official client, in both eras of the protocol: what it lists, calls, is asked and is told."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import mcp_types as types
import pytest

from tests.support import mcp_calls
from tests.support.http_runs import until
from tests.support.mcp_clients import ERAS, LEGACY, MODERN, Connect, answer, connect, mcp_url, refused, within_time
from wap_kernel.dialects.coding_environment.tools import TOOLS

__all__ = ["connect", "mcp_url"]
pytestmark = pytest.mark.parametrize("mode", ERAS)

POLICY = ".cws-policy.json"
CONFIRMED = json.dumps({"confirmationRequired": ["runCommand", "writeFile"]})


async def test_tools_are_listed_with_schemas_and_hints(connect: Connect, mode: str) -> None:
    async with connect(mode) as client:
        tools = (await client.list_tools()).tools
    assert [tool.name for tool in tools] == list(TOOLS)
    for tool in tools:
        assert tool.description and tool.title and tool.input_schema["type"] == "object"
        assert "$ref" not in json.dumps(tool.input_schema)
        is_read_only = tool.annotations is not None and tool.annotations.read_only_hint is True
        assert is_read_only is (TOOLS[tool.name].effect.value == "read")


async def test_every_tool_with_every_argument_and_every_error_code(
    connect: Connect, jp_root_dir: Any, mode: str
) -> None:
    mcp_calls.prepare(jp_root_dir)
    async with connect(mode) as client:
        outcomes = await mcp_calls.drive(client)
    mcp_calls.compare(outcomes)
    assert not (jp_root_dir / "src").exists()


class User:
    """The user of the client."""

    def __init__(self, answer: str, **content: Any) -> None:
        self.asked: list[str] = []
        self._answer, self._content = answer, content

    async def __call__(self, context: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
        self.asked.append(params.message)
        return types.ElicitResult(action=self._answer, content=self._content or None)


async def test_a_user_agrees_to_the_command_that_is_shown(connect: Connect, jp_root_dir: Any, mode: str) -> None:
    (jp_root_dir / POLICY).write_text(CONFIRMED)
    user = User("accept", confirm=True)
    async with connect(mode, elicitation_callback=user) as client:
        ran = answer(await client.call_tool("runCommand", {"command": "echo", "args": ["yes; no"]}))
    assert ran["stdout"] == "yes; no\n"
    (prompt,) = user.asked
    assert "echo 'yes; no'" in prompt


async def test_a_user_sees_the_diff_of_a_write(connect: Connect, jp_root_dir: Any, mode: str) -> None:
    (jp_root_dir / POLICY).write_text(CONFIRMED)
    (jp_root_dir / "a.txt").write_text("old\n")
    user = User("accept", confirm=True)
    async with connect(mode, elicitation_callback=user) as client:
        answer(await client.call_tool("writeFile", {"path": "a.txt", "contents": "new\n"}))
    assert "-old\n+new" in user.asked[0]
    assert (jp_root_dir / "a.txt").read_text() == "new\n"


@pytest.mark.parametrize("user", [User("decline"), User("cancel"), User("accept", confirm=False), User("accept")])
async def test_whatever_is_not_a_yes_is_a_no(connect: Connect, jp_root_dir: Any, mode: str, user: User) -> None:
    (jp_root_dir / POLICY).write_text(CONFIRMED)
    async with connect(mode, elicitation_callback=user) as client:
        error = await refused(client.call_tool("runCommand", {"command": "touch", "args": ["a.txt"]}))
    assert (error.code, error.data["declined"]) == (-32005, True)
    assert not (jp_root_dir / "a.txt").exists()


async def test_a_client_that_cannot_ask_is_told_how_to_confirm(connect: Connect, jp_root_dir: Any, mode: str) -> None:
    (jp_root_dir / POLICY).write_text(CONFIRMED)
    async with connect(mode) as client:
        error = await refused(client.call_tool("runCommand", {"command": "true"}))
        assert (error.code, "options.confirmed" in error.data["hint"]) == (-32005, True)
        ran = answer(await client.call_tool("runCommand", {"command": "true", "options": {"confirmed": True}}))
    assert ran["exitCode"] == 0


async def test_progress_brings_the_end_of_the_output(connect: Connect, jp_root_dir: Any, mode: str) -> None:
    reports: list[tuple[float, str | None]] = []

    async def progress(done: float, total: float | None, message: str | None) -> None:
        reports.append((done, message))
        if message is not None and "first" in message:
            (jp_root_dir / "go").touch()

    script = "echo first; until [ -e go ]; do sleep 0.01; done; echo second"
    async with connect(mode) as client:
        call = client.call_tool("runCommand", {"command": "sh", "args": ["-c", script]}, progress_callback=progress)
        ran = answer(await within_time(call))
    assert ran["stdout"] == "first\nsecond\n"
    assert [done for done, _ in reports] == sorted(done for done, _ in reports)


async def test_cancelling_a_call_ends_its_command(
    connect: Connect, jp_root_dir: Any, extension: Any, mode: str
) -> None:
    async with connect(mode) as client:
        arguments = {"command": "sh", "args": ["-c", "touch begun; sleep 1000"]}
        call = asyncio.ensure_future(client.call_tool("runCommand", arguments))
        await until((jp_root_dir / "begun").exists)
        assert extension.workspace.running == 1
        call.cancel()
        await asyncio.wait([call])
        await until(lambda: extension.workspace.running == 0)
        assert answer(await client.call_tool("runCommand", {"command": "true"}))["exitCode"] == 0


async def test_log_messages_tell_what_became_of_calls_and_no_contents(connect: Connect, mode: str) -> None:
    heard: list[types.LoggingMessageNotificationParams] = []
    reached = asyncio.Event()

    async def hear(params: types.LoggingMessageNotificationParams) -> None:
        heard.append(params)
        if len(heard) == 2:
            reached.set()

    async with connect(mode, logging_callback=hear, **({"log_level": "info"} if mode == MODERN else {})) as client:
        await client.call_tool("writeFile", {"path": "a.txt", "contents": "secret"})
        await client.call_tool("readFile", {"path": "a.txt"})  # below the level
        await refused(client.call_tool("readFile", {"path": "missing"}))
        await within_time(reached.wait())
    assert [(params.level, params.data["tool"], params.data["outcome"]) for params in heard] == [
        ("info", "writeFile", "ok"),
        ("warning", "readFile", "FILE_NOT_FOUND"),
    ]
    assert "secret" not in repr(heard)


async def test_a_client_of_today_chooses_its_level_of_logging(connect: Connect, mode: str) -> None:
    if mode != LEGACY:
        pytest.skip("from 2026-07-28 on the level comes with each request")
    heard: list[Any] = []
    arrived = asyncio.Event()

    async def hear(params: types.LoggingMessageNotificationParams) -> None:
        heard.append(params.data["tool"])
        arrived.set()

    async with connect(mode, logging_callback=hear) as client:
        with pytest.warns(UserWarning, match="deprecated"):
            await client.set_logging_level("error")
        await refused(client.call_tool("readFile", {"path": "missing"}))
        with pytest.warns(UserWarning, match="deprecated"):
            await client.set_logging_level("debug")
        await client.call_tool("getWorkspaceInfo", {})
        await within_time(arrived.wait())
    assert heard == ["getWorkspaceInfo"]


async def test_our_32001_is_told_from_the_sdks_own(connect: Connect, mode: str) -> None:
    """The SDK uses the same number for a request that timed out; only our error has data."""
    async with connect(mode) as client:
        ours = await refused(client.call_tool("readFile", {"path": "../outside"}))
        sleep = {"command": "sleep", "args": ["1000"]}
        theirs = await refused(client.call_tool("runCommand", sleep, read_timeout_seconds=0.01))
    assert ours.code == theirs.code == types.REQUEST_TIMEOUT
    assert (ours.data["code"], theirs.data) == ("PERMISSION_DENIED", None)


async def test_prompts(connect: Connect, mode: str) -> None:
    async with connect(mode) as client:
        assert [one.name for one in (await client.list_prompts()).prompts] == ["explore_workspace", "review_last_run"]
        (message,) = (await client.get_prompt("explore_workspace", {"focus": "the tests"})).messages
        assert isinstance(message.content, types.TextContent) and message.content.text.endswith(": the tests")
        error = await refused(client.get_prompt("review_last_run"))
        assert error.data["code"] == "NOT_FOUND"
        run = answer(await client.call_tool("runOperations", {"operations": [{"type": "message", "content": "hi"}]}))
        (message,) = (await client.get_prompt("review_last_run")).messages
        assert isinstance(message.content, types.TextContent) and run["runId"] in message.content.text
        assert (await refused(client.get_prompt("nothing"))).code == -32602


async def test_two_sessions_work_at_once(connect: Connect, mode: str) -> None:
    """Each waits for what the other does."""

    def waiting(mine: str, theirs: str) -> dict[str, Any]:
        script = f"touch {mine}; until [ -e {theirs} ]; do sleep 0.01; done"
        return {"command": "sh", "args": ["-c", script]}

    async with connect(mode) as one, connect(mode) as other:
        calls = [one.call_tool("runCommand", waiting("a", "b")), other.call_tool("runCommand", waiting("b", "a"))]
        results = await within_time(asyncio.gather(*calls))
    assert [answer(result)["exitCode"] for result in results] == [0, 0]


async def test_who_asked_is_recorded(connect: Connect, fetch: Any, mode: str) -> None:
    named = types.Implementation(name="a\x1bclient", version="1")
    async with connect(mode, client_info=named) as client:
        await client.call_tool("getWorkspaceInfo", {})
    (record,) = (await fetch("wap/audit", params={"tool": "getWorkspaceInfo"})).body["records"]
    assert (record["agent"], record["dialect"], record["outcome"]) == ("aclient", "coding_environment", "ok")
    assert ("session" in record) is (mode == LEGACY)
