"""The routes of the workspace-tool-interface, for the OpenAPI document."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from wap_kernel.dialects.tool_interface import tools as interface_tools
from wap_kernel.model.errors import Code

from .tools import route

# Further errors of each tool.
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
    tools = interface_tools.TOOLS.values()
    return {f"/wap/workspace/{tool.name}": {"post": route(tool, ERRORS[tool.name])} for tool in tools}
