"""`wap mcp --url` before a server that forgets its sessions, as one does that was started again."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from tests.support.mcp_clients import INITIALIZE, mcp_url, request, within_time

__all__ = ["mcp_url"]


class Bridge:
    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def say(self, message: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(message).encode() + b"\n")
        await self._process.stdin.drain()

    async def ask(self, message: dict[str, Any]) -> dict[str, Any]:
        assert self._process.stdout is not None
        await self.say(message)
        while True:
            answer: dict[str, Any] = json.loads(await within_time(self._process.stdout.readline()))
            if answer.get("id") == message["id"]:
                return answer


@asynccontextmanager
async def _bridge(url: str, token: str) -> AsyncIterator[Bridge]:
    pipe = asyncio.subprocess.PIPE
    command = [sys.executable, "-m", "wap_kernel.cli", "mcp", "--url", url]
    process = await asyncio.create_subprocess_exec(
        *command, stdin=pipe, stdout=pipe, limit=2**24, env={"WAP_TOKEN": token, "PYTHONPATH": ":".join(sys.path)}
    )
    try:
        yield Bridge(process)
    finally:
        await within_time(process.communicate(b""))


async def test_a_forgotten_session_is_begun_anew(mcp_url: str, jp_serverapp: Any, extension: Any) -> None:
    async with _bridge(mcp_url, jp_serverapp.identity_provider.token) as bridge:
        assert "result" in await bridge.ask(INITIALIZE)
        await bridge.say({"jsonrpc": "2.0", "method": "notifications/initialized"})
        assert "result" in await bridge.ask(request("tools/list", 1))
        sessions = extension.open_mcp()
        (session,) = sessions._sessions.values()
        sessions.end(session)
        for number in (2, 3):
            call = request("tools/call", number, name="getWorkspaceInfo", arguments={})
            answered = await bridge.ask(call)
            assert answered["result"]["structuredContent"]["root"] == extension.runner.workspace.root
        assert sessions.open == 1 and session.id not in sessions._sessions
