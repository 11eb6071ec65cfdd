"""GET wap/grants and DELETE wap/grants/{id}: what a person allowed for good, and how that is taken back."""

from __future__ import annotations

import json

from wap_kernel.model.errors import NotFound
from wap_kernel.model.operations import Effect

from .approvals import AUTH_RESOURCE
from .base import WapHandler, verb


class GrantsHandler(WapHandler):
    allowed = ("GET", "HEAD")

    @verb
    async def get(self) -> None:
        await self.authorize(Effect.READ, AUTH_RESOURCE)
        given = await self.workspace.offload(self.workspace.grants.given)
        grants = [
            {"id": one.id, "allows": one.grant.text, "createdAt": one.created_at, "createdBy": one.created_by}
            for one in reversed(given)
        ]
        self.finish(json.dumps({"grants": grants}))

    head = get


class GrantHandler(WapHandler):
    allowed = ("DELETE",)

    @verb
    async def delete(self, grant_id: str) -> None:
        await self.authorize(Effect.WRITE, AUTH_RESOURCE)
        grants = self.workspace.grants
        if not await self.workspace.offload(lambda: grants.revoke(grant_id)):
            raise NotFound("There is no such grant.", hint="List the grants to see their ids.")
        await self.workspace.administered("revokeGrant", grant_id, self.caller)
        self.log.info("wap: grant %s was revoked", grant_id)
        self.set_status(204)
        self.finish()
