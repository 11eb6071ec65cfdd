"""A workspace in a temporary folder, called through the WAP dialect as a server would, without a server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from wap_kernel.dialects.registry import open_runner
from wap_kernel.dialects.wap import tools as wap
from wap_kernel.engine.workspace import Workspace
from wap_kernel.model.caller import Caller
from wap_kernel.model.errors import Code, WapError
from wap_kernel.model.policy import Policy

OPEN = Policy(name="open")
"""Restricts nothing: for tests of everything but policy."""


class Tools:
    """`tools.readFile(path="a")` answers a dict or raises a WapError."""

    def __init__(self, workspace: Workspace, root: Path, outside: Path, state: Path) -> None:
        self.workspace = workspace
        self.root = root
        self.outside = outside
        self.state = state

    def call(self, tool: str, **parameters: Any) -> dict[str, Any]:
        body = json.dumps(parameters).encode()
        answer: dict[str, Any] = json.loads(asyncio.run(self.send(tool, body)))
        return answer

    async def send(self, tool: str, body: bytes) -> bytes:
        runner = open_runner(self.workspace)
        try:
            return await wap.call_tool(tool, body, runner, Caller(user="tester"))
        finally:
            await runner.close()

    def refuse(self, tool: str, **parameters: Any) -> WapError:
        with pytest.raises(WapError) as caught:
            self.call(tool, **parameters)
        assert caught.value.code is not Code.INTERNAL_ERROR
        return caught.value

    def __getattr__(self, tool: str) -> Callable[..., dict[str, Any]]:
        if tool not in wap.TOOLS:
            raise AttributeError(tool)
        return lambda **parameters: self.call(tool, **parameters)


@pytest.fixture
def make_tools(tmp_path: Path) -> Iterator[Callable[..., Tools]]:
    opened: list[Workspace] = []

    def make(root: Path | None = None, *, state: Path | None = None, **options: Any) -> Tools:
        root = root or tmp_path / "ws"
        outside = tmp_path / "outside"
        root.mkdir(exist_ok=True)
        outside.mkdir(exist_ok=True)
        state = state or tmp_path / "state"
        workspace = Workspace(str(root), state_dir=str(state), **{"policy": OPEN, "provider": "local", **options})
        opened.append(workspace)
        return Tools(workspace, root, outside, state)

    yield make
    for workspace in opened:
        asyncio.run(workspace.close())


@pytest.fixture
def tools(make_tools: Callable[..., Tools]) -> Tools:
    return make_tools()
