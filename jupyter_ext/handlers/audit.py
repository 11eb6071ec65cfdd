"""GET wap/audit: the audit records of the workspace, newest first. For a person."""

from __future__ import annotations

import json

from wap_kernel.model.limits import DEFAULT_PAGE, MAX_PAGE
from wap_kernel.model.operations import Effect
from wap_kernel.state.audit.query import OUTCOMES, AuditQuery

from . import parameters
from .base import WapHandler, verb

AUTH_RESOURCE = "wap_audit"


class AuditHandler(WapHandler):
    """List audit records by page."""

    allowed = ("GET", "HEAD")

    @verb
    async def get(self) -> None:
        await self.authorize(Effect.READ, AUTH_RESOURCE)
        page = AuditQuery(
            limit=parameters.get_integer(self.request, "limit", DEFAULT_PAGE, 1, MAX_PAGE),
            cursor=parameters.get_text(self.request, "cursor"),
            tool=parameters.get_text(self.request, "tool"),
            outcome=parameters.get_choice(self.request, "outcome", OUTCOMES),
        )
        self.finish(json.dumps(await self.workspace.audit_page(page)).encode("ascii"))

    head = get
