"""POST wap/api/{tool}: one operation of WAP 1.0, its parameters as the body and the spec's response as the answer."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from wap_kernel.dialects.wap import tools as wap
from wap_kernel.model.errors import PermissionDenied, RateLimited

from . import parameters
from .base import RATES, WapHandler, verb

if TYPE_CHECKING:
    from ..tokens.rate_limits import Rates
    from ..tokens.store import AgentToken


class ToolHandler(WapHandler):
    allowed = ("POST",)
    open_to_agents = True

    _task: asyncio.Task[Any] | None = None
    _abandoned = False

    @verb
    async def post(self, name: str) -> None:
        self._task = asyncio.current_task()
        try:
            self.finish(await self._call(name))
        except asyncio.CancelledError:
            if not self._abandoned:
                raise
            self.set_status(499, "Client closed the connection")  # for the access log; nobody reads the answer
        finally:
            self._task = None

    async def _call(self, name: str) -> bytes:
        effect = wap.tool(name).effect
        workspace, caller = self.workspace, self.caller
        try:
            # Before the body is parsed: who may not use a tool need not learn what it thinks of their arguments.
            await self.authorize(effect)
        except PermissionDenied as error:
            workspace.refused(name, error, caller)
            raise
        if self._abandoned:  # before there was a task to cancel
            raise asyncio.CancelledError
        wait = parameters.seconds(self.request, "wait", 0.0)
        if self.agent is None:
            return await wap.call(name, self.take_body(), self.runner, caller, wait)
        operation = await wap.parse(name, self.take_body(), workspace, caller)
        rates: Rates = self.settings[RATES]
        try:
            async with rates.admit(self.agent, operation):
                return await wap.answer(name, operation, self.runner, caller, wait)
        except RateLimited as error:
            workspace.refused(name, error, caller)
            raise

    @property
    def asked(self) -> str:
        return str(self.path_args[0])

    def check_scope(self, agent: AgentToken) -> None:
        super().check_scope(agent)
        name = wap.tool(self.asked).name
        if not agent.scope.opens(name):
            opened = list(agent.tools or ())
            raise PermissionDenied(
                f"This agent token does not open {name}.", hint=f"It opens: {', '.join(opened)}.", allowedTools=opened
            )

    def on_connection_close(self) -> None:
        """Nobody waits for the answer any more: what has not begun does not begin, and a command is ended."""
        super().on_connection_close()
        self._abandoned = True
        if self._task is not None:
            self._task.cancel()
