"""Explain the SDK's own refusals: add a code and a hint, and quote little of the message."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from mcp_types import INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST, PARSE_ERROR, ErrorData, JSONRPCError, RequestId
from pydantic import ValidationError

from wap_kernel.dialects.agent_spaces.event_writer import _escape_surrogates
from wap_kernel.model.errors import Code, WapError
from wap_kernel.model.limits import MCP_MAX_ERROR_CHARACTERS

SHAPE = 'A message is one JSON object: {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": an object}.'
UNICODE = "Send JSON in UTF-8; every \\ud800 to \\udfff in a string is half of a pair."
BEGIN = "Send initialize without Mcp-Session-Id, and what it answers there with every request of the session."


@dataclass(frozen=True)
class _KnownRefusal:
    """A refusal of the SDK, known by the start of its message."""

    start: str
    code: Code
    hint: str
    message: str | None = None
    """The message to send instead of the SDK's."""


_BY_MESSAGE = (
    _KnownRefusal("Parse error", Code.INVALID_ARGUMENT, UNICODE),
    _KnownRefusal("Validation error", Code.INVALID_ARGUMENT, SHAPE, "The body is no JSON-RPC message."),
    _KnownRefusal("Body must be a single JSON-RPC", Code.INVALID_ARGUMENT, SHAPE),
    _KnownRefusal(
        "params._meta", Code.INVALID_ARGUMENT, "From 2026-07-28 on every request has there what MCP demands."
    ),
    _KnownRefusal("the protocol-version envelope", Code.INVALID_ARGUMENT, "Name a version of MCP, as 2026-07-28."),
    _KnownRefusal("Session not found", Code.NOT_FOUND, f"It has ended, or is another's. {BEGIN}"),
    _KnownRefusal("Not Found: ", Code.NOT_FOUND, f"It has ended. {BEGIN}"),
    _KnownRefusal("Bad Request: Missing session ID", Code.INVALID_ARGUMENT, BEGIN),
    _KnownRefusal("Too many open sessions", Code.RATE_LIMITED, "End some with DELETE, or try again later."),
    _KnownRefusal("Subscription limit reached", Code.RATE_LIMITED, "End some streams, or try again later."),
    _KnownRefusal("Not Acceptable", Code.INVALID_ARGUMENT, "Send Accept: application/json, text/event-stream."),
    _KnownRefusal("Invalid Content-Type", Code.INVALID_ARGUMENT, "Send Content-Type: application/json."),
    _KnownRefusal("Unsupported Media Type", Code.INVALID_ARGUMENT, "Send Content-Type: application/json."),
    _KnownRefusal("Unsupported protocol version", Code.INVALID_ARGUMENT, "Speak one of those in data.supported."),
    _KnownRefusal("Conflict: ", Code.CONFLICT, "Close the other stream of this session first."),
    _KnownRefusal("Method Not Allowed", Code.METHOD_NOT_ALLOWED, "From 2026-07-28 on everything is sent by POST."),
    _KnownRefusal("Method not found", Code.NOT_FOUND, "initialize and server/discover tell what there is."),
)
_MISMATCH = "What the headers Mcp-Protocol-Version, Mcp-Method and Mcp-Name say is what the body says."
_BY_NUMBER: Mapping[int, tuple[Code, str]] = {
    -32020: (Code.INVALID_ARGUMENT, _MISMATCH),
    INTERNAL_ERROR: (Code.INTERNAL_ERROR, "Try again; if it stays so, tell the user about it."),
}
_OTHERWISE = (Code.INVALID_ARGUMENT, "Correct it as MCP has it, and send it again.")

_FIRST_MEMBERS = re.compile(
    r'\s*\{(?:\s*"(?:jsonrpc|method)"\s*:\s*"[^"\\]*"\s*,)*\s*"id"\s*:\s*(-?\d{1,15}|"[^"\\]{0,200}")\s*[,}]'
)
"""A message whose id stands before any value that could hold another id."""


def explain_error(error: ErrorData) -> ErrorData:
    """Add a code and a hint to an error of the SDK; an error that has a code stays as it is.

    The message stays, too, where clients know it.
    """
    data = error.data if isinstance(error.data, Mapping) else {}
    if "code" in data:
        return error
    known = next((known for known in _BY_MESSAGE if error.message.startswith(known.start)), None)
    code, hint = (known.code, known.hint) if known is not None else _BY_NUMBER.get(error.code, _OTHERWISE)
    message = (known.message if known is not None else None) or error.message
    text = _escape_surrogates(_truncate(message))
    return ErrorData(code=error.code, message=text, data={**data, "code": code.value, "hint": hint})


def _truncate(text: str) -> str:
    return text if len(text) <= MCP_MAX_ERROR_CHARACTERS else f"{text[:MCP_MAX_ERROR_CHARACTERS]}..."


def explain_response(status: int, body: bytes) -> bytes:
    """Build the body of an HTTP error response; the SDK's own may be empty or no JSON."""
    try:
        refusal = JSONRPCError.model_validate_json(body)
    except ValidationError:
        text = body.decode("utf-8", "replace") or HTTPStatus(status).phrase
        refusal = JSONRPCError(jsonrpc="2.0", id=None, error=ErrorData(code=INVALID_REQUEST, message=text))
    answer = JSONRPCError(jsonrpc="2.0", id=refusal.id, error=explain_error(refusal.error))
    return answer.model_dump_json(by_alias=True, exclude_unset=True).encode()


def _find_id(line: str) -> int | str | None:
    """Find the id of a message that is not JSON, if it can be known."""
    match = _FIRST_MEMBERS.match(line)
    try:
        return None if match is None else json.loads(match[1])
    except ValueError:  # 007
        return None


def explain_line(line: str) -> tuple[JSONRPCError, bool]:
    """Return the error for a line that is no message, and whether the line was meant as an answer to the server."""
    try:
        message = json.loads(line)
        is_text = _is_unicode(message)
    except (ValueError, RecursionError):
        return _build_error(PARSE_ERROR, "The message is not JSON.", SHAPE, _find_id(line)), False
    if not isinstance(message, dict):
        return _build_error(INVALID_REQUEST, "It is no JSON-RPC message.", SHAPE, None), False
    number, is_answer = message.get("id"), "method" not in message and ("result" in message or "error" in message)
    if isinstance(number, bool) or not isinstance(number, int | str):
        number = None
    if not is_text:
        return _build_error(PARSE_ERROR, "The message is not Unicode.", UNICODE, number), is_answer
    if isinstance(message.get("method"), str) and not isinstance(message.get("params", {}), dict):
        return _build_error(INVALID_PARAMS, "params: It is not an object.", SHAPE, number), is_answer
    return _build_error(INVALID_REQUEST, "It is no JSON-RPC message.", SHAPE, number), is_answer


def _is_unicode(value: Any) -> bool:
    try:
        json.dumps(value, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _build_error(number: int, message: str, hint: str, request: RequestId | None) -> JSONRPCError:
    data: dict[str, Any] = {"code": Code.INVALID_ARGUMENT.value, "hint": hint}
    error = ErrorData(code=number, message=WapError(message, hint=hint).text, data=data)
    return JSONRPCError(jsonrpc="2.0", id=_escape_surrogates(request), error=error)
