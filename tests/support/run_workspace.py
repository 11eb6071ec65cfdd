"""A runner on a workspace, for tests: batches, decisions, restarts."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

from tests.support.time_limits import until as until
from wap_kernel.dialects.agent_spaces import operations as agent_spaces
from wap_kernel.dialects.registry import open_runner
from wap_kernel.engine.workspace import Workspace
from wap_kernel.model.caller import Caller
from wap_kernel.model.errors import NoSpace
from wap_kernel.model.run import Run
from wap_kernel.policy import presets
from wap_kernel.policy.parse import merge_policy
from wap_kernel.runs.decisions import Decision
from wap_kernel.runs.runner import Runner

ASKING = merge_policy(presets.load_preset("permissive"), {"shell": {"unconfined": "allow"}})
"""Allows what the tests do, and asks for recursive deletion."""
DELETE = {"type": "shell", "id": "delete", "command": "rm -rf data/"}
PERSON = Caller(user="ada", agent="copilot")
WAIT = 60.0
T = TypeVar("T")

Scenario = Callable[["Scene"], Awaitable[None]]


class Scene:
    """A runner on a workspace, which can be left and entered again like after a restart."""

    def __init__(self, root: Path, state: Path, **options: Any) -> None:
        self.root = root
        self.state = state
        self.options = options
        self.runner: Runner

    async def run(self, *operations: dict[str, Any], caller: Caller = PERSON, **options: Any) -> dict[str, Any]:
        run = await self.start(*operations, caller=caller, **options)
        return await self.message(await self.runner.wait(run.id, WAIT))

    async def start(self, *operations: dict[str, Any], caller: Caller = PERSON, **options: Any) -> Run:
        body = {"protocolVersion": "1.0", "operations": operations, **options}
        message = agent_spaces.parse_message(json.dumps(body).encode())
        return await self.runner.start(message.steps(), message.options(), caller, dialect="agent_spaces")

    async def message(self, run: Run) -> dict[str, Any]:
        return await self.runner.message(run, PERSON)

    async def decide(self, run_id: str, approved: bool, caller: Caller = PERSON, **more: Any) -> dict[str, Any]:
        if not more:
            more = {"operation_id": "delete"}
        run = await self.runner.decide(run_id, Decision(approved, **more), caller)
        return await self.message(await self.runner.wait(run.id, WAIT))

    def tree(self) -> dict[str, str | None]:
        found = sorted(self.root.rglob("*"))
        return {str(path.relative_to(self.root)): path.read_text() if path.is_file() else None for path in found}

    @asynccontextmanager
    async def opened(self, **more: Any) -> AsyncIterator[Scene]:
        options = {"policy": ASKING, "provider": "local", **self.options}
        workspace = Workspace(str(self.root), state_dir=str(self.state), **options)
        self.runner = open_runner(workspace, **more)
        try:
            yield self
        finally:
            await self.runner.close()
            await workspace.close()


def play(scene: Scene, scenario: Scenario, **more: Any) -> None:
    async def whole() -> None:
        async with scene.opened(**more):
            await scenario(scene)

    asyncio.run(whole())


def create(path: str, content: str = "new", **more: Any) -> dict[str, Any]:
    return {"type": "createFile", "path": path, "content": content, **more}


def types(message: dict[str, Any]) -> list[str]:
    return [event["type"] for event in message["events"]]


def fill_disk(store: Callable[..., T], failures: int) -> Callable[..., T]:
    """Return `store` for a disk that is full the first times."""
    left = iter(range(failures))

    def full(*arguments: Any, **more: Any) -> T:
        if next(left, None) is not None:
            raise NoSpace("No space left.")
        return store(*arguments, **more)

    return full
