"""The tools as models want to be told of them: `{"tools": [...]}` ready to paste into a model call."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import cache
from types import MappingProxyType
from typing import Any

from wap_kernel.dialects import wap
from wap_kernel.dialects.tools import Tool
from wap_kernel.operations import Effect

from . import schemas

Definition = dict[str, Any]


@cache
def document(chosen_format: str, dialect: str) -> bytes:
    """The answer of `GET wap/tools`; both arguments are known names. It never changes, so it is made once."""
    shape = _SHAPES[chosen_format]
    return json.dumps({"tools": [shape(tool) for tool in _TOOLS[dialect].values()]}).encode("ascii")


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
_TOOLS: Mapping[str, Mapping[str, Tool[Any]]] = MappingProxyType({"wap": wap.TOOLS})
FORMATS = tuple(_SHAPES)
DIALECTS = tuple(_TOOLS)
