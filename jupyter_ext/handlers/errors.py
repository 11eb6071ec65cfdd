"""Errors as HTTP responses: the table of statuses, the JSON body, and the mixin that writes them."""

from __future__ import annotations

import json
import math
import traceback
from collections.abc import Mapping
from http.client import responses
from types import MappingProxyType, TracebackType
from typing import Any

from jupyter_server.base.handlers import APIHandler
from tornado import web

from wap_kernel.model.errors import (
    Code,
    InternalError,
    InvalidArgument,
    MethodNotAllowed,
    NotFound,
    PermissionDenied,
    ProviderUnavailable,
    RateLimited,
    TooLarge,
    Unauthenticated,
    WapError,
)

from .request_body import BodyReader

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
    """Return the error that answers a request which ended with `error`; the text of a bug goes to the log only."""
    if isinstance(error, WapError):
        return error
    if isinstance(error, web.HTTPError) and error.status_code in _BY_STATUS:
        text = error.get_message() or responses.get(error.status_code, "Refused")
        return _BY_STATUS[error.status_code](f"{text}.")
    return InternalError("Internal error.", hint="The server's log says more.")


def encode(error: WapError) -> bytes:
    """Encode an error as JSON: `{"error", "code", "details"?}`."""
    from wap_kernel.redaction import results  # the engine is loaded with the workspace, not with the routes

    error = results.redact_outgoing(error)
    answer: dict[str, object] = {"error": error.text, "code": error.code.value}
    if error.details:
        answer["details"] = error.details
    # ASCII can encode even a file name that is not valid Unicode.
    return json.dumps(answer, default=str).encode("ascii")


def format_traceback(error: BaseException) -> str:
    """Format a traceback for the log without the texts of exceptions: they quote paths, arguments and contents."""
    parts: list[str] = []
    current: BaseException | None = error
    while current is not None and len(parts) < 5:
        frames = "".join(traceback.format_tb(current.__traceback__))
        parts.append(f"{frames}{type(current).__module__}.{type(current).__qualname__}")
        current = current.__cause__ or current.__context__
    return "\ncaused by:\n".join(parts)


class ErrorResponses(BodyReader, APIHandler):
    """Write every error of a handler as JSON."""

    allowed: tuple[str, ...] = ()
    """The methods of the route, for the Allow header."""

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        _, exception, _ = kwargs.get("exc_info") or (None, web.HTTPError(status_code), None)
        if not self.is_read:
            self.set_header("Connection", "close")  # Tornado closes it and does not say so
        self.finish(self._error_body(from_exception(exception)))

    def compute_etag(self) -> None:
        """Return no ETag: every answer is made for one request, and hashing a megabyte would block the event loop."""

    def write_refusal(self, error: WapError) -> None:
        body = self._error_body(error)
        self.set_header("Content-Type", "application/json")
        self.set_header("Content-Length", len(body))
        self.write(body)

    def _error_body(self, error: WapError) -> bytes:
        self.set_error_headers(error)
        return encode(error)

    def set_error_headers(self, error: WapError) -> None:
        """Set the status and headers of an error response."""
        self.set_status(STATUS[error.code])
        if isinstance(error, MethodNotAllowed):
            self.set_header("Allow", ", ".join((*self.allowed, "OPTIONS")))
        if isinstance(error, RateLimited):
            self.set_header("Retry-After", math.ceil(error.details["retryAfterMs"] / 1000))
        if getattr(self, "_jupyter_current_user", None) is not None:
            self.set_cors_headers()  # Tornado has cleared them; a page that may read answers may read errors

    def log_exception(
        self, typ: type[BaseException] | None, value: BaseException | None, tb: TracebackType | None
    ) -> None:
        """Log bugs only: a refusal stands in the access log, and its text quotes the caller."""
        if value is not None and isinstance(from_exception(value), InternalError):
            self.log.error("Error in %s %s\n%s", self.request.method, self.request.path, format_traceback(value))
