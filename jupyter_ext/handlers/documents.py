"""GET wap/tools and wap/openapi.json: the tools, described for models and for programs."""

from __future__ import annotations

from wap_kernel.model.errors import InvalidArgument
from wap_kernel.model.operations import Effect

from .. import openapi, tool_definitions
from .base import WapHandler, verb


class ToolsHandler(WapHandler):
    allowed = ("GET", "HEAD")
    open_to_agents = True

    @verb
    async def get(self) -> None:
        await self.authorize(Effect.READ)
        chosen_format = self._choice("format", tool_definitions.FORMATS)
        dialect = self._choice("dialect", tool_definitions.DIALECTS)
        only = None if self.agent is None else self.agent.scope.tools
        self.finish(tool_definitions.document(chosen_format, dialect, only))

    head = get

    def _choice(self, name: str, known: tuple[str, ...]) -> str:
        """The query argument `name`, one of `known`; the first of them when it is absent."""
        values = self.request.query_arguments.get(name)
        value = values[-1].decode("utf-8", "replace") if values else known[0]
        if value not in known:
            raise InvalidArgument(f"Unknown {name}.", hint=f"Known are: {', '.join(known)}.", known=list(known))
        return value


class OpenApiHandler(WapHandler):
    allowed = ("GET", "HEAD")
    open_to_agents = True

    @verb
    async def get(self) -> None:
        await self.authorize(Effect.READ)
        self.finish(openapi.document(self.base_url))

    head = get
