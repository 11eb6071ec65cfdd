"""The routes of the workspace-tool-interface, for the OpenAPI document."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from wap_kernel.dialects import tool_interface
from wap_kernel.dialects.tools import Tool
from wap_kernel.errors import Code

from .. import schemas
from ..handlers.queries import LONGEST_WAIT
from . import parts
from .tools import CLAIMS

_TOOL = (Code.CONFLICT, Code.NO_SPACE, Code.RATE_LIMITED, Code.APPROVAL_REQUIRED)
_WAITING = {"type": "number", "minimum": 0, "maximum": LONGEST_WAIT, "default": 0}
_WAIT = parts.query("wait", _WAITING, "Seconds to wait for a person, where policy wants one to agree.")

# What a single tool may answer besides.
ERRORS: Mapping[str, tuple[Code, ...]] = MappingProxyType(
    {
        "bash": (Code.FILE_NOT_FOUND, Code.EXECUTION_FAILED, Code.TIMEOUT),
        "read": (Code.FILE_NOT_FOUND, Code.TIMEOUT),
        "write": (Code.FILE_NOT_FOUND, Code.FILE_EXISTS),
        "edit": (Code.FILE_NOT_FOUND, Code.BINARY_FILE, Code.EDIT_NOT_FOUND, Code.EDIT_AMBIGUOUS, Code.TIMEOUT),
        "glob": (Code.FILE_NOT_FOUND, Code.TIMEOUT),
        "grep": (Code.FILE_NOT_FOUND, Code.TIMEOUT),
        "git": (Code.FILE_NOT_FOUND, Code.FILE_EXISTS, Code.EXECUTION_FAILED, Code.TIMEOUT),
    }
)


def paths() -> dict[str, Any]:
    return {f"/wap/workspace/{tool.name}": {"post": _tool(tool)} for tool in tool_interface.TOOLS.values()}


def _tool(tool: Tool[Any]) -> parts.Route:
    parameters = schemas.of(tool.parameters, "validation")
    codes = (*parts.ALWAYS, *_TOOL, *ERRORS[tool.name])
    return {
        "operationId": tool.name,
        "summary": tool.title,
        "description": tool.description,
        "parameters": [*CLAIMS, _WAIT],
        "requestBody": {"required": True, "content": parts.json(parameters)},
        "responses": parts.responses(schemas.of(tool.response, "serialization"), codes),
    }
