"""`wap mcp`, on a folder and as a bridge to a server, by the official client over stdio; how it ends."""

from __future__ import annotations

import asyncio
import json
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest
from mcp import Client, StdioServerParameters

from tests.support import mcp_calls
from tests.support.mcp_clients import ERAS, LEGACY, answer, find_refusal, refused
from tests.support.mcp_lines import SECONDS, Process, server, shared, start, token_file, where
from tests.support.server_processes import LiveServer, Place

__all__ = ["server", "shared", "start", "token_file", "where"]

Connect = Callable[..., AbstractAsyncContextManager[Client]]


@pytest.fixture
def prepared(shared: Place, where: list[str]) -> Iterator[Place]:
    """With what the calls of `mcp_calls` find, and without what they leave."""
    mcp_calls.prepare(shared.root)
    yield shared
    for path in shared.root.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()


@pytest.fixture
def connect(shared: Place, where: list[str]) -> Connect:
    def connect(mode: str, **options: Any) -> Client:
        arguments = ["-m", "wap_kernel.cli", "mcp", *where]
        started = StdioServerParameters(command=sys.executable, args=arguments, env=shared.environment, cwd="/")
        return Client(started, mode=mode, read_timeout_seconds=SECONDS, **options)

    return connect


eras = pytest.mark.parametrize("mode", ERAS)


@eras
def test_a_client_works_over_stdio(connect: Connect, shared: Place, mode: str) -> None:
    async def work() -> None:
        async with connect(mode) as client:
            assert len((await client.list_tools()).tools) > 5
            answer(await client.call_tool("writeFile", {"path": "a.txt", "contents": "one\n"}))
            uri = (shared.root / "a.txt").as_uri()
            (text,) = (await client.read_resource(uri)).contents
            assert isinstance(text, types.TextResourceContents) and text.text == "one\n"
            ran = answer(await client.call_tool("runCommand", {"command": "cat", "args": ["a.txt"]}))
            assert ran["stdout"] == "one\n"
            assert (await client.list_prompts()).prompts
            assert (await refused(client.call_tool("readFile", {"path": "../outside"}))).code == -32001

    asyncio.run(work())


@eras
def test_every_tool_with_every_argument_and_every_error_code_over_stdio(
    connect: Connect, prepared: Place, mode: str
) -> None:
    async def work() -> list[mcp_calls.Outcome]:
        async with connect(mode) as client:
            return await mcp_calls.drive(client)

    mcp_calls.compare(asyncio.run(work()))


@eras
@pytest.mark.parametrize("agrees", [True, False])
def test_the_user_is_asked_over_stdio(connect: Connect, shared: Place, mode: str, agrees: bool) -> None:
    (shared.root / ".cws-policy.json").write_text(json.dumps({"confirmationRequired": ["runCommand"]}))
    asked: list[str] = []

    async def user(_: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
        asked.append(params.message)
        return types.ElicitResult(action="accept", content={"confirm": agrees})

    async def work() -> str | int:
        async with connect(mode, elicitation_callback=user) as client:
            result = await client.call_tool("runCommand", {"command": "echo", "args": ["hi"]})
            return find_refusal(result).code if result.is_error else str(answer(result)["stdout"])

    assert asyncio.run(work()) == ("hi\n" if agrees else -32005)
    assert "echo hi" in asked[0]


@eras
def test_progress_and_cancellation_over_stdio(connect: Connect, shared: Place, mode: str) -> None:
    async def work() -> None:
        heard = asyncio.Event()

        async def progress(done: float, total: float | None, message: str | None) -> None:
            if message and "first" in message:
                heard.set()

        async with connect(mode) as client:
            arguments = {"command": "sh", "args": ["-c", "echo first; echo $$ >pid; sleep 1000"]}
            call = asyncio.ensure_future(client.call_tool("runCommand", arguments, progress_callback=progress))
            await asyncio.wait_for(heard.wait(), SECONDS)
            pid = await _number(shared.root / "pid")
            call.cancel()
            await asyncio.wait([call])
            await _gone(pid)
            assert answer(await client.call_tool("getWorkspaceInfo", {}))["root"] == str(shared.root)

    asyncio.run(work())


def test_two_clients_work_at_once_over_stdio(connect: Connect, shared: Place) -> None:
    """Each waits for what the other does."""

    async def meet(client: Client, mine: str, theirs: str) -> Any:
        script = f"touch {mine}; until [ -e {theirs} ]; do sleep 0.01; done"
        return answer(await client.call_tool("runCommand", {"command": "sh", "args": ["-c", script]}))["exitCode"]

    async def work() -> list[Any]:
        async with connect(LEGACY) as first, connect(LEGACY) as second:
            return await asyncio.gather(meet(first, "one", "two"), meet(second, "two", "one"))

    assert asyncio.run(work()) == [0, 0]


def test_a_session_hears_of_changes_over_stdio(connect: Connect, shared: Place) -> None:
    async def work() -> str:
        told: asyncio.Future[str] = asyncio.get_running_loop().create_future()

        async def hear(message: Any) -> None:
            if isinstance(message, types.ResourceUpdatedNotification) and not told.done():
                told.set_result(str(message.params.uri))

        async with connect(LEGACY, message_handler=hear) as client:
            with pytest.warns(UserWarning, match="subscribe"):
                await client.subscribe_resource((shared.root / "a.txt").as_uri())
            answer(await client.call_tool("writeFile", {"path": "a.txt", "contents": "x"}))
            return await asyncio.wait_for(told, SECONDS)

    assert asyncio.run(work()) == (shared.root / "a.txt").as_uri()


async def _number(file: Path) -> int:
    async def read() -> int:
        while not file.exists() or not file.read_text().strip():  # noqa: ASYNC110, ASYNC240
            await asyncio.sleep(0.01)
        return int(file.read_text())  # noqa: ASYNC240

    return await asyncio.wait_for(read(), SECONDS)


async def _gone(pid: int) -> None:
    async def poll() -> None:
        while Path(f"/proc/{pid}").exists():  # noqa: ASYNC110, ASYNC240
            await asyncio.sleep(0.01)

    await asyncio.wait_for(poll(), SECONDS)


@pytest.mark.parametrize("how", ["closed", "terminated", "interrupted"])
def test_it_ends_with_its_client_and_so_does_its_command(
    start: Callable[..., Process], shared: Place, where: list[str], how: str
) -> None:
    server = start(*where, "--grace", "0")
    server.initialize()
    arguments = {"command": "sh", "args": ["-c", "echo $$ >pid; sleep 1000"]}
    server.send("tools/call", 1, name="runCommand", arguments=arguments)
    pid = asyncio.run(_number(shared.root / "pid"))
    assert server.process.stdin is not None
    if how == "closed":
        server.process.stdin.close()
    else:
        server.process.send_signal(signal.SIGTERM if how == "terminated" else signal.SIGINT)
    status, err = server.end()
    assert (status, "Traceback" in err) == (0, False)
    asyncio.run(_gone(pid))


def test_what_is_no_message_does_not_end_it(start: Callable[..., Process], shared: Place) -> None:
    server = start(str(shared.root))
    assert server.initialize()["result"]["serverInfo"]["name"] == "wap"
    for nonsense in ("{", "[]", "null", "x" * 100_000, '{"jsonrpc": "2.0"}', "\x00", '{"id": ' + "[" * 100_000, ""):
        server.say(nonsense)
    server.send("ping", 2)
    assert server.answer(2)["result"] == {}


def test_a_server_that_does_not_run_is_said_so(start: Callable[..., Process], token_file: Path) -> None:
    bridge = start("--url", "http://127.0.0.1:9/", "--token-file", str(token_file))
    bridge.send(
        "initialize", 0, protocolVersion="2025-11-25", capabilities={}, clientInfo={"name": "a", "version": "1"}
    )
    status, err = bridge.end()
    assert (status, "There is no server at http://127.0.0.1:9/" in err) == (1, True)


def test_a_wrong_token_is_answered_with_what_to_do(start: Callable[..., Process], server: LiveServer) -> None:
    for token, said in (("wrong", "does not accept this token"), ("", "wants a token")):
        bridge = start("--url", server.url, WAP_TOKEN=token)
        error = bridge.initialize()["error"]
        assert (error["data"]["code"], said in error["message"]) == ("UNAUTHENTICATED", True)
        assert "--token-file" in error["message"] and "WAP_TOKEN" in error["message"]


@pytest.mark.parametrize("end", ["wap/mcp", "wap/mcp/"])
def test_the_address_of_the_endpoint_is_understood(start: Callable[..., Process], server: LiveServer, end: str) -> None:
    bridge = start("--url", server.url + end, WAP_TOKEN=server.token)
    assert bridge.initialize()["result"]["serverInfo"]["name"] == "wap"


def test_an_address_with_another_base_url_is_said_so(start: Callable[..., Process], server: LiveServer) -> None:
    address = f"{server.url}user/ada/"
    error = start("--url", address, WAP_TOKEN=server.token).initialize()["error"]
    assert error["message"].startswith(f"There is no wap at {address}. The address has the server's base URL in it")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["/nowhere/at/all"], "No such file or folder"),
        (["--token-file", "x"], "goes with --url"),
        ([".", "--url", "http://localhost:1/"], "not both"),
        (["--url", "localhost"], "not the address of a server"),
        (["--url", "http://localhost:1/", "--token-file", "/nowhere"], "cannot be read"),
    ],
)
def test_wrong_arguments_are_said_so(start: Callable[..., Process], arguments: list[str], said: str) -> None:
    status, err = start(*arguments).end()
    assert status == 1
    assert said in err
    assert "Traceback" not in err


def test_requests_before_the_end_of_standard_input_are_answered(
    start: Callable[..., Process], shared: Place, where: list[str]
) -> None:
    """A pipe ends before the answers have come: `printf ... | wap mcp`."""
    server = start(*where, "--grace", str(SECONDS))
    server.send("initialize", 0, protocolVersion="2025-11-25", capabilities={}, clientInfo={"name": "a", "version": ""})
    server.send("notifications/initialized")
    script = "touch begun; until [ -e go ]; do sleep 0.01; done; echo done"
    server.send("tools/call", 1, name="runCommand", arguments={"command": "sh", "args": ["-c", script]})
    server.send("tools/call", 2, name="getWorkspaceInfo", arguments={})
    assert server.process.stdin is not None
    server.process.stdin.close()
    answers = {message["id"]: message for message in map(json.loads, _release(server, shared.root)) if "id" in message}
    assert set(answers) == {0, 1, 2}
    assert answers[1]["result"]["structuredContent"]["stdout"] == "done\n"
    assert server.end()[0] == 0


def _release(server: Process, root: Path) -> Iterator[str]:
    """Let the command end once the other answers are there, and yield all lines."""
    assert server.process.stdout is not None
    for line in server.process.stdout:
        yield line
        if '"id":2' in line:
            (root / "go").touch()


def test_a_profile_offers_fewer_tools(start: Callable[..., Process], where: list[str]) -> None:
    server = start(*where, "--profile", "read")
    server.initialize()
    server.send("tools/list", 1)
    names = {tool["name"] for tool in server.answer(1)["result"]["tools"]}
    assert "readFile" in names and not names & {"writeFile", "runCommand", "git"}
    server.send("tools/call", 2, name="writeFile", arguments={"path": "a", "contents": ""})
    assert server.answer(2)["error"]["data"]["code"] == "NOT_FOUND"
