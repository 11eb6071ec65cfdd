"""The APIs of models, as far as an agent needs them: which tools are offered, what they answered, a call or text."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Mapping
from typing import Any

Events = list[tuple[str | None, Mapping[str, Any] | str]]
OTHERS = {"input_tokens": 1, "totalTokens": 1}
"""The answer to requests for the number of tokens."""
_NUMBERS = itertools.count(1)


class Wire:
    """One API. `tool` is None where the model answers text."""

    suffix = ""

    def list_tools(self, body: dict[str, Any]) -> list[str]:
        raise NotImplementedError

    def list_results(self, body: dict[str, Any]) -> list[str]:
        raise NotImplementedError

    def message(self, tool: str | None, content: Any) -> dict[str, Any]:
        raise NotImplementedError

    def stream(self, tool: str | None, content: Any) -> Events:
        raise NotImplementedError

    def streams(self, path: str, body: dict[str, Any]) -> bool:
        return bool(body.get("stream"))


class OpenAiChat(Wire):
    suffix = "/chat/completions"

    def list_tools(self, body: dict[str, Any]) -> list[str]:
        return [tool["function"]["name"] for tool in body.get("tools") or () if tool["type"] == "function"]

    def list_results(self, body: dict[str, Any]) -> list[str]:
        return [_join(message["content"]) for message in body["messages"] if message["role"] == "tool"]

    def message(self, tool: str | None, content: Any) -> dict[str, Any]:
        reason = "stop" if tool is None else "tool_calls"
        choice = {"index": 0, "message": self._part(tool, content), "finish_reason": reason}
        return {**_chat("chat.completion"), "choices": [choice], "usage": _CHAT_USAGE}

    def stream(self, tool: str | None, content: Any) -> Events:
        part = self._part(tool, content)
        if tool is not None:
            part["tool_calls"] = [{"index": 0, **call} for call in part["tool_calls"]]
        head = _chat("chat.completion.chunk")
        last = {"index": 0, "delta": {}, "finish_reason": "stop" if tool is None else "tool_calls"}
        return [
            (None, {**head, "choices": [{"index": 0, "delta": part, "finish_reason": None}]}),
            (None, {**head, "choices": [last]}),
            (None, {**head, "choices": [], "usage": _CHAT_USAGE}),
            (None, "[DONE]"),
        ]

    @staticmethod
    def _part(tool: str | None, content: Any) -> dict[str, Any]:
        if tool is None:
            return {"role": "assistant", "content": content}
        function = {"name": tool, "arguments": json.dumps(content)}
        return {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": _identify("call"), "type": "function", "function": function}],
        }


class OpenAiResponses(Wire):
    suffix = "/responses"
    _SEPARATOR = " "
    """Codex offers the tools of a server in a namespace; a name here is the namespace, a blank and the tool."""

    def list_tools(self, body: dict[str, Any]) -> list[str]:
        names = []
        for tool in body.get("tools") or ():
            if tool["type"] == "function":
                names.append(tool["name"])
            elif tool["type"] == "namespace":
                names += [f"{tool['name']}{self._SEPARATOR}{each['name']}" for each in tool["tools"]]
        return names

    def list_results(self, body: dict[str, Any]) -> list[str]:
        items = body["input"] if isinstance(body["input"], list) else []
        return [_join(item["output"]) for item in items if item.get("type") == "function_call_output"]

    def message(self, tool: str | None, content: Any) -> dict[str, Any]:
        return self._response("completed", [self._item(tool, content)])

    def stream(self, tool: str | None, content: Any) -> Events:
        item = self._item(tool, content)
        events: list[dict[str, Any]] = [
            {"type": "response.created", "response": self._response("in_progress", [])},
            {"type": "response.output_item.added", "output_index": 0, "item": item},
            {"type": "response.output_item.done", "output_index": 0, "item": item},
            {"type": "response.completed", "response": self._response("completed", [item])},
        ]
        return [(event["type"], {"sequence_number": number, **event}) for number, event in enumerate(events)]

    def _item(self, tool: str | None, content: Any) -> dict[str, Any]:
        if tool is None:
            text = {"type": "output_text", "text": content, "annotations": []}
            identifier = _identify("msg")
            return {
                "type": "message",
                "id": identifier,
                "role": "assistant",
                "status": "completed",
                "content": [text],
            }
        namespace, separator, name = tool.partition(self._SEPARATOR)
        return {
            "type": "function_call",
            "id": _identify("fc"),
            "call_id": _identify("call"),
            "status": "completed",
            "arguments": json.dumps(content),
            **({"namespace": namespace, "name": name} if separator else {"name": tool}),
        }

    @staticmethod
    def _response(status: str, output: list[dict[str, Any]]) -> dict[str, Any]:
        usage = {
            "input_tokens": 1,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": 1,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": 2,
        }
        return {
            "id": "resp_1",
            "object": "response",
            "created_at": 1,
            "model": "scripted",
            "status": status,
            "output": output,
            "parallel_tool_calls": False,
            "tool_choice": "auto",
            "tools": [],
            "usage": usage if status == "completed" else None,
        }


class AnthropicMessages(Wire):
    suffix = "/messages"

    def list_tools(self, body: dict[str, Any]) -> list[str]:
        return [tool["name"] for tool in body.get("tools") or ()]

    def list_results(self, body: dict[str, Any]) -> list[str]:
        parts = (
            part for message in body["messages"] if isinstance(message["content"], list) for part in message["content"]
        )
        return [_join(part.get("content", "")) for part in parts if part["type"] == "tool_result"]

    def message(self, tool: str | None, content: Any) -> dict[str, Any]:
        block = self._block(tool, content)
        if tool is not None:
            block["input"] = content
        return {**self._head(), "content": [block], "stop_reason": self._reason(tool)}

    def stream(self, tool: str | None, content: Any) -> Events:
        block = self._block(tool, content)
        if tool is None:
            block["text"] = ""
            delta = {"type": "text_delta", "text": content}
        else:
            delta = {"type": "input_json_delta", "partial_json": json.dumps(content)}
        ended = {"stop_reason": self._reason(tool), "stop_sequence": None}
        events: list[dict[str, Any]] = [
            {"type": "message_start", "message": {**self._head(), "content": []}},
            {"type": "content_block_start", "index": 0, "content_block": block},
            {"type": "content_block_delta", "index": 0, "delta": delta},
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": ended, "usage": {"output_tokens": 1}},
            {"type": "message_stop"},
        ]
        return [(event["type"], event) for event in events]

    @staticmethod
    def _block(tool: str | None, content: Any) -> dict[str, Any]:
        if tool is None:
            return {"type": "text", "text": content}
        return {"type": "tool_use", "id": _identify("toolu"), "name": tool, "input": {}}

    @staticmethod
    def _reason(tool: str | None) -> str:
        return "end_turn" if tool is None else "tool_use"

    @staticmethod
    def _head() -> dict[str, Any]:
        return {
            "id": _identify("msg"),
            "type": "message",
            "role": "assistant",
            "model": "scripted",
            "stop_reason": None,
            "stop_sequence": None,
            "usage": {"input_tokens": 1, "output_tokens": 1},
        }


class Gemini(Wire):
    suffix = "GenerateContent"

    def list_tools(self, body: dict[str, Any]) -> list[str]:
        declared = (tool.get("functionDeclarations") or () for tool in body.get("tools") or ())
        return [function["name"] for functions in declared for function in functions]

    def list_results(self, body: dict[str, Any]) -> list[str]:
        parts = (part for content in body["contents"] for part in content.get("parts") or ())
        return [json.dumps(part["functionResponse"]["response"]) for part in parts if "functionResponse" in part]

    def message(self, tool: str | None, content: Any) -> dict[str, Any]:
        part = {"text": content} if tool is None else {"functionCall": {"name": tool, "args": content}}
        candidate = {"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}
        usage = {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2}
        return {"candidates": [candidate], "usageMetadata": usage, "modelVersion": "scripted"}

    def stream(self, tool: str | None, content: Any) -> Events:
        return [(None, self.message(tool, content))]

    def streams(self, path: str, body: dict[str, Any]) -> bool:
        return ":stream" in path


_WIRES: tuple[Wire, ...] = (OpenAiChat(), OpenAiResponses(), AnthropicMessages(), Gemini())
_CHAT_USAGE = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}


def find_wire(path: str) -> Wire | None:
    """Return the API that a request's path belongs to."""
    address = path.partition("?")[0].lower()
    return next((wire for wire in _WIRES if address.endswith(wire.suffix.lower())), None)


def encode_events(events: Events) -> bytes:
    """Encode server-sent events."""
    return b"".join(_encode_event(name, data) for name, data in events)


def _encode_event(name: str | None, data: Mapping[str, Any] | str) -> bytes:
    text = data if isinstance(data, str) else json.dumps(data)
    return (f"event: {name}\n" if name else "").encode() + f"data: {text}\n\n".encode()


def _chat(kind: str) -> dict[str, Any]:
    return {"id": "chat_1", "object": kind, "created": 1, "model": "scripted"}


def _identify(prefix: str) -> str:
    return f"{prefix}_{next(_NUMBERS)}"


def _join(content: Any) -> str:
    """Return the text of a message, which may stand in parts."""
    if isinstance(content, str):
        return content
    return "\n".join(_flatten(content))


def _flatten(content: Any) -> Iterator[str]:
    for part in content or ():
        yield part if isinstance(part, str) else str(part.get("text", json.dumps(part)))
