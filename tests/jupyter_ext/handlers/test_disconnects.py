"""Calls end early when the client disconnects or the server stops."""

from __future__ import annotations

import asyncio
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from jupyter_server.auth import Authorizer

from tests.support.http_runs import SECONDS, until
from wap_kernel.model.errors import ProviderUnavailable
from wap_kernel.model.operations import ListFiles


async def test_a_running_command_is_activity_and_ends_with_the_extension(
    jp_fetch: Any, extension: Any, jp_root_dir: Path
) -> None:
    assert extension.current_activity() is None
    ready = jp_root_dir / "ready"
    body = json.dumps({"command": f"echo $$ > pid; mv pid {ready.name}; sleep 1000", "timeout": 600_000})
    request = asyncio.ensure_future(
        jp_fetch("wap/api/executeCommand", method="POST", body=body, raise_error=False, request_timeout=SECONDS)
    )
    await until(ready.exists)
    assert extension.current_activity() == {"commands": 1, "runs": 0, "approvals": 0}
    await extension.stop_extension()
    assert not _alive(int(ready.read_text()))
    assert extension.current_activity() is None
    await request
    after = await jp_fetch("wap/tools", raise_error=False)
    assert json.loads(after.body)["code"] == "PROVIDER_UNAVAILABLE"


async def test_what_cannot_be_closed_keeps_nothing_else_open(
    extension: Any, fetch: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Raised, it would keep the server from stopping at all."""
    assert (await fetch("wap/runs")).status == 200
    runner, workspace, tokens = extension.runner, extension.workspace, extension.tokens
    close = runner.close

    async def fails() -> None:
        await close()
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(runner, "close", fails)
    shutil.rmtree(workspace.state_dir)  # a person tidied up
    await extension.stop_extension()
    assert "closing Runner failed" in caplog.text
    with pytest.raises(ProviderUnavailable, match="closed"):
        await workspace.perform(ListFiles(path="."))
    with pytest.raises(ProviderUnavailable, match="shutting down"):
        await tokens.page(1)


async def test_a_command_ends_when_its_client_hangs_up(extension: Any, jp_root_dir: Path, connect: Any) -> None:
    ready = jp_root_dir / "ready"
    command = f"echo $$ > pid; mv pid {ready.name}; sleep 1000"
    writer = await connect("executeCommand", {"command": command, "timeout": 600_000})
    try:
        await until(ready.exists)
    finally:
        writer.close()
    await until(lambda: not _alive(int(ready.read_text())))
    await until(lambda: extension.workspace.running == 0)


HANGING_UP = [
    ("writeFile", {"path": "made", "content": "x"}),
    ("executeCommand", {"command": "touch made"}),
    ("readFile", {"path": "a"}),
]


class Hesitant(Authorizer):
    """Allows everything, when it is told to, and also when it is interrupted."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.asked, self.answered, self.may_answer = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self.is_stubborn = False

    async def is_authorized(self, handler: Any, user: Any, action: str, resource: str) -> bool:  # type: ignore[override]
        self.asked.set()
        try:
            await self.may_answer.wait()
        except asyncio.CancelledError:
            if not self.is_stubborn:
                raise
        finally:
            self.answered.set()
        return True


@pytest.fixture
def connect(http_server_client: Any, jp_base_url: str, jp_auth_header: dict[str, str]) -> Any:
    """Send a tool's request and give the connection, whose answer nobody reads."""

    async def connect(tool: str, parameters: dict[str, Any]) -> asyncio.StreamWriter:
        body = json.dumps(parameters).encode()
        _, writer = await asyncio.open_connection("127.0.0.1", http_server_client.get_http_port())
        head = f"POST {jp_base_url}wap/api/{tool} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n"
        head += "".join(f"{name}: {value}\r\n" for name, value in jp_auth_header.items())
        writer.write(head.encode() + b"\r\n" + body)
        return writer

    return connect


@pytest.mark.parametrize("is_stubborn", [False, True])
@pytest.mark.parametrize(("tool", "parameters"), HANGING_UP)
async def test_what_has_not_begun_when_the_client_hangs_up_does_not_begin(
    jp_serverapp: Any, extension: Any, connect: Any, fetch: Any, is_stubborn: bool, tool: str, parameters: Any
) -> None:
    begun: list[Any] = []
    extension.workspace.answer = lambda *arguments: begun.append(arguments)
    authorizer = jp_serverapp.web_app.settings["authorizer"] = Hesitant(parent=jp_serverapp)
    authorizer.is_stubborn = is_stubborn
    writer = await connect(tool, parameters)
    await asyncio.wait_for(authorizer.asked.wait(), SECONDS)
    writer.close()
    await asyncio.wait_for(authorizer.answered.wait(), SECONDS)
    authorizer.may_answer.set()
    assert (await fetch("wap/tools")).status == 200  # the loop has gone round often enough
    assert begun == []


@pytest.mark.parametrize(("tool", "parameters"), HANGING_UP)
async def test_every_operation_is_cancelled_when_the_client_hangs_up(
    extension: Any, connect: Any, fetch: Any, caplog: pytest.LogCaptureFixture, tool: str, parameters: Any
) -> None:
    begun, cancelled = asyncio.Event(), asyncio.Event()

    async def answer(operation: Any, caller: Any, encode: Any, context: Any) -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise

    extension.workspace.answer = answer
    writer = await connect(tool, parameters)
    await asyncio.wait_for(begun.wait(), SECONDS)
    writer.close()
    await asyncio.wait_for(cancelled.wait(), SECONDS)
    await until(lambda: "499 POST" in caplog.text)
    assert (await fetch("wap/tools")).status == 200
    assert "Traceback" not in caplog.text


def _alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in "ZX"
