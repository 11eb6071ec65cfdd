"""POST wap/api/{tool}: one operation of WAP 1.0, its parameters as the body and the spec's response as the answer."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from wap_kernel.dialects import wap
from wap_kernel.errors import NotFound
from wap_kernel.operations import Effect

from .base import WapHandler, verb


class ToolHandler(WapHandler):
    allowed = ("POST",)

    _command: asyncio.Task[bytes] | None = None
    _abandoned = False

    @verb
    async def post(self, name: str) -> None:
        tool = wap.TOOLS.get(name)
        if tool is None:
            raise NotFound(f"There is no tool {name}.", hint=f"There are: {', '.join(wap.TOOLS)}.")
        # Before the body is parsed: who may not use a tool need not learn what it thinks of their arguments.
        await self.authorize(tool.effect)
        operation = wap.parse(name, self.take_body(), self.workspace)
        work = wap.perform(name, operation, self.workspace, self.caller)
        # A task of its own costs two turns of the loop, so only what is worth ending gets one.
        self.finish(await (self._until_abandoned(work) if tool.effect is Effect.EXECUTE else work))

    async def _until_abandoned(self, work: Coroutine[Any, Any, bytes]) -> bytes:
        self._command = asyncio.create_task(work)
        try:
            return await self._command
        except asyncio.CancelledError:
            if not self._abandoned:
                raise
            self.set_status(499, "Client closed the connection")  # for the access log; nobody reads the answer
            return b""

    def on_connection_close(self) -> None:
        """Nobody waits for the answer any more: the command is ended."""
        super().on_connection_close()
        self._abandoned = True
        if self._command is not None:
            self._command.cancel()
