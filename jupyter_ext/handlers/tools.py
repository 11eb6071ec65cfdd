"""POST wap/api/{tool} and wap/workspace/{tool}: call one tool of WAP 1.0 or of the workspace-tool-interface."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from wap_kernel.dialects.tool_interface import tool_call
from wap_kernel.dialects.wap import tools as wap
from wap_kernel.model.errors import ExecutionFailed, PermissionDenied, ProviderUnavailable, RateLimited
from wap_kernel.model.operations import Effect, Operation

from . import parameters
from .base import RATE_LIMITER, WapHandler, verb

if TYPE_CHECKING:
    from ..tokens.models import AgentToken
    from ..tokens.rate_limits import RateLimiter


class ToolHandler(WapHandler):
    """Call one tool of WAP 1.0; the body holds its parameters, the answer is the response of the spec."""

    allowed = ("POST",)
    open_to_agents = True

    _task: asyncio.Task[Any] | None = None
    _is_disconnected = False

    @verb
    async def post(self, name: str) -> None:
        self._task = asyncio.current_task()
        try:
            self.finish(await self._call(name))
        except asyncio.CancelledError:
            if not self._is_disconnected:
                raise
            self.set_status(499, "Client closed the connection")  # for the access log; nobody reads the answer
        finally:
            self._task = None

    async def _call(self, name: str) -> bytes:
        caller = self.caller
        await self._authorize_call(name, wap.find_tool(name).effect)
        wait = parameters.get_seconds(self.request, "wait", 0.0)
        if self.agent is None:
            return await wap.call_tool(name, self.take_body(), self.runner, caller, wait)
        operation = await wap.parse_request(name, self.take_body(), self.workspace, caller)
        async with self._limit_rate(name, operation):
            return await wap.answer_request(name, operation, self.runner, caller, wait)

    async def _authorize_call(self, name: str, effect: Effect) -> None:
        """Ask the authorizer before the body is parsed: a caller it refuses learns nothing about their arguments."""
        try:
            await self.authorize(effect)
        except PermissionDenied as error:
            self.workspace.audit_refusal(name, error, self.caller)
            raise
        if self._is_disconnected:  # the client went before there was a task to cancel
            raise asyncio.CancelledError

    @asynccontextmanager
    async def _limit_rate(self, name: str, operation: Operation) -> AsyncIterator[None]:
        if self.agent is None:
            yield
            return
        limiter: RateLimiter = self.settings[RATE_LIMITER]
        try:
            async with limiter.admit(self.agent, operation):
                yield
        except RateLimited as error:
            self.workspace.audit_refusal(name, error, self.caller)
            raise
        except (ExecutionFailed, ProviderUnavailable):
            await self.verify_agent()  # says so where the call was ended because its token was revoked
            raise

    @property
    def requested_action(self) -> str:
        return str(self.path_args[0])

    def check_scope(self, agent: AgentToken) -> None:
        super().check_scope(agent)
        name = wap.find_tool(self.requested_action).name
        if not agent.scope.allows(name):
            raise _outside_scope(name, agent)

    def on_connection_close(self) -> None:
        """Cancel the call: an operation that has not begun does not begin, and a command is ended."""
        super().on_connection_close()
        self._is_disconnected = True
        if self._task is not None:
            self._task.cancel()


class WorkspaceToolHandler(ToolHandler):
    """Call one tool of the workspace-tool-interface."""

    async def _call(self, name: str) -> bytes:
        least = tool_call.find_tool(name).least_effect
        await self._authorize_call(name, least)
        wait = parameters.get_seconds(self.request, "wait", 0.0)
        caller = self.caller
        operation = await tool_call.parse_request(name, self.take_body(), self.workspace, caller)
        if operation.effect is not least:
            await self._authorize_call(name, operation.effect)
        async with self._limit_rate(name, operation):
            return await tool_call.answer_request(name, operation, self.runner, caller, wait)

    def check_scope(self, agent: AgentToken) -> None:
        tool = tool_call.find_tool(self.requested_action)
        if not tool.is_opened_by(agent.scope.tools):
            raise _outside_scope(tool.name, agent)


def _outside_scope(name: str, agent: AgentToken) -> PermissionDenied:
    opened = list(agent.tools or ())
    return PermissionDenied(
        f"This agent token does not open {name}.", hint=f"The token opens: {', '.join(opened)}.", allowedTools=opened
    )
