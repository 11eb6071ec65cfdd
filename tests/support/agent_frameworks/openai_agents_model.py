"""A scripted model for openai-agents."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

from agents import Model, ModelResponse, Usage
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText


class ScriptedAgentModel(Model):
    def __init__(self, calls: list[Any], seen: list[str]) -> None:
        self.calls = calls
        self.seen = seen

    async def get_response(self, system_instructions: Any, input: Any, *further: Any, **options: Any) -> ModelResponse:
        items = [] if isinstance(input, str) else input
        self.seen[:] = [_get_output(item) for item in items if item.get("type") == "function_call_output"]
        return ModelResponse(output=[self._answer()], usage=Usage(), response_id=None)

    def _answer(self) -> ResponseFunctionToolCall | ResponseOutputMessage:
        if len(self.seen) < len(self.calls):
            tool, values = self.calls[len(self.seen)]
            return ResponseFunctionToolCall(
                type="function_call", call_id=f"call_{len(self.seen)}", name=tool, arguments=json.dumps(values)
            )
        text = ResponseOutputText(type="output_text", text="Done.", annotations=[])
        return ResponseOutputMessage(id="message", type="message", role="assistant", status="completed", content=[text])

    def stream_response(self, *arguments: Any, **options: Any) -> AsyncIterator[Any]:
        raise NotImplementedError


def build_model(calls: list[Any], seen: list[str]) -> ScriptedAgentModel:
    return ScriptedAgentModel(calls, seen)


def _get_output(item: dict[str, Any]) -> str:
    output = item["output"]
    return output if isinstance(output, str) else json.dumps(output)


def get_text(answer: Any) -> str:
    return str(answer.final_output)
