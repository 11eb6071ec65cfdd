"""What a call comes to: the same answer as text and as data, or an error in words that a model reads."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from wap_kernel.dialects.coding_environment.rpc_errors import error_answer
from wap_kernel.dialects.coding_environment.tools import CodingTool
from wap_kernel.errors import WapError
from wap_kernel.operations import Operation
from wap_kernel.results import Result


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
    return CallOutcome(json.dumps(error_answer(tool.name, error), indent=2, ensure_ascii=False))
