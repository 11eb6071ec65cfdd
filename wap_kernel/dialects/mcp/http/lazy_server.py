"""The MCP server behind HTTP: started by the first request, on a task of its own, and closed with the application.

Importing the SDK takes most of a second, so it happens on a thread and only where a client uses MCP.
"""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Callable
from typing import TYPE_CHECKING

from wap_kernel.model.errors import ProviderUnavailable

if TYPE_CHECKING:
    from wap_kernel.dialects.mcp.http.sessions import McpSessions

_LAZY_MODULES = ("wap_kernel.dialects.mcp.server", "wap_kernel.dialects.mcp.http.sessions")


class LazyMcpServer:
    """The MCP server; `make` builds its sessions once `wap_kernel.dialects.mcp` has been imported."""

    def __init__(self, make: Callable[[], McpSessions]) -> None:
        self._make = make
        self._serving: asyncio.Task[None] | None = None
        self._started: asyncio.Future[McpSessions] | None = None
        self._ending = asyncio.Event()

    async def sessions(self) -> McpSessions:
        if self._ending.is_set():
            raise ProviderUnavailable("The server is shutting down.")
        if self._started is None:
            self._started = asyncio.get_running_loop().create_future()
            self._serving = asyncio.ensure_future(self._serve(self._started))
        return await asyncio.shield(self._started)

    async def _serve(self, started: asyncio.Future[McpSessions]) -> None:
        try:
            await asyncio.get_running_loop().run_in_executor(
                None, lambda: [*map(importlib.import_module, _LAZY_MODULES)]
            )
            from wap_kernel.dialects.mcp.http.sessions import cancel_shutdown_watchers

            sessions = self._make()
            async with sessions.run():
                started.set_result(sessions)
                await self._ending.wait()
            await cancel_shutdown_watchers()
        except Exception as error:
            if started.done():
                raise
            self._started = None  # the next request tries again
            started.set_exception(error)

    async def close(self) -> None:
        """End every session and what it has started."""
        self._ending.set()
        if self._serving is not None:
            await asyncio.wait([self._serving])
