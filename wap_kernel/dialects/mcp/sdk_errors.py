"""What the SDK refuses by itself, told like the rest: with a code, what to do next, and little of what was sent."""

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
class _Known:
    """A refusal that begins like this."""

    start: str
    code: Code
    hint: str
    message: str | None = None
    """Instead of the SDK's."""


_BY_MESSAGE = (
    _Known("Parse error", Code.INVALID_ARGUMENT, UNICODE),
    _Known("Validation error", Code.INVALID_ARGUMENT, SHAPE, "The body is no JSON-RPC message."),
    _Known("Body must be a single JSON-RPC", Code.INVALID_ARGUMENT, SHAPE),
    _Known("params._meta", Code.INVALID_ARGUMENT, "From 2026-07-28 on every request says in it what MCP asks for."),
    _Known("the protocol-version envelope", Code.INVALID_ARGUMENT, "Name a version of MCP, as 2026-07-28."),
    _Known("Session not found", Code.NOT_FOUND, f"It has ended, or is another's. {BEGIN}"),
    _Known("Not Found: ", Code.NOT_FOUND, f"It has ended. {BEGIN}"),
    _Known("Bad Request: Missing session ID", Code.INVALID_ARGUMENT, BEGIN),
    _Known("Too many open sessions", Code.RATE_LIMITED, "End some with DELETE, or try again later."),
    _Known("Subscription limit reached", Code.RATE_LIMITED, "End some streams, or try again later."),
    _Known("Not Acceptable", Code.INVALID_ARGUMENT, "Send Accept: application/json, text/event-stream."),
    _Known("Invalid Content-Type", Code.INVALID_ARGUMENT, "Send Content-Type: application/json."),
    _Known("Unsupported Media Type", Code.INVALID_ARGUMENT, "Send Content-Type: application/json."),
    _Known("Unsupported protocol version", Code.INVALID_ARGUMENT, "Speak one of those in data.supported."),
    _Known("Conflict: ", Code.CONFLICT, "Close the other stream of this session first."),
    _Known("Method Not Allowed", Code.METHOD_NOT_ALLOWED, "From 2026-07-28 on everything is sent by POST."),
    _Known("Method not found", Code.NOT_FOUND, "initialize and server/discover tell what there is."),
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
"""An id that stands before anything that could hold another."""


def told(error: ErrorData) -> ErrorData:
    """The same error, and the same words: clients know some of them. What says its own code already stays as it is."""
    data = error.data if isinstance(error.data, Mapping) else {}
    if "code" in data:
        return error
    known = next((known for known in _BY_MESSAGE if error.message.startswith(known.start)), None)
    code, hint = (known.code, known.hint) if known is not None else _BY_NUMBER.get(error.code, _OTHERWISE)
    said = (known.message if known is not None else None) or error.message
    text = _escape_surrogates(said if len(said) <= MCP_MAX_ERROR_CHARACTERS else f"{said[:MCP_MAX_ERROR_CHARACTERS]}...")
    return ErrorData(code=error.code, message=text, data={**data, "code": code.value, "hint": hint})


def of_answer(status: int, body: bytes) -> bytes:
    """The body of an HTTP answer that refuses: the SDK's own may be no JSON, or empty."""
    try:
        refusal = JSONRPCError.model_validate_json(body)
    except ValidationError:
        text = body.decode("utf-8", "replace") or HTTPStatus(status).phrase
        refusal = JSONRPCError(jsonrpc="2.0", id=None, error=ErrorData(code=INVALID_REQUEST, message=text))
    answer = JSONRPCError(jsonrpc="2.0", id=refusal.id, error=told(refusal.error))
    return answer.model_dump_json(by_alias=True, exclude_unset=True).encode()


def _id_in(line: str) -> int | str | None:
    """Of a message that is not JSON, as far as it can be told."""
    found = _FIRST_MEMBERS.match(line)
    try:
        return None if found is None else json.loads(found[1])
    except ValueError:  # 007
        return None


def of_line(line: str) -> tuple[JSONRPCError, bool]:
    """The error for a line that is no message, and whether it was meant as an answer to a request of ours."""
    try:
        said = json.loads(line)
        is_text = _is_text(said)
    except (ValueError, RecursionError):
        return _error(PARSE_ERROR, "The message is not JSON.", SHAPE, _id_in(line)), False
    if not isinstance(said, dict):
        return _error(INVALID_REQUEST, "It is no JSON-RPC message.", SHAPE, None), False
    number, is_answer = said.get("id"), "method" not in said and ("result" in said or "error" in said)
    if isinstance(number, bool) or not isinstance(number, int | str):
        number = None
    if not is_text:
        return _error(PARSE_ERROR, "The message is not Unicode.", UNICODE, number), is_answer
    if isinstance(said.get("method"), str) and not isinstance(said.get("params", {}), dict):
        return _error(INVALID_PARAMS, "params: It is not an object.", SHAPE, number), is_answer
    return _error(INVALID_REQUEST, "It is no JSON-RPC message.", SHAPE, number), is_answer


def _is_text(said: Any) -> bool:
    try:
        json.dumps(said, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _error(number: int, message: str, hint: str, request: RequestId | None) -> JSONRPCError:
    data: dict[str, Any] = {"code": Code.INVALID_ARGUMENT.value, "hint": hint}
    error = ErrorData(code=number, message=WapError(message, hint=hint).text, data=data)
    return JSONRPCError(jsonrpc="2.0", id=_escape_surrogates(request), error=error)
