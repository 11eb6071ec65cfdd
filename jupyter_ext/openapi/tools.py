"""The routes of single tools and of their definitions, for the OpenAPI document."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

from wap_kernel.dialects import json_schema
from wap_kernel.dialects.tool import Tool
from wap_kernel.dialects.wap import tools as wap
from wap_kernel.model.errors import Code
from wap_kernel.model.limits import MAX_WAIT_SECONDS

from .. import tool_definitions
from . import parts

CLAIMS = [{"$ref": f"#/components/parameters/{name}"} for name in ("agent", "session", "notebook")]

_WAIT_SECONDS = {"type": "number", "minimum": 0, "maximum": MAX_WAIT_SECONDS, "default": 0}
_WAIT = parts.query("wait", _WAIT_SECONDS, "Seconds to wait for an approval, where policy demands one.")

# Every tool: a path may keep changing while it is resolved, the disk may be full for the audit, an agent token has its
# limits, policy may demand an approval.
_TOOL = (Code.CONFLICT, Code.NO_SPACE, Code.RATE_LIMITED, Code.APPROVAL_REQUIRED)
_CHANGES = (Code.FILE_NOT_FOUND, Code.FILE_EXISTS)

# Further errors of each tool.
ERRORS: Mapping[str, tuple[Code, ...]] = MappingProxyType(
    {
        "exploreFiles": (Code.FILE_NOT_FOUND,),
        "readFile": (Code.FILE_NOT_FOUND, Code.BINARY_FILE),
        "writeFile": _CHANGES,
        "modifyFile": (*_CHANGES, Code.BINARY_FILE, Code.EDIT_NOT_FOUND, Code.TIMEOUT),
        "searchFiles": (Code.FILE_NOT_FOUND, Code.TIMEOUT),
        "executeCommand": (Code.FILE_NOT_FOUND, Code.EXECUTION_FAILED, Code.TIMEOUT),
        "getWorkspaceInfo": (),
        "deleteFile": _CHANGES,
        "moveFile": _CHANGES,
        "copyFile": _CHANGES,
        "createDirectory": _CHANGES,
        "readNotebook": (Code.FILE_NOT_FOUND,),
        "modifyNotebook": (*_CHANGES, Code.BINARY_FILE, Code.EDIT_NOT_FOUND, Code.TIMEOUT),
    }
)


def paths() -> dict[str, Any]:
    return {f"/wap/api/{tool.name}": {"post": route(tool, ERRORS[tool.name])} for tool in wap.TOOLS.values()}


def definition_paths() -> dict[str, Any]:
    return {"/wap/tools": {"get": _tools()}}


def route(tool: Tool[Any], errors: Iterable[Code]) -> parts.Route:
    """Describe the route of a single tool of any dialect."""
    codes = (*parts.ALWAYS, *_TOOL, *errors)
    return {
        "operationId": tool.name,
        "summary": tool.title,
        "description": tool.description,
        "parameters": [*CLAIMS, _WAIT],
        "requestBody": parts.request_body(tool.parameters),
        "responses": parts.responses(json_schema.build_schema(tool.response, "serialization"), codes),
    }


def _tools() -> parts.Route:
    answer = {
        "type": "object",
        "properties": {"tools": {"type": "array", "items": {"type": "object"}}},
        "required": ["tools"],
    }
    return {
        "operationId": "listTools",
        "summary": "The tools' definitions, ready to paste into a model call",
        "parameters": [
            parts.choice("format", tool_definitions.FORMATS, "The format of the definitions."),
            parts.choice("dialect", tool_definitions.DIALECTS, "The dialect of the tools."),
        ],
        "responses": parts.responses(answer, parts.ALWAYS),
    }
