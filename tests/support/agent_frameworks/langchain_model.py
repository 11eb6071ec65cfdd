"""A scripted model for LangChain."""

from __future__ import annotations

from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult


class ScriptedChatModel(BaseChatModel):
    calls: list[Any]
    seen: list[str]

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Any, **options: Any) -> Any:
        return self

    def _generate(self, messages: list[BaseMessage], *arguments: Any, **options: Any) -> ChatResult:
        self.seen[:] = [str(message.text) for message in messages if isinstance(message, ToolMessage)]
        message = AIMessage("Done.")
        if len(self.seen) < len(self.calls):
            tool, values = self.calls[len(self.seen)]
            call = {"name": tool, "args": values, "id": f"call_{len(self.seen)}", "type": "tool_call"}
            message = AIMessage("", tool_calls=[call])
        return ChatResult(generations=[ChatGeneration(message=message)])


def build_model(calls: list[Any], seen: list[str]) -> ScriptedChatModel:
    model = ScriptedChatModel(calls=calls, seen=seen)
    model.seen = seen  # pydantic has copied the list
    return model


def get_text(answer: Any) -> str:
    return str(answer["messages"][-1].text)
