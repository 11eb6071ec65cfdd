"""POST wap/api/{tool}: one operation of WAP 1.0, its parameters as the body and the spec's response as the answer."""

from __future__ import annotations

import asyncio

from wap_kernel.dialects import wap
from wap_kernel.errors import NotFound

from .base import WapHandler, verb


class ToolHandler(WapHandler):
    allowed = ("POST",)

    _work: asyncio.Task[bytes] | None = None
    _abandoned = False

    @verb
    async def post(self, name: str) -> None:
        tool = wap.TOOLS.get(name)
        if tool is None:
            raise NotFound(f"There is no tool {name}.", hint=f"There are: {', '.join(wap.TOOLS)}.")
        # Before the body is parsed: who may not use a tool need not learn what it thinks of their arguments.
        await self.authorize(tool.effect)
        operation = wap.parse(name, self.take_body(), self.workspace)
        self._work = asyncio.create_task(wap.perform(name, operation, self.workspace, self.caller))
        try:
            self.finish(await self._work)
        except asyncio.CancelledError:
            if not self._abandoned:
                raise
            self.set_status(499, "Client closed the connection")  # for the access log

    def on_connection_close(self) -> None:
        """Nobody waits for the answer any more: a command is ended, what is still queued is not begun."""
        super().on_connection_close()
        self._abandoned = True
        if self._work is not None:
            self._work.cancel()
