"""Errors of the engine as JSON-RPC errors, where a message is not a tool call that shows them to a model."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.shared.exceptions import MCPError
from pydantic import BaseModel, ValidationError

from wap_kernel.dialects.coding_environment.rpc_errors import INVALID_PARAMS, RpcError, rpc_error
from wap_kernel.dialects.tools import invalid
from wap_kernel.errors import InvalidArgument, WapError

_NOT_OPENED = InvalidArgument(
    "The session is not open yet.", hint="Send initialize and wait for its answer, then notifications/initialized."
)


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


async def explained(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
    """A middleware: what the SDK itself refuses is told like the rest, with what to do. It sees what does not fit the
    protocol before any handler does."""
    try:
        return await call_next(ctx)
    except ValidationError as error:
        problem = invalid(error, BaseModel)
        problem.hint = f"Correct the params of {ctx.method} and send it again; MCP says what they are."
        if ctx.method == "tools/call":
            problem.hint = 'params is an object: {"name": a tool, "arguments": an object}. tools/list has both.'
        raise as_sent(rpc_error(ctx.method, problem)) from None
    except MCPError as error:
        if error.code == INVALID_PARAMS and not error.error.data:
            raise as_sent(rpc_error(ctx.method, _NOT_OPENED)) from None
        raise
