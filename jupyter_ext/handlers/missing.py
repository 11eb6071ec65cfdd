"""Every other path below wap/: an error in our form instead of Jupyter's page."""

from __future__ import annotations

from wap_kernel.model.errors import NotFound

from .base import WapHandler, verb


class MissingHandler(WapHandler):
    open_to_agents = True

    @verb
    async def get(self) -> None:
        raise NotFound("There is nothing at this address.", hint="See wap/openapi.json.")

    head = post = put = patch = delete = get
