"""Complete the path of a file that a person types, from the entries of its folder."""

from __future__ import annotations

from wap_kernel.dialects.mcp.connection import Call
from wap_kernel.dialects.mcp.messages import Result
from wap_kernel.dialects.mcp.params import CompleteParams, parse_params
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

    async def complete(self, call: Call) -> Result:
        params = parse_params(call.request, CompleteParams)
        is_path = params.ref.type == "ref/resource" and params.argument.name == "path"
        matches = await self._find_paths(call, params.argument.value) if is_path else []
        values = matches[:MCP_MAX_COMPLETIONS]
        return {"completion": {"values": values, "total": len(matches), "hasMore": len(matches) > len(values)}}

    async def _find_paths(self, call: Call, typed: str) -> list[str]:
        folder = typed.rpartition("/")[0]
        try:
            operation = ListFiles(path=paths.parse_path(folder or "."), limit=MCP_MAX_RESOURCES)
            result = await self._resources.perform(call, "listFiles", operation, FileList)
        except WapError:  # an error for every wrong letter would not help
            return []
        candidates = (f"{entry.path}/" if entry.is_directory else entry.path for entry in result.files)
        return [path for path in candidates if path.startswith(typed)]
