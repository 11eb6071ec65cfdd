"""The MCP server behind HTTP: begun by the first request, on a task of its own, and ended with the application.

Importing the SDK takes most of a second, so it happens on a thread and only where somebody speaks MCP.
"""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Callable
from typing import TYPE_CHECKING

from wap_kernel.model.errors import ProviderUnavailable

if TYPE_CHECKING:
    from wap_kernel.dialects.mcp.http.sessions import McpSessions

_HEAVY = ("wap_kernel.dialects.mcp.server", "wap_kernel.dialects.mcp.http.sessions")


class LazyMcpServer:
    """`make` builds the sessions once `wap_kernel.dialects.mcp` has been imported."""

    def __init__(self, make: Callable[[], McpSessions]) -> None:
        self._make = make
        self._serving: asyncio.Task[None] | None = None
        self._begun: asyncio.Future[McpSessions] | None = None
        self._ending = asyncio.Event()

    async def sessions(self) -> McpSessions:
        if self._ending.is_set():
            raise ProviderUnavailable("The server is shutting down.")
        if self._begun is None:
            self._begun = asyncio.get_running_loop().create_future()
            self._serving = asyncio.ensure_future(self._serve(self._begun))
        return await asyncio.shield(self._begun)

    async def _serve(self, begun: asyncio.Future[McpSessions]) -> None:
        try:
            await asyncio.get_running_loop().run_in_executor(None, lambda: [*map(importlib.import_module, _HEAVY)])
            from wap_kernel.dialects.mcp.http.sessions import end_watch

            sessions = self._make()
            async with sessions.run():
                begun.set_result(sessions)
                await self._ending.wait()
            await end_watch()
        except Exception as error:
            if begun.done():
                raise
            self._begun = None  # the next who asks tries again
            begun.set_exception(error)

    async def close(self) -> None:
        """End every session and what it has begun."""
        self._ending.set()
        if self._serving is not None:
            await asyncio.wait([self._serving])
