"""The definitions of the tools as `tools/list` answers them: terse, since a model reads them with every request."""

from __future__ import annotations

from functools import cache
from typing import Any

from wap_kernel.dialects import json_schema
from wap_kernel.dialects.coding_environment.tools import TOOLS, CodingTool
from wap_kernel.dialects.mcp.messages import encode_json
from wap_kernel.model.operations import Effect

_ERROR = {
    "type": "object",
    "properties": {
        "error": {
            "type": "object",
            "properties": {"code": {"type": "integer"}, "message": {"type": "string"}, "data": {"type": "object"}},
            "required": ["code", "message", "data"],
        }
    },
    "required": ["error"],
}


@cache
def encode_list(names: tuple[str, ...], with_output: bool) -> bytes:
    """Encode the result of `tools/list` for the tools with these names. Definitions never change, so it is cached."""
    return encode_json({"tools": [build_definition(TOOLS[name], with_output) for name in names]})


def build_definition(tool: CodingTool[Any], with_output: bool = False) -> dict[str, Any]:
    definition: dict[str, Any] = {
        "name": tool.name,
        "title": tool.title,
        "description": tool.description,
        "inputSchema": json_schema.build_terse_schema(tool.parameters),
    }
    if annotations := _build_annotations(tool):
        definition["annotations"] = annotations
    if with_output:
        answer = json_schema.build_schema(tool.response, "serialization")
        # Some clients compare errors with the schema, too.
        definition["outputSchema"] = {"type": "object", "anyOf": [answer, _ERROR]}
    return definition


def _build_annotations(tool: CodingTool[Any]) -> dict[str, bool]:
    """Build the hints that differ from what the protocol assumes of a tool without them."""
    if tool.effect is Effect.READ:
        return {"readOnlyHint": True}
    return {} if tool.destructive else {"destructiveHint": False}
