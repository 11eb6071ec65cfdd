"""POST wap/runs/{runId}/decision, GET wap/grants, DELETE wap/grants/{id}: approve or deny, list and revoke grants."""

from __future__ import annotations

import json
from typing import Literal

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from wap_kernel.dialects.tool import Parameters
from wap_kernel.model.errors import NotFound
from wap_kernel.model.limits import DEFAULT_WAIT_SECONDS
from wap_kernel.model.operations import Effect
from wap_kernel.runs.decisions import Decision

from . import parameters
from .base import WapHandler, verb
from .runs import RunResponseHandler

AUTH_RESOURCE = "wap_approvals"


class DecisionRequest(Parameters):
    """The body of `POST wap/runs/{runId}/decision`."""

    approval_id: str | None = Field(
        None, min_length=1, max_length=200, description="The id of the approval, as pendingApproval has it."
    )
    operation_id: str | None = Field(
        None, min_length=1, max_length=200, description="Instead of approvalId: the operation that waits."
    )
    decision: Literal["approved", "denied"]
    reason: str | None = Field(None, max_length=2000, description="For the agent and the audit.")
    remember: bool = Field(False, description="Allow the same from now on, without asking (with approved only).")

    @model_validator(mode="after")
    def _check_fields(self) -> DecisionRequest:
        if (self.approval_id is None) == (self.operation_id is None):
            raise PydanticCustomError("question", "Name what is decided: either approvalId or operationId.")
        if self.remember and self.decision == "denied":
            raise PydanticCustomError("remember", "Only what was approved can be remembered.")
        return self

    def to_decision(self) -> Decision:
        return Decision(
            approval_id=self.approval_id,
            operation_id=self.operation_id,
            approved=self.decision == "approved",
            reason=self.reason,
            remember=self.remember,
        )


class DecisionHandler(RunResponseHandler):
    """Let a person approve or deny the operation that a run waits with."""

    allowed = ("POST",)

    @verb
    async def post(self, run_id: str) -> None:
        await self.authorize(Effect.WRITE, AUTH_RESOURCE)
        wait = parameters.get_seconds(self.request, "wait", DEFAULT_WAIT_SECONDS)
        request = parameters.parse_body(DecisionRequest, self.take_body())
        run = await self.runner.decide(run_id, request.to_decision(), self.caller)
        await self.answer_continued_run(run, wait)


class GrantsHandler(WapHandler):
    """List the grants of the workspace, newest first."""

    allowed = ("GET", "HEAD")

    @verb
    async def get(self) -> None:
        await self.authorize(Effect.READ, AUTH_RESOURCE)
        stored = await self.workspace.offload(self.workspace.grants.records)
        grants = [
            {"id": one.id, "allows": one.grant.text, "createdAt": one.created_at, "createdBy": one.created_by}
            for one in reversed(stored)
        ]
        self.finish(json.dumps({"grants": grants}))

    head = get


class GrantHandler(WapHandler):
    """Revoke one grant."""

    allowed = ("DELETE",)

    @verb
    async def delete(self, grant_id: str) -> None:
        await self.authorize(Effect.WRITE, AUTH_RESOURCE)
        grants = self.workspace.grants
        if not await self.workspace.offload(lambda: grants.revoke(grant_id)):
            raise NotFound("There is no such grant.", hint="List the grants to see their ids.")
        await self.workspace.audit_administration("revokeGrant", grant_id, self.caller)
        self.log.info("wap: grant %s was revoked", grant_id)
        self.set_status(204)
        self.finish()
