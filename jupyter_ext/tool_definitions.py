"""Definitions of the tools for models: `{"tools": [...]}` ready to paste into a model call."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from functools import cache
from types import MappingProxyType
from typing import Any

from wap_kernel.dialects import json_schema
from wap_kernel.dialects.agent_spaces import operations as agent_spaces
from wap_kernel.dialects.agent_spaces import tools as agent_spaces_tools
from wap_kernel.dialects.coding_environment import tools as coding_tools
from wap_kernel.dialects.tool import Tool
from wap_kernel.dialects.tool_interface import tools as interface_tools
from wap_kernel.dialects.wap import tools as wap
from wap_kernel.model.operations import Effect

Definition = dict[str, Any]
WAP = "wap"
_IN_BATCHES: Mapping[str, str] = MappingProxyType({"createFile": "writeFile", "shell": "executeCommand"})
"""Operations of Agent Spaces whose name no tool has, with a tool that does the same."""


def encode_definitions(chosen_format: str, dialect: str, only: frozenset[str] | None = None) -> bytes:
    """Encode the answer of `GET wap/tools`; `only` the tools that a token with this scope opens."""
    encoded = _encode_each(chosen_format, dialect)
    opened = (encoded[name] for name, tool in _TOOLS[dialect].items() if _is_opened(dialect, tool, only))
    return b'{"tools": [' + b", ".join(opened) + b"]}"


def _is_opened(dialect: str, tool: Tool[Any], only: frozenset[str] | None) -> bool:
    # The routes of WAP open a tool by its own name only; those of others also by the names of similar tools.
    if dialect == WAP and tool.name in wap.TOOLS:
        return only is None or tool.name in only
    return tool.is_opened_by(only)


@cache
def _encode_each(chosen_format: str, dialect: str) -> Mapping[str, bytes]:
    """Encode each tool of a dialect, by name. Definitions never change, so they are cached."""
    format_tool = _FORMATTERS[chosen_format]
    return {name: json.dumps(format_tool(tool)).encode("ascii") for name, tool in _TOOLS[dialect].items()}


def list_tool_names() -> tuple[str, ...]:
    """List the names of all tools of all dialects, and of the operations in a batch."""
    return tuple(dict.fromkeys((*(name for tools in _TOOLS.values() for name in tools), *_IN_BATCHES)))


def list_effects(names: Collection[str] | None) -> tuple[Effect, ...]:
    """List the effects of the tools with these names, in every dialect; None stands for all tools."""
    chosen = None if names is None else {*names, *(_IN_BATCHES[name] for name in names if name in _IN_BATCHES)}
    tools = (tool for tools in _TOOLS.values() for tool in tools.values() if chosen is None or tool.name in chosen)
    return tuple(dict.fromkeys(effect for tool in tools for effect in tool.effects or (tool.effect,)))


def _format_mcp(tool: Tool[Any]) -> Definition:
    return {
        "name": tool.name,
        "title": tool.title,
        "description": tool.description,
        "inputSchema": json_schema.build_schema(tool.parameters, "validation"),
        "outputSchema": json_schema.build_schema(tool.response, "serialization"),
        "annotations": {
            "title": tool.title,
            "readOnlyHint": tool.effect is Effect.READ,
            "destructiveHint": tool.destructive,
            "idempotentHint": tool.idempotent,
            "openWorldHint": tool.effect is Effect.EXECUTE,  # a command may reach the network
        },
    }


def _format_openai(tool: Tool[Any]) -> Definition:
    parameters = json_schema.build_schema(tool.parameters, "validation")
    return {
        "type": "function",
        "function": {"name": tool.name, "description": tool.description, "parameters": parameters},
    }


def _format_openai_responses(tool: Tool[Any]) -> Definition:
    parameters = json_schema.build_schema(tool.parameters, "validation")
    # The Responses API is strict unless told otherwise, and strict schemas have no optional fields.
    return {
        "type": "function",
        "name": tool.name,
        "description": tool.description,
        "parameters": parameters,
        "strict": False,
    }


def _format_anthropic(tool: Tool[Any]) -> Definition:
    schema = json_schema.build_schema(tool.parameters, "validation")
    return {"name": tool.name, "description": tool.description, "input_schema": schema}


# The first of each is the default.
_FORMATTERS: Mapping[str, Callable[[Tool[Any]], Definition]] = MappingProxyType(
    {
        "mcp": _format_mcp,
        "openai": _format_openai,
        "openai-responses": _format_openai_responses,
        "anthropic": _format_anthropic,
    }
)
_TOOLS: Mapping[str, Mapping[str, Tool[Any]]] = MappingProxyType(
    {
        WAP: {**wap.TOOLS, **agent_spaces_tools.TOOLS},  # a batch has a route beside WAP's tools
        coding_tools.DIALECT: coding_tools.TOOLS,
        interface_tools.DIALECT: interface_tools.TOOLS,
        agent_spaces.DIALECT: agent_spaces_tools.TOOLS,
    }
)
FORMATS = tuple(_FORMATTERS)
DIALECTS = tuple(_TOOLS)
