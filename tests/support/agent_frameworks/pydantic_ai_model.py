"""A scripted model for pydantic-ai."""

from __future__ import annotations

from typing import Any

from pydantic_ai.messages import ModelMessage, ModelResponse, RetryPromptPart, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel


def build_model(calls: list[Any], seen: list[str]) -> FunctionModel:
    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        parts = (part for message in messages for part in message.parts)
        seen[:] = [_get_text(part) for part in parts if isinstance(part, ToolReturnPart | RetryPromptPart)]
        if len(seen) < len(calls):
            return ModelResponse(parts=[ToolCallPart(*calls[len(seen)])])
        return ModelResponse(parts=[TextPart("Done.")])

    return FunctionModel(answer)


def _get_text(part: ToolReturnPart | RetryPromptPart) -> str:
    return part.model_response() if isinstance(part, RetryPromptPart) else part.model_response_str()


def get_text(answer: Any) -> str:
    return str(answer.output)
