"""The Coding Environment's tools on a workspace, called as an MCP server calls them, without one."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.support.time_limits import until as until
from tests.support.tool_schemas import check_call
from wap_kernel.dialects.coding_environment import tool_call
from wap_kernel.dialects.coding_environment import tools as coding_tools
from wap_kernel.dialects.coding_environment.confirmation_prompt import ConfirmationPrompt
from wap_kernel.dialects.coding_environment.outcome import CallOutcome
from wap_kernel.dialects.coding_environment.rpc_errors import RpcError
from wap_kernel.dialects.registry import open_runner
from wap_kernel.engine.workspace import Workspace
from wap_kernel.model.caller import Caller
from wap_kernel.model.policy import Policy
from wap_kernel.model.run import RunStatus
from wap_kernel.runs.decisions import Decision
from wap_kernel.runs.runner import Runner

OPEN = Policy(name="open")
CLIENT = Caller(user="ada", agent="claude", session="s1")
WAIT = 30.0

Scenario = Callable[["Coding"], Awaitable[None]]


class Coding:
    """Every answer is compared with the tool's schemas."""

    def __init__(self, root: Path, state: Path) -> None:
        self.root = root
        self.state = state
        self.runner: Runner

    @property
    def workspace(self) -> Workspace:
        return self.runner.workspace

    async def outcome(self, name: str, arguments: dict[str, Any], **more: Any) -> CallOutcome:
        caller = more.pop("caller", CLIENT)
        return await tool_call.call_tool(name, arguments, self.runner, caller, **more)

    async def call(self, name: str, arguments: dict[str, Any], **more: Any) -> dict[str, Any]:
        outcome = await self.outcome(name, arguments, **more)
        assert outcome.error is None, outcome.text
        answer = outcome.structured
        assert json.loads(outcome.text) == answer
        tool = coding_tools.TOOLS[name]
        check_call(tool, arguments, answer)
        return answer

    async def refuse(self, name: str, arguments: dict[str, Any], **more: Any) -> RpcError:
        error = await self._get_error(name, arguments, **more)
        assert error.data["hint"]
        return error

    async def fail(self, name: str, arguments: dict[str, Any], **more: Any) -> dict[str, Any]:
        """Return the text, the code and the details of the error of a call, which may have no hint."""
        error = await self._get_error(name, arguments, **more)
        details = {key: value for key, value in error.data.items() if key not in ("code", "hint")}
        return {"error": error.message, "code": error.data["code"], "details": details}

    async def _get_error(self, name: str, arguments: dict[str, Any], **more: Any) -> RpcError:
        try:
            outcome = await self.outcome(name, arguments, **more)
        except RpcError as error:  # there is no such tool
            return error
        assert outcome.error is not None, outcome.text
        assert json.loads(outcome.text) == outcome.structured == {"error": vars(outcome.error)}
        assert more.get("is_bug") or outcome.error.data["code"] != "INTERNAL_ERROR", outcome.error.message
        return outcome.error

    async def waiting(self) -> str:
        """The run that asks, as soon as there is one."""
        while True:
            runs, _ = await self.runner.page(CLIENT, RunStatus.AWAITING_APPROVAL, 1, None)
            if runs:
                return runs[0].id
            await asyncio.sleep(0.01)

    async def decide(self, run_id: str, approved: bool) -> None:
        run = await self.runner.get(run_id, CLIENT)
        await self.runner.decide(run_id, Decision(approved, operation_id=run.steps[0].id), Caller(user="ada"))

    def policy(self, folder: str = ".", **fields: Any) -> None:
        (self.root / folder / ".cws-policy.json").write_text(json.dumps(fields))

    @asynccontextmanager
    async def opened(self, **options: Any) -> AsyncIterator[Coding]:
        options = {"policy": OPEN, "provider": "local", **options}
        workspace = Workspace(str(self.root), state_dir=str(self.state), **options)
        self.runner = open_runner(workspace)
        try:
            yield self
        finally:
            await self.runner.close()
            await workspace.close()


def play(coding: Coding, scenario: Scenario, **options: Any) -> None:
    async def whole() -> None:
        async with coding.opened(**options):
            await asyncio.wait_for(scenario(coding), 2 * WAIT)

    asyncio.run(whole())


class User:
    """Of the client; says the same to every question, and remembers them."""

    def __init__(self, agrees: bool, meanwhile: Callable[[], Any] = lambda: None) -> None:
        self.asked: list[ConfirmationPrompt] = []
        self._agrees = agrees
        self._meanwhile = meanwhile

    async def confirm(self, question: ConfirmationPrompt) -> bool:
        self.asked.append(question)
        self._meanwhile()
        return self._agrees
