"""Errors of the engine as JSON-RPC errors, where a message is not a tool call that shows them to a model."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from mcp.shared.exceptions import MCPError

from wap_kernel.dialects.coding_environment.rpc_errors import RpcError, rpc_error
from wap_kernel.errors import WapError


def as_sent(error: RpcError) -> MCPError:
    return MCPError(error.code, error.message, error.data)


@asynccontextmanager
async def as_errors(tool: str) -> AsyncIterator[None]:
    """As those of `tool` are told."""
    try:
        yield
    except WapError as error:
        raise as_sent(rpc_error(tool, error)) from None
    except RpcError as error:
        raise as_sent(error) from None
