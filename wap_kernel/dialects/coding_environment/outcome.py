"""The outcome of a tool call: the same answer as text and as data, or an error in the catalog's form."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel
from pydantic_core import to_json

from wap_kernel.dialects.coding_environment.answers import ReadAnswer
from wap_kernel.dialects.coding_environment.rpc_errors import RpcError, to_rpc_error
from wap_kernel.dialects.coding_environment.tools import CodingTool
from wap_kernel.model.errors import WapError
from wap_kernel.model.operations import Operation
from wap_kernel.model.results import Result


@dataclass(frozen=True)
class CallOutcome:
    """The answer of a call: `data` is its JSON, `text` the same JSON for the model. An error is `{"error": ...}`."""

    text: str
    data: bytes
    blocks: tuple[Mapping[str, Any], ...] = ()
    """Further content besides the text: images."""
    error: RpcError | None = None

    @property
    def structured(self) -> dict[str, Any]:
        answer: dict[str, Any] = json.loads(self.data)
        return answer

    @property
    def result(self) -> bytes:
        """The result of `tools/call` as JSON. The parts are encoded already: an answer may hold megabytes."""
        text = b'{"type":"text","text":%b}' % to_json(self.text)
        content = b",".join((text, *map(to_json, self.blocks)))
        failure = b"" if self.error is None else b',"isError":true'
        return b'{"content":[%b],"structuredContent":%b%b}' % (content, self.data, failure)


def encode_answer(answer: BaseModel, blocks: tuple[Mapping[str, Any], ...] = ()) -> CallOutcome:
    return CallOutcome(
        answer.model_dump_json(by_alias=True, exclude_none=True, indent=2),
        answer.model_dump_json(by_alias=True, exclude_none=True).encode("utf-8"),
        blocks,
    )


def encode_result(tool: CodingTool[Any], operation: Operation, result: Result) -> CallOutcome:
    assert tool.answer is not None
    answer = tool.answer(operation, result)
    return encode_answer(answer, answer.blocks if isinstance(answer, ReadAnswer) else ())


def encode_failure(error: RpcError) -> CallOutcome:
    answer = {"error": {"code": error.code, "message": error.message, "data": error.data}}
    text = json.dumps(answer, indent=2, ensure_ascii=False, default=str)
    return CallOutcome(text, json.dumps(answer, default=str).encode("ascii"), error=error)


def encode_stored_error(tool: CodingTool[Any], error: WapError) -> dict[str, Any]:
    """Encode the error of a call for the run store."""
    return encode_failure(to_rpc_error(tool.name, error)).structured


def decode_stored(tool: CodingTool[Any], answer: Mapping[str, Any]) -> CallOutcome:
    """Decode a stored answer for the call that waited for it."""
    error = answer.get("error")
    if isinstance(error, Mapping):
        return encode_failure(RpcError(error["code"], error["message"], error["data"]))
    return encode_answer(tool.response.model_validate(answer))
