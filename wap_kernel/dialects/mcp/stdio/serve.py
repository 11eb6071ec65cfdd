"""`wap mcp DIR`: the MCP server at standard input and output, with the engine in this process."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Mapping
from typing import Any

from mcp.server.lowlevel import Server

from wap_kernel.dialects.coding_environment.tools import check_tool_names
from wap_kernel.dialects.mcp.identity import LocalRequester
from wap_kernel.dialects.mcp.server import build_server
from wap_kernel.dialects.mcp.stdio import line_reader
from wap_kernel.dialects.mcp.subscriptions import ResourceChanges
from wap_kernel.dialects.registry import open_runner
from wap_kernel.engine.open_workspace import open_workspace


async def serve(root: str, settings: Mapping[str, Any], stop: asyncio.Event) -> None:
    """Serve until the client closes its end, or `stop` is set."""
    only, wait = check_tool_names(settings.get("mcp_tools", ())), float(settings.get("mcp_wait", 0.0))
    changes = ResourceChanges()
    workspace = open_workspace(root, settings, changed=lambda operation, *_: changes.announce(operation))
    runner = open_runner(workspace)
    try:
        requester = LocalRequester(secrets.token_hex(8))
        server = build_server(runner, lambda _: requester, changes, only=only, wait=wait)
        serving = asyncio.ensure_future(_serve(server))
        stopping = asyncio.ensure_future(stop.wait())
        await asyncio.wait({serving, stopping}, return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        if serving.done():
            serving.result()
    finally:
        await runner.close()
        await workspace.close()


async def _serve(server: Server[Any]) -> None:
    async with line_reader.open_stdio() as (read, write):
        await server.run(read, write, server.create_initialization_options())
