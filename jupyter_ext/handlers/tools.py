"""POST wap/api/{tool}: one operation of WAP 1.0, its parameters as the body and the spec's response as the answer."""

from __future__ import annotations

import asyncio
from typing import Any

from wap_kernel.dialects import wap
from wap_kernel.errors import PermissionDenied, WapError

from . import errors
from .base import WapHandler, verb


class ToolHandler(WapHandler):
    allowed = ("POST",)

    _task: asyncio.Task[Any] | None = None
    _abandoned = False

    @verb
    async def post(self, name: str) -> None:
        self._task = asyncio.current_task()
        try:
            self.finish(await self._call(name))
        except WapError as error:
            if not errors.is_large(error):
                raise
            await self.finish_large_error(error)
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
        return await wap.call(name, self.take_body(), workspace, caller)

    def on_connection_close(self) -> None:
        """Nobody waits for the answer any more: what has not begun does not begin, and a command is ended."""
        super().on_connection_close()
        self._abandoned = True
        if self._task is not None:
            self._task.cancel()
