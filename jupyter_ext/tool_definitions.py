"""The tools as models want to be told of them: `{"tools": [...]}` ready to paste into a model call."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from functools import cache
from types import MappingProxyType
from typing import Any

from wap_kernel.dialects import tool_interface
from wap_kernel.dialects.coding_environment import tools as coding_tools
from wap_kernel.dialects.tool import Tool
from wap_kernel.dialects.wap import tools as wap
from wap_kernel.model.operations import Effect

from . import schemas

Definition = dict[str, Any]
_IN_BATCHES: Mapping[str, str] = MappingProxyType({"createFile": "writeFile", "shell": "executeCommand"})
"""Operations of Agent Spaces that no tool is called like, with a tool that does the same."""


def document(chosen_format: str, dialect: str, only: frozenset[str] | None = None) -> bytes:
    """The answer of `GET wap/tools`; the first two are known names. `only` what a token of these tools opens."""
    defined = _defined(chosen_format, dialect)
    tools = [defined[name] for name, tool in _TOOLS[dialect].items() if tool.is_opened_by(only)]
    return b'{"tools": [' + b", ".join(tools) + b"]}"


@cache
def _defined(chosen_format: str, dialect: str) -> Mapping[str, bytes]:
    """By name, in JSON. They never change, so they are made once."""
    shape = _SHAPES[chosen_format]
    return {name: json.dumps(shape(tool)).encode("ascii") for name, tool in _TOOLS[dialect].items()}


def known_tools() -> tuple[str, ...]:
    """The names of all tools of all dialects, and of the operations in a batch."""
    return tuple(dict.fromkeys((*(name for tools in _TOOLS.values() for name in tools), *_IN_BATCHES)))


def effects(names: Collection[str] | None) -> tuple[Effect, ...]:
    """What the tools of these names do, in every dialect; None stands for all tools."""
    wanted = None if names is None else {*names, *(_IN_BATCHES[name] for name in names if name in _IN_BATCHES)}
    tools = (tool for tools in _TOOLS.values() for tool in tools.values() if wanted is None or tool.name in wanted)
    return tuple(dict.fromkeys(effect for tool in tools for effect in tool.effects or (tool.effect,)))


def _mcp(tool: Tool[Any]) -> Definition:
    return {
        "name": tool.name,
        "title": tool.title,
        "description": tool.description,
        "inputSchema": schemas.of(tool.parameters, "validation"),
        "outputSchema": schemas.of(tool.response, "serialization"),
        "annotations": {
            "title": tool.title,
            "readOnlyHint": tool.effect is Effect.READ,
            "destructiveHint": tool.destructive,
            "idempotentHint": tool.idempotent,
            "openWorldHint": tool.effect is Effect.EXECUTE,  # a command may reach the network
        },
    }


def _openai(tool: Tool[Any]) -> Definition:
    parameters = schemas.of(tool.parameters, "validation")
    return {
        "type": "function",
        "function": {"name": tool.name, "description": tool.description, "parameters": parameters},
    }


def _anthropic(tool: Tool[Any]) -> Definition:
    schema = schemas.of(tool.parameters, "validation")
    return {"name": tool.name, "description": tool.description, "input_schema": schema}


# The first of each is the default.
_SHAPES: Mapping[str, Callable[[Tool[Any]], Definition]] = MappingProxyType(
    {"mcp": _mcp, "openai": _openai, "anthropic": _anthropic}
)
_TOOLS: Mapping[str, Mapping[str, Tool[Any]]] = MappingProxyType(
    {
        "wap": wap.TOOLS,
        coding_tools.DIALECT: coding_tools.TOOLS,
        tool_interface.DIALECT: tool_interface.TOOLS,
    }
)
FORMATS = tuple(_SHAPES)
DIALECTS = tuple(_TOOLS)
