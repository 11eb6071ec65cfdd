"""From the exception family to HTTP: the one table of statuses, and what Tornado's own errors mean in our codes."""

from __future__ import annotations

import json
import traceback
from collections.abc import Mapping
from http.client import responses
from types import MappingProxyType

from tornado import web

from wap_kernel.model.errors import (
    Code,
    InternalError,
    InvalidArgument,
    MethodNotAllowed,
    NotFound,
    PermissionDenied,
    ProviderUnavailable,
    TooLarge,
    Unauthenticated,
    WapError,
)

STATUS: Mapping[Code, int] = MappingProxyType(
    {
        Code.INVALID_ARGUMENT: 400,
        Code.UNAUTHENTICATED: 403,  # as Jupyter answers; 401 would have browsers ask for a password
        Code.PERMISSION_DENIED: 403,
        Code.APPROVAL_REQUIRED: 403,
        Code.FILE_NOT_FOUND: 404,
        Code.NOT_FOUND: 404,
        Code.METHOD_NOT_ALLOWED: 405,
        Code.FILE_EXISTS: 409,
        Code.CONFLICT: 409,
        Code.SIZE_LIMIT_EXCEEDED: 413,
        Code.BINARY_FILE: 415,
        Code.EDIT_NOT_FOUND: 422,
        Code.EDIT_AMBIGUOUS: 422,
        Code.EXECUTION_FAILED: 422,
        Code.TIMEOUT: 422,  # an outcome; 504 is retried by common clients and the command would run twice
        Code.RATE_LIMITED: 429,
        Code.INTERNAL_ERROR: 500,
        Code.PROVIDER_UNAVAILABLE: 503,
        Code.NO_SPACE: 507,
    }
)


_BY_STATUS: Mapping[int, type[WapError]] = MappingProxyType(
    {
        400: InvalidArgument,
        401: Unauthenticated,
        403: PermissionDenied,
        404: NotFound,
        405: MethodNotAllowed,
        413: TooLarge,
        503: ProviderUnavailable,
    }
)


def from_exception(error: BaseException | None) -> WapError:
    """The error to answer for whatever ended a request. A bug tells its story to the log, not to the caller."""
    if isinstance(error, WapError):
        return error
    if isinstance(error, web.HTTPError) and error.status_code in _BY_STATUS:
        text = error.get_message() or responses.get(error.status_code, "Refused")
        return _BY_STATUS[error.status_code](f"{text}.")
    return InternalError("Internal error.", hint="The server's log says more.")


def body(error: WapError) -> bytes:
    """`{"error", "code", "details"?}`."""
    from wap_kernel.redaction import results  # the engine is loaded with the workspace, not with the routes

    error = results.told(error)
    answer: dict[str, object] = {"error": error.text, "code": error.code.value}
    if error.details:
        answer["details"] = error.details
    # In ASCII even a name that is not valid Unicode can be written.
    return json.dumps(answer, default=str).encode("ascii")


def describe(error: BaseException) -> str:
    """A traceback for the log without the exceptions' texts: those quote paths, arguments and contents."""
    parts: list[str] = []
    current: BaseException | None = error
    while current is not None and len(parts) < 5:
        frames = "".join(traceback.format_tb(current.__traceback__))
        parts.append(f"{frames}{type(current).__module__}.{type(current).__qualname__}")
        current = current.__cause__ or current.__context__
    return "\ncaused by:\n".join(parts)
