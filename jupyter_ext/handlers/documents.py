"""GET wap/tools and wap/openapi.json: describe the tools for models and for programs."""

from __future__ import annotations

from wap_kernel.model.operations import Effect

from .. import openapi, tool_definitions
from . import parameters
from .base import WapHandler, verb


class ToolsHandler(WapHandler):
    """Return the definitions of a dialect's tools."""

    allowed = ("GET", "HEAD")
    open_to_agents = True

    @verb
    async def get(self) -> None:
        await self.authorize(Effect.READ)
        chosen_format = self._choose("format", tool_definitions.FORMATS)
        dialect = self._choose("dialect", tool_definitions.DIALECTS)
        only = None if self.agent is None else self.agent.scope.tools
        self.finish(tool_definitions.encode_definitions(chosen_format, dialect, only))

    head = get

    def _choose(self, name: str, known: tuple[str, ...]) -> str:
        """Return the query parameter `name`, one of `known`; the first of them when it is absent."""
        value = parameters.get_choice(self.request, name, known)
        return known[0] if value is None else value


class OpenApiHandler(WapHandler):
    """Return the OpenAPI document."""

    allowed = ("GET", "HEAD")
    open_to_agents = True

    @verb
    async def get(self) -> None:
        await self.authorize(Effect.READ)
        self.finish(openapi.build_document(self.base_url))

    head = get
