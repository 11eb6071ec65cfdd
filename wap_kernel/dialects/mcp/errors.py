"""Errors of the engine as JSON-RPC errors, where a message is not a tool call that shows them to a model."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from mcp.server.context import CallNext, HandlerResult, ServerMiddleware, ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp_types import ErrorData
from pydantic import BaseModel, ValidationError

from wap_kernel.dialects.coding_environment.rpc_errors import INVALID_PARAMS, RpcError, to_rpc_error
from wap_kernel.dialects.mcp import sdk_errors
from wap_kernel.dialects.tool import describe_validation_error
from wap_kernel.model.errors import InvalidArgument, WapError
from wap_kernel.redaction.results import CurrentRedactor, redact_value

_OF_A_CALL = ("params", "params.name", "params.arguments")
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
        raise as_sent(to_rpc_error(tool, error)) from None
    except RpcError as error:
        raise as_sent(error) from None


def explaining(redactor: CurrentRedactor) -> ServerMiddleware[Any]:
    """What the SDK itself refuses is told like the rest, with what to do: it sees what does not fit the protocol before
    any handler does. And no credential of the server leaves, not as the name of a file or of a tool that is none."""

    async def explained(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        try:
            result = await call_next(ctx)
        except ValidationError as error:
            failure = as_sent(to_rpc_error(ctx.method, _misfit(ctx.method, error)))
        except MCPError as error:
            is_too_early = error.code == INVALID_PARAMS and not error.error.data
            failure = as_sent(to_rpc_error(ctx.method, _NOT_OPENED)) if is_too_early else error
        else:
            return result if redactor.has_no_secrets else redact_value(result, redactor.mask_known)
        told = sdk_errors.told(failure.error)
        if not redactor.has_no_secrets:
            told = ErrorData.model_validate(redact_value(told.model_dump(), redactor.mask_known))
        raise MCPError(told.code, told.message, told.data) from None

    return explained


def _misfit(method: str, error: ValidationError) -> InvalidArgument:
    problem = describe_validation_error(error, BaseModel)
    problem.hint = f"Correct the params of {method} and send it again; MCP says what they are."
    if method == "tools/call" and problem.details["problems"][0]["field"] in _OF_A_CALL:
        problem.hint = 'params is an object: {"name": a tool, "arguments": an object}. tools/list has both.'
    return problem
