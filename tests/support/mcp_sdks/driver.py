"""Drive wap with the Python SDK of this environment, any from 1.9 to 2.x; print what the client saw as JSON.

Standard input holds one JSON object: `root`, the folder that is served; `upstream`, the port of the server where there
is one; and either `url` and `token`, or `command`, `args` and `env`. "$PORT" in an address stands for the port of a
proxy in this process, which cuts the connections once.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

import anyio
from cut_proxy import CutProxy
from mcp import ClientSession, StdioServerParameters, types
from mcp.client import streamable_http
from mcp.client.stdio import stdio_client
from mcp.shared.message import ClientMessageMetadata
from pydantic import AnyUrl

SECONDS = 60
"""What anything may take at most."""
IS_FIRST = version("mcp").startswith("1.")
HAS_ELICITATION = "elicitation_callback" in inspect.signature(ClientSession.__init__).parameters
RESUMES_BY_ITSELF = hasattr(streamable_http.StreamableHTTPTransport, "_handle_reconnection")


@contextmanager
def ignore_late_messages() -> Iterator[None]:
    """Ignore a message that the server sent while the client closed its stdio streams.

    Version 1.30 closes the reading end of its own queue before it ends the server, and fails with a group of nothing
    but BrokenResourceError if a notification arrives in between. An error of the driver itself is of another type.
    """
    try:
        yield
    except BaseException as error:
        if not is_late_message(error):
            raise


def is_late_message(error: BaseException) -> bool:
    inner = getattr(error, "exceptions", None)
    return all(map(is_late_message, inner)) if inner else isinstance(error, anyio.BrokenResourceError)


class Driver:
    def __init__(self, given: dict[str, Any]) -> None:
        self._given = given
        self._root = Path(given["root"])
        self.seen: dict[str, Any] = {}

    # -- connections

    @asynccontextmanager
    async def _connect(self, **callbacks: Any) -> AsyncIterator[tuple[ClientSession, dict[str, Any]]]:
        transport = self._open_http() if "url" in self._given else stdio_client(self._build_command())
        with ignore_late_messages():
            async with transport as streams, ClientSession(streams[0], streams[1], **callbacks) as session:
                yield session, dump(await within_time(session.initialize()))

    def _build_command(self) -> StdioServerParameters:
        given = self._given
        return StdioServerParameters(command=given["command"], args=given["args"], env=given["env"])

    @asynccontextmanager
    async def _open_http(self) -> AsyncIterator[Any]:
        url, headers = self._given["url"], {"Authorization": f"Bearer {self._given['token']}"}
        if IS_FIRST:
            async with streamable_http.streamablehttp_client(url, headers) as streams:
                yield streams
            return
        import httpx2

        async with (
            httpx2.AsyncClient(headers=headers, timeout=SECONDS) as http,
            streamable_http.streamable_http_client(url, http_client=http) as streams,
        ):
            yield streams

    # -- the work

    async def drive(self, proxy: CutProxy | None) -> None:
        updated: asyncio.Future[str] = asyncio.get_running_loop().create_future()

        async def hear(message: Any) -> None:
            note = getattr(message, "root", message)
            if getattr(note, "method", "") == "notifications/resources/updated" and not updated.done():
                updated.set_result(str(note.params.uri))

        async with self._connect(message_handler=hear) as (session, opened):
            self.seen["server"] = opened["serverInfo"]["name"]
            self.seen["version"] = opened["protocolVersion"]
            self.seen["tools"] = [tool["name"] for tool in dump(await session.list_tools())["tools"]]
            await self._call(session)
            await self._use_resources(session, updated)
            await self._cancel(session)
            if proxy is not None:
                await self._resume(session, proxy)
        for agrees in (True, False) if HAS_ELICITATION else ():
            await self._ask(agrees)

    async def _call(self, session: ClientSession) -> None:
        written = await call(session, "writeFile", {"path": "a.txt", "contents": "one\n"})
        read = await call(session, "readFile", {"path": "a.txt"})
        missing = await call(session, "readFile", {"path": "missing.txt"})
        self.seen["called"] = [written["isError"], read["isError"], read["told"]["content"]]
        self.seen["failed"] = [missing["isError"], missing["told"]["error"]["data"]["code"]]

    async def _use_resources(self, session: ClientSession, updated: asyncio.Future[str]) -> None:
        uri = (self._root / "a.txt").as_uri()
        address: Any = AnyUrl(uri) if IS_FIRST else uri
        listed = dump(await session.list_resources())["resources"]
        (content,) = dump(await session.read_resource(address))["contents"]
        await session.subscribe_resource(address)
        await call(session, "writeFile", {"path": "a.txt", "contents": "two\n"})
        is_updated = await within_time(updated) == uri
        self.seen["resources"] = [uri in [one["uri"] for one in listed], content["text"], is_updated]

    async def _cancel(self, session: ClientSession) -> None:
        """Cancel a command once it has reported progress, and wait until its process is gone."""
        begun = asyncio.Event()
        script = "echo $$ >pid; echo begun; sleep 1000"
        request_id = getattr(session, "_request_id", None)
        pending = asyncio.ensure_future(
            session.call_tool("runCommand", shell(script), progress_callback=hear_of("begun", begun))
        )
        await wait_begun(begun, pending)
        self.seen["progress"] = True
        process = Path("/proc") / (self._root / "pid").read_text().strip()
        was_there = process.exists()
        if IS_FIRST:  # this client has no call for it
            params = types.CancelledNotificationParams(requestId=request_id, reason="enough")
            note = types.CancelledNotification(method="notifications/cancelled", params=params)
            await session.send_notification(types.ClientNotification(note))
        else:
            pending.cancel()
        await until(lambda: not process.exists())
        pending.cancel()
        await asyncio.wait([pending])
        info = await call(session, "getWorkspaceInfo", {})
        self.seen["cancelled"] = [was_there, process.exists(), info["told"]["root"]]

    async def _resume(self, session: ClientSession, proxy: CutProxy) -> None:
        """Lose the connection while a command runs, and get its answer over another one."""
        begun = asyncio.Event()
        tokens: list[str] = []

        async def keep(token: str) -> None:
            tokens.append(token)

        arguments = shell("echo begun; until [ -e go ]; do sleep 0.01; done; echo resumed")
        params = types.CallToolRequestParams(name="runCommand", arguments=arguments)
        bare = types.CallToolRequest(method="tools/call", params=params)
        request: Any = types.ClientRequest(bare) if IS_FIRST else bare

        def send(metadata: ClientMessageMetadata, progress: Any = None) -> asyncio.Future[Any]:
            sent = session.send_request(request, types.CallToolResult, metadata=metadata, progress_callback=progress)
            return asyncio.ensure_future(sent)

        pending = send(ClientMessageMetadata(on_resumption_token_update=keep), hear_of("begun", begun))
        await wait_begun(begun, pending)
        is_http = "url" in self._given
        if is_http:
            await until(lambda: bool(tokens))
        cut = proxy.cut()
        resumed = pending
        if is_http and not RESUMES_BY_ITSELF:
            resumed = send(ClientMessageMetadata(resumption_token=tokens[-1]))
        (self._root / "go").touch()
        told = read(await within_time(resumed))["told"]
        pending.cancel()
        await asyncio.wait([pending])
        self.seen["resumed"] = [cut > 0, told["stdout"]]

    async def _ask(self, agrees: bool) -> None:
        prompts: list[str] = []

        async def answer(_: Any, params: Any) -> types.ElicitResult:
            prompts.append(params.message)
            if agrees:
                return types.ElicitResult(action="accept", content={"confirm": True})
            return types.ElicitResult(action="decline")

        policy = self._root / ".cws-policy.json"
        policy.write_text(json.dumps({"confirmationRequired": ["runCommand"]}))
        try:
            async with self._connect(elicitation_callback=answer) as (session, _):
                ran = await call(session, "runCommand", {"command": "echo", "args": ["hi"]})
        finally:
            policy.unlink()
        outcome = ran["told"]["error"]["data"]["code"] if ran["isError"] else ran["told"]["stdout"]
        self.seen["agreed" if agrees else "declined"] = [outcome, [("echo hi" in prompt) for prompt in prompts]]


def shell(script: str) -> dict[str, Any]:
    return {"command": "sh", "args": ["-c", script]}


def dump(result: Any) -> Any:
    """Return a result as it was on the wire: the attributes are named otherwise from 2.0 on."""
    return result.model_dump(by_alias=True, mode="json")


def read(result: Any) -> dict[str, Any]:
    data = dump(result)
    return {"isError": bool(data.get("isError")), "told": json.loads(data["content"][0]["text"])}


async def call(session: ClientSession, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    return read(await within_time(session.call_tool(name, arguments)))


def hear_of(text: str, heard: asyncio.Event) -> Callable[..., Awaitable[None]]:
    async def progress(done: float, total: float | None, message: str | None) -> None:
        if message is not None and text in message:
            heard.set()

    return progress


async def wait_begun(begun: asyncio.Event, pending: asyncio.Future[Any]) -> None:
    """Wait for the progress of a command; raise an error if the call ends without it."""
    waiting = asyncio.ensure_future(begun.wait())
    await asyncio.wait({waiting, pending}, timeout=SECONDS, return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
    assert begun.is_set(), pending


async def within_time(work: Awaitable[Any]) -> Any:
    return await asyncio.wait_for(work, SECONDS)


async def until(is_true: Callable[[], bool]) -> None:
    async def poll() -> None:
        while not is_true():  # noqa: ASYNC110
            await asyncio.sleep(0.01)

    await within_time(poll())


async def main() -> None:
    given = json.load(sys.stdin)
    if "upstream" not in given:
        driver = Driver(given)
        await driver.drive(None)
    else:
        async with CutProxy(given["upstream"]).listen() as proxy:
            driver = Driver(json.loads(json.dumps(given).replace("$PORT", str(proxy.port))))
            await driver.drive(proxy)
    sys.stdout.write(json.dumps({"sdk": version("mcp"), "seen": driver.seen}))


asyncio.run(main())
