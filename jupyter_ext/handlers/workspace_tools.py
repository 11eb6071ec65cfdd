"""POST wap/workspace/{tool}: one call of the workspace-tool-interface."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from wap_kernel.dialects import tool_interface
from wap_kernel.model.errors import PermissionDenied, RateLimited
from wap_kernel.model.operations import Effect

from . import parameters
from .base import RATES
from .tools import ToolHandler

if TYPE_CHECKING:
    from ..tokens.rate_limits import Rates
    from ..tokens.store import AgentToken


class WorkspaceToolHandler(ToolHandler):
    async def _call(self, name: str) -> bytes:
        least = tool_interface.tool(name).least_effect
        # Before the body is parsed: who may not use a tool need not learn what it thinks of their arguments.
        await self._authorized(name, least)
        if self._abandoned:  # before there was a task to cancel
            raise asyncio.CancelledError
        wait = parameters.seconds(self.request, "wait", 0.0)
        caller = self.caller
        operation = await tool_interface.parse(name, self.take_body(), self.workspace, caller)
        if operation.effect is not least:
            await self._authorized(name, operation.effect)
        if self.agent is None:
            return await tool_interface.answer(name, operation, self.runner, caller, wait)
        rates: Rates = self.settings[RATES]
        try:
            async with rates.admit(self.agent, operation):
                return await tool_interface.answer(name, operation, self.runner, caller, wait)
        except RateLimited as error:
            self.workspace.refused(name, error, caller)
            raise

    async def _authorized(self, name: str, effect: Effect) -> None:
        try:
            await self.authorize(effect)
        except PermissionDenied as error:
            self.workspace.refused(name, error, self.caller)
            raise

    def check_scope(self, agent: AgentToken) -> None:
        tool = tool_interface.tool(self.asked)
        if not tool.is_opened_by(agent.scope.tools):
            opened = list(agent.tools or ())
            raise PermissionDenied(
                f"This agent token does not open {tool.name}.",
                hint=f"It opens: {', '.join(opened)}.",
                allowedTools=opened,
            )
