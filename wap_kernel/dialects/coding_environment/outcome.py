"""The outcome of a tool call: the same answer as text and as data, or an error as text for the model."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from wap_kernel.dialects.coding_environment.rpc_errors import RpcError, encode_tool_error, to_rpc_error
from wap_kernel.dialects.coding_environment.tools import CodingTool
from wap_kernel.model.errors import WapError
from wap_kernel.model.operations import Operation
from wap_kernel.model.results import Result


@dataclass(frozen=True)
class CallOutcome:
    """The answer of a call. `text` is `structured` as JSON; an error has no `structured`."""

    text: str
    structured: dict[str, Any] | None = None

    @property
    def is_error(self) -> bool:
        return self.structured is None


def encode_answer(answer: BaseModel) -> CallOutcome:
    return CallOutcome(
        answer.model_dump_json(by_alias=True, exclude_none=True, indent=2),
        answer.model_dump(mode="json", by_alias=True, exclude_none=True),
    )


def encode_result(tool: CodingTool[Any], operation: Operation, result: Result) -> CallOutcome:
    assert tool.answer is not None
    return encode_answer(tool.answer(operation, result))


def encode_failure(tool: CodingTool[Any], error: WapError) -> CallOutcome:
    return _encode_error(encode_tool_error(tool.name, error))


def _encode_error(answer: Mapping[str, Any]) -> CallOutcome:
    return CallOutcome(json.dumps(answer, indent=2, ensure_ascii=False))


def encode_stored_error(tool: CodingTool[Any], error: WapError) -> dict[str, Any]:
    """Encode the error of a call for the run store: a JSON-RPC error for the catalog's tools."""
    if not tool.in_catalog:
        return encode_tool_error(tool.name, error)
    failure = to_rpc_error(tool.name, error)
    return {"error": {"code": failure.code, "message": failure.message, "data": failure.data}}


def decode_stored(tool: CodingTool[Any], answer: Mapping[str, Any]) -> CallOutcome:
    """Decode a stored answer for the call that waited for it; raise a stored JSON-RPC error as RpcError."""
    error = answer.get("error")
    if isinstance(error, Mapping):
        raise RpcError(error["code"], error["message"], error["data"])
    if error is None or "code" not in answer:
        return encode_answer(tool.response.model_validate(answer))
    return _encode_error(answer)
