"""Completion of what a person types for the path of a file: what stands in the folder so far."""

from __future__ import annotations

import mcp_types as types

from wap_kernel.dialects.mcp.identity import Message
from wap_kernel.dialects.mcp.resources import Resources
from wap_kernel.model import paths
from wap_kernel.model.errors import WapError
from wap_kernel.model.limits import MCP_MAX_COMPLETIONS, MCP_MAX_RESOURCES
from wap_kernel.model.operations import ListFiles
from wap_kernel.model.results import FileList


class Completions:
    def __init__(self, resources: Resources) -> None:
        self._resources = resources

    async def complete(self, message: Message, params: types.CompleteRequestParams) -> types.CompleteResult:
        is_path = isinstance(params.ref, types.ResourceTemplateReference) and params.argument.name == "path"
        found = await self._paths(message, params.argument.value) if is_path else []
        few = found[:MCP_MAX_COMPLETIONS]
        return types.CompleteResult(
            completion=types.Completion(values=few, total=len(found), has_more=len(found) > len(few))
        )

    async def _paths(self, message: Message, typed: str) -> list[str]:
        folder = typed.rpartition("/")[0]
        try:
            operation = ListFiles(path=paths.parse_path(folder or "."), limit=MCP_MAX_RESOURCES)
            listed = await self._resources.perform(message, "listFiles", operation, FileList)
        except WapError:  # whoever types is not told of every wrong letter
            return []
        named = (f"{entry.path}/" if entry.is_directory else entry.path for entry in listed.files)
        return [path for path in named if path.startswith(typed)]
