"""Complete the path of a file that a person types, from the entries of its folder."""

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
    """Completions of the path in the resource template."""

    def __init__(self, resources: Resources) -> None:
        self._resources = resources

    async def complete(self, message: Message, params: types.CompleteRequestParams) -> types.CompleteResult:
        is_path = isinstance(params.ref, types.ResourceTemplateReference) and params.argument.name == "path"
        matches = await self._find_paths(message, params.argument.value) if is_path else []
        values = matches[:MCP_MAX_COMPLETIONS]
        return types.CompleteResult(
            completion=types.Completion(values=values, total=len(matches), has_more=len(matches) > len(values))
        )

    async def _find_paths(self, message: Message, typed: str) -> list[str]:
        folder = typed.rpartition("/")[0]
        try:
            operation = ListFiles(path=paths.parse_path(folder or "."), limit=MCP_MAX_RESOURCES)
            result = await self._resources.perform(message, "listFiles", operation, FileList)
        except WapError:  # an error for every wrong letter would not help
            return []
        candidates = (f"{entry.path}/" if entry.is_directory else entry.path for entry in result.files)
        return [path for path in candidates if path.startswith(typed)]
