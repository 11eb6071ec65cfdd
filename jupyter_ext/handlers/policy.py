"""GET wap/policy and POST wap/policy/check: the policy of the caller, and verdicts on operations in advance."""

from __future__ import annotations

import json

from wap_kernel.dialects import batch_authorization
from wap_kernel.dialects.agent_spaces import operations as agent_spaces
from wap_kernel.model.operations import Effect
from wap_kernel.policy.verdict import Verdict

from .base import WapHandler, verb


class PolicyHandler(WapHandler):
    """Return the policy that binds the caller."""

    allowed = ("GET", "HEAD")
    open_to_agents = True

    @verb
    async def get(self) -> None:
        await self.authorize(Effect.READ)
        self.finish(json.dumps(await self.workspace.describe_policy(self.caller)))

    head = get


class PolicyCheckHandler(WapHandler):
    """Return the verdict on each operation of a message; none is performed."""

    allowed = ("POST",)
    open_to_agents = True

    @verb
    async def post(self) -> None:
        await self.authorize(Effect.READ)
        async with self.count_as_operation():  # a check costs as much as an operation
            await self._check()

    async def _check(self) -> None:
        body, workspace = self.take_body(), self.workspace
        steps = await workspace.offload(lambda: agent_spaces.parse_message(body).steps())
        refused = await batch_authorization.find_refusals(steps, self.caller, None)
        verdicts = await workspace.check([step.operation for step in steps], self.caller)
        for position, step in enumerate(steps):
            if step.id in refused:
                verdicts[position] = Verdict.from_error(refused[step.id], batch_authorization.SCOPE_RULE)
        answers = [_encode_verdict(step.id, verdict) for step, verdict in zip(steps, verdicts, strict=True)]
        self.finish(json.dumps({"verdicts": answers}))


def _encode_verdict(operation_id: str, verdict: Verdict) -> dict[str, str]:
    answer = {
        "operationId": operation_id,
        "verdict": verdict.kind.value,
        "rule": verdict.rule,
        "reason": verdict.reason,
    }
    return answer | ({"suggestion": verdict.suggestion} if verdict.suggestion else {})
