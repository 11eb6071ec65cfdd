"""Errors as JSON-RPC errors, for messages other than tool calls."""

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

_CALL_FIELDS = ("params", "params.name", "params.arguments")
_NOT_INITIALIZED = InvalidArgument(
    "The session is not open yet.", hint="Send initialize and wait for its answer, then notifications/initialized."
)


def to_mcp_error(error: RpcError) -> MCPError:
    return MCPError(error.code, error.message, error.data)


@asynccontextmanager
async def translate_errors(tool: str) -> AsyncIterator[None]:
    """Raise errors of the block as MCP errors, worded for `tool`."""
    try:
        yield
    except WapError as error:
        raise to_mcp_error(to_rpc_error(tool, error)) from None
    except RpcError as error:
        raise to_mcp_error(error) from None


def build_error_middleware(redactor: CurrentRedactor) -> ServerMiddleware[Any]:
    """Build a middleware that explains the refusals of the SDK and redacts every answer.

    The SDK checks a message before any handler does; its refusals get a code and a hint. Credentials of the server are
    masked everywhere, also in the name of a file or of an unknown tool.
    """

    async def explain(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        try:
            result = await call_next(ctx)
        except ValidationError as error:
            failure = to_mcp_error(to_rpc_error(ctx.method, _describe_mismatch(ctx.method, error)))
        except MCPError as error:
            is_too_early = error.code == INVALID_PARAMS and not error.error.data
            failure = to_mcp_error(to_rpc_error(ctx.method, _NOT_INITIALIZED)) if is_too_early else error
        else:
            return result if redactor.has_no_secrets else redact_value(result, redactor.mask_known)
        data = sdk_errors.explain_error(failure.error)
        if not redactor.has_no_secrets:
            data = ErrorData.model_validate(redact_value(data.model_dump(), redactor.mask_known))
        raise MCPError(data.code, data.message, data.data) from None

    return explain


def _describe_mismatch(method: str, error: ValidationError) -> InvalidArgument:
    problem = describe_validation_error(error, BaseModel)
    problem.hint = f"Correct the params of {method} and send it again; MCP says what they are."
    if method == "tools/call" and problem.details["problems"][0]["field"] in _CALL_FIELDS:
        problem.hint = 'params is an object: {"name": a tool, "arguments": an object}. tools/list has both.'
    return problem
