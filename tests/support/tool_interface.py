"""The workspace-tool-interface on a workspace, called as the server's handler calls it, without a server."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Awaitable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import pytest

from tests.support.git_repository import BOT, plain
from tests.support.tool_schemas import check_call
from wap_kernel.dialects.registry import open_runner
from wap_kernel.dialects.tool_interface import tool_call
from wap_kernel.dialects.tool_interface import tools as interface_tools
from wap_kernel.engine.workspace import Workspace
from wap_kernel.git.settings import GitSettings
from wap_kernel.model.caller import Caller
from wap_kernel.model.errors import Code, WapError
from wap_kernel.model.policy import Policy
from wap_kernel.model.run import Run, RunStatus
from wap_kernel.runs.decisions import Decision
from wap_kernel.state.audit.query import AuditQuery

OPEN = Policy(name="open")
AGENT = Caller(user="ada", agent="opencode", session="s1")
SECONDS = 60.0
T = TypeVar("T")


@contextmanager
def opened(folder: Path, **options: Any) -> Iterator[Interface]:
    tools = Interface(folder, **options)
    try:
        yield tools
    finally:
        tools.close()


class Interface:
    """`tools("read", file_path="a")` is the answer, compared with the tool's schema."""

    def __init__(self, folder: Path, **options: Any) -> None:
        self.root = folder / "ws"
        self.root.mkdir(exist_ok=True)
        self._loop = asyncio.new_event_loop()
        settings = {"policy": OPEN, "provider": "local", "git": GitSettings(identity=BOT), **options}
        self.provider = settings["provider"]
        self.workspace = Workspace(str(self.root), state_dir=str(folder / "state"), **settings)
        self.said: list[object] = []
        """Answers and errors since `clear`."""
        self._asking: asyncio.Queue[Run] = asyncio.Queue()
        self.runner = open_runner(self.workspace, changed=self._changed)

    def _changed(self, run: Run) -> None:
        if run.status is RunStatus.AWAITING_APPROVAL:
            self._loop.call_soon_threadsafe(self._asking.put_nowait, run)

    def close(self) -> None:
        self._wait(self.runner.close())
        self._wait(self.workspace.close())
        self._loop.close()

    def _wait(self, something: Awaitable[T]) -> T:
        return self._loop.run_until_complete(asyncio.wait_for(something, SECONDS))

    def __call__(self, tool: str, /, *, caller: Caller = AGENT, **fields: Any) -> dict[str, Any]:
        known = interface_tools.TOOLS[tool]
        answer: dict[str, Any] = json.loads(self._wait(self.send(tool, fields, caller)))
        check_call(known, fields, answer)
        self.said.append(answer)
        return answer

    async def send(self, tool: str, fields: Any, caller: Caller = AGENT, wait: float = 0.0) -> bytes:
        return await tool_call.call_tool(tool, json.dumps(fields).encode(), self.runner, caller, wait)

    def refuse(self, tool: str, /, *, caller: Caller = AGENT, **fields: Any) -> WapError:
        with pytest.raises(WapError) as caught:
            self._wait(self.send(tool, fields, caller))
        assert caught.value.code is not Code.INTERNAL_ERROR, caught.value.text
        json.dumps(caught.value.details)
        self.said.append((caught.value.code.value, caught.value.text, caught.value.details))
        return caught.value

    def decided(self, approved: bool, tool: str, /, **fields: Any) -> dict[str, Any]:
        """The answer to a call that waits while a person decides."""

        async def whole() -> bytes:
            calling = asyncio.ensure_future(self.send(tool, fields, wait=SECONDS))
            asking = await self._asking.get()
            await self.runner.decide(asking.id, Decision(approved, operation_id=tool), Caller(user="ada"))
            return await calling

        answer: dict[str, Any] = json.loads(self._wait(whole()))
        return answer

    def decided_badly(self, tool: str, /, **fields: Any) -> WapError:
        """The error of a call that a person agreed to."""
        with pytest.raises(WapError) as caught:
            self.decided(True, tool, **fields)
        return caught.value

    def forget_questions(self) -> None:
        """Those that nobody will answer."""
        self._wait(self._asking.get())

    def audit(self, limit: int = 100) -> list[dict[str, Any]]:
        """Newest first."""
        records: list[dict[str, Any]] = self._wait(self.workspace.audit_page(AuditQuery(limit=limit)))["records"]
        return records

    def clear(self) -> None:
        """An empty workspace, and nothing said."""
        for entry in list(self.root.iterdir()):
            shutil.rmtree(entry) if entry.is_dir() and not entry.is_symlink() else entry.unlink()
        self.said.clear()

    def file(self, path: str, content: str | bytes = "") -> Path:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content.encode() if isinstance(content, str) else content)
        return file

    def git(self, *arguments: str) -> str:
        """Plain git, as a person has it."""
        return plain(self.root, *arguments)

    def repository(self) -> None:
        self.file("README.md", "hello\n")
        self.git("init", "--quiet", "--initial-branch=main")
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", "first")
