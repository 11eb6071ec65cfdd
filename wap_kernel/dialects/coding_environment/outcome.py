"""What a call comes to: the same answer as text and as data, or an error in words that a model reads."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from wap_kernel.dialects.coding_environment.rpc_errors import RpcError, error_answer, rpc_error
from wap_kernel.dialects.coding_environment.tools import CodingTool
from wap_kernel.model.errors import WapError
from wap_kernel.model.operations import Operation
from wap_kernel.model.results import Result


@dataclass(frozen=True)
class CallOutcome:
    """`text` is JSON, and the same as `structured`, which an error does not have."""

    text: str
    structured: dict[str, Any] | None = None

    @property
    def is_error(self) -> bool:
        return self.structured is None


def answered(answer: BaseModel) -> CallOutcome:
    return CallOutcome(
        answer.model_dump_json(by_alias=True, exclude_none=True, indent=2),
        answer.model_dump(mode="json", by_alias=True, exclude_none=True),
    )


def performed(tool: CodingTool[Any], operation: Operation, result: Result) -> CallOutcome:
    assert tool.answer is not None
    return answered(tool.answer(operation, result))


def failed(tool: CodingTool[Any], error: WapError) -> CallOutcome:
    return _failure(error_answer(tool.name, error))


def _failure(answer: Mapping[str, Any]) -> CallOutcome:
    return CallOutcome(json.dumps(answer, indent=2, ensure_ascii=False))


def refused(tool: CodingTool[Any], error: WapError) -> dict[str, Any]:
    """The answer of a call that failed, as it is kept: the catalog's tools answer with a JSON-RPC error."""
    if not tool.in_catalog:
        return error_answer(tool.name, error)
    told = rpc_error(tool.name, error)
    return {"error": {"code": told.code, "message": told.message, "data": told.data}}


def kept(tool: CodingTool[Any], answer: Mapping[str, Any]) -> CallOutcome:
    """What was kept, for whoever waited for it; RpcError is raised if that is what it is."""
    error = answer.get("error")
    if isinstance(error, Mapping):
        raise RpcError(error["code"], error["message"], error["data"])
    if error is None or "code" not in answer:
        return answered(tool.response.model_validate(answer))
    return _failure(answer)
