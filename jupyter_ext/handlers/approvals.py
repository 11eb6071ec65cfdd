"""POST wap/runs/{runId}/decision: a person answers the question that a run waits for."""

from __future__ import annotations

from wap_kernel.model.limits import DEFAULT_WAIT_SECONDS
from wap_kernel.model.operations import Effect

from . import parameters
from .base import verb
from .run_requests import Decided
from .waiting import WaitingHandler

AUTH_RESOURCE = "wap_approvals"


class DecisionHandler(WaitingHandler):
    allowed = ("POST",)

    @verb
    async def post(self, run_id: str) -> None:
        await self.authorize(Effect.WRITE, AUTH_RESOURCE)
        wait = parameters.seconds(self.request, "wait", DEFAULT_WAIT_SECONDS)
        request = Decided.read(self.take_body())
        await self.answer_gone_on(await self.runner.decide(run_id, request.decided(), self.caller), wait)
