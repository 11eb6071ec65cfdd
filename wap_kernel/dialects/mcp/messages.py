"""Parse and encode the messages of JSON-RPC 2.0. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic_core import from_json

from wap_kernel.dialects.coding_environment.rpc_errors import RpcError
from wap_kernel.dialects.mcp.protocol import INVALID_PARAMS, INVALID_REQUEST, PARSE_ERROR
from wap_kernel.model.errors import Code, WapError

SHAPE = 'A message is one JSON object: {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": an object}.'
_UNICODE = "Send JSON in UTF-8; every \\ud800 to \\udfff in a string is half of a pair."
_FIRST_MEMBERS = re.compile(
    rb'\s*\{(?:\s*"(?:jsonrpc|method)"\s*:\s*"[^"\\]*"\s*,)*\s*"id"\s*:\s*(-?[1-9]\d{0,14}|0|"[^"\\]{0,200}")\s*[,}]'
)
"""The beginning of a message whose id stands before any value that could hold another id."""
_MAX_PREFIX = 1_000

SERVER_REQUEST_PREFIX = "wap-"
"""The beginning of the ids of the server's own requests."""

RequestId = int | str
Result = Mapping[str, Any] | bytes
"""The result of a request: an object, or the JSON of one."""


class ProtocolError(RpcError):
    """A message, or the way in which it was sent, does not follow the protocol."""

    def __init__(
        self,
        number: int,
        message: str,
        hint: str,
        *,
        code: Code = Code.INVALID_ARGUMENT,
        status: int = 400,
        request_id: RequestId | None = None,
        **data: Any,
    ) -> None:
        super().__init__(number, WapError(message, hint=hint).text, {**data, "code": code.value, "hint": hint})
        self.status = status
        """The HTTP status of the answer."""
        self.request_id = request_id

    @property
    def is_answer(self) -> bool:
        """Return whether the message was meant as the answer to a request of the server."""
        return isinstance(self.request_id, str) and self.request_id.startswith(SERVER_REQUEST_PREFIX)


@dataclass(frozen=True, slots=True)
class Request:
    """A message that wants an answer."""

    id: RequestId
    method: str
    params: Mapping[str, Any] | None

    @property
    def meta(self) -> Mapping[str, Any]:
        meta = None if self.params is None else self.params.get("_meta")
        return meta if isinstance(meta, Mapping) else {}


@dataclass(frozen=True, slots=True)
class Notification:
    """A message that wants no answer."""

    method: str
    params: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class Response:
    """The client's answer to a request of the server: its result, or None for an error."""

    id: RequestId
    result: Mapping[str, Any] | None


Message = Request | Notification | Response
Batch = list[Message | ProtocolError]
"""The messages of a batch, each with an answer of its own; an error stands for an item that is no message."""


def parse_body(body: bytes) -> Message | Batch:
    """Parse one message, or the messages of a batch; raise ProtocolError."""
    try:
        value = from_json(body, allow_inf_nan=False)
    except ValueError as error:
        is_text = "surrogate" not in str(error) and _is_utf8(body)
        message, hint = ("The message is not JSON.", SHAPE) if is_text else ("The message is not Unicode.", _UNICODE)
        raise ProtocolError(PARSE_ERROR, message, hint, request_id=_find_id(body)) from None
    if not isinstance(value, list):
        return _parse_message(value)
    if not value:
        raise ProtocolError(INVALID_REQUEST, "The batch is empty.", SHAPE)
    return [_parse_item(item) for item in value]


def _parse_item(value: Any) -> Message | ProtocolError:
    try:
        return _parse_message(value)
    except ProtocolError as error:
        return error


def _is_utf8(body: bytes) -> bool:
    try:
        body.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _find_id(body: bytes) -> RequestId | None:
    """Find the id of a message that is not JSON, if it can be known: its sender waits for an answer."""
    match = _FIRST_MEMBERS.match(body[:_MAX_PREFIX])
    try:
        return None if match is None else json.loads(match[1])
    except ValueError:
        return None


def _parse_message(value: Any) -> Message:
    if not isinstance(value, dict) or value.get("jsonrpc") != "2.0":
        raise ProtocolError(INVALID_REQUEST, "The body is no JSON-RPC message.", SHAPE, request_id=_get_id(value))
    method, request_id = value.get("method"), _get_id(value)
    if isinstance(method, str):
        params = value.get("params")
        if params is not None and not isinstance(params, dict):
            raise ProtocolError(INVALID_PARAMS, "params: The value is not an object.", SHAPE, request_id=request_id)
        if "id" not in value:
            return Notification(method, params)
        if request_id is not None:
            return Request(request_id, method, params)
    elif request_id is not None and "method" not in value and ("result" in value or "error" in value):
        result = value.get("result")
        return Response(request_id, result if isinstance(result, dict) and "error" not in value else None)
    raise ProtocolError(INVALID_REQUEST, "The body is no JSON-RPC message.", SHAPE, request_id=request_id)


def _get_id(value: Any) -> RequestId | None:
    found = value.get("id") if isinstance(value, dict) else None
    return found if isinstance(found, int | str) and not isinstance(found, bool) else None


def encode_result(request_id: RequestId, result: Result) -> bytes:
    data = result if isinstance(result, bytes) else encode_json(result)
    return b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (encode_json(request_id), data)


def encode_error(request_id: RequestId | None, error: RpcError) -> bytes:
    failure: dict[str, Any] = {"code": error.code, "message": error.message}
    if error.data:
        failure["data"] = error.data
    return encode_json({"jsonrpc": "2.0", "id": request_id, "error": failure})


def encode_notification(method: str, params: Mapping[str, Any]) -> bytes:
    return encode_json({"jsonrpc": "2.0", "method": method, "params": params})


def encode_request(request_id: RequestId, method: str, params: Mapping[str, Any]) -> bytes:
    return encode_json({"jsonrpc": "2.0", "id": request_id, "method": method, "params": params})


def encode_json(value: Any) -> bytes:
    # ASCII can encode even a file name that is not valid Unicode.
    return json.dumps(value, separators=(",", ":"), default=str).encode("ascii")
