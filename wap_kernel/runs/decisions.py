"""A person's answer to what waits: checked against what was shown, stored once, and what follows. On threads."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from wap_kernel.model.call_context import CallContext
from wap_kernel.model.caller import Caller
from wap_kernel.model.errors import ApprovalRequired, Conflict, InvalidArgument, NotFound, PermissionDenied
from wap_kernel.model.operations import DecideApproval, GitAction, Operation
from wap_kernel.model.run import Approval, Run, RunStatus, Step
from wap_kernel.policy.grant_store import new_id
from wap_kernel.runs import recovery
from wap_kernel.runs.services import RunServices, describe_approval, encode_error
from wap_kernel.runs.store.run_store import RunStore


@dataclass(frozen=True)
class Decision:
    """To an approval or, where there is only one, to an operation."""

    approved: bool
    approval_id: str | None = None
    operation_id: str | None = None
    reason: str | None = None
    remember: bool = False
    """Never ask about the same again."""


def apply_decision(parts: RunServices, run: Run, decision: Decision, caller: Caller) -> tuple[Run, Approval]:
    """Store the decision, and make the run this process's own if it goes on."""
    approval = _find_approval(parts.ledger, run, decision)
    step = run.steps[approval.position]
    if run.cancel_requested:
        recovery.cancel_pending(parts, run, caller)
        raise Conflict("The run was cancelled.", runId=run.id)
    if parts.questions.has_expired(approval):
        recovery.expire_approval(parts, run, approval)
        raise Conflict("The approval has expired.", hint="Send the operations again.", runId=run.id)
    if decision.remember and approval.grant is None:
        raise InvalidArgument(
            "This cannot be allowed for good.",
            hint=_explain_no_grant(step.operation),
            runId=run.id,
        )
    if decision.approved and (changed := parts.questions.changed(approval, step, run.caller)):
        raise _renew_approval(parts, run, approval, changed)
    decided = replace(
        approval,
        decision="approved" if decision.approved else "denied",
        decided_by=caller.user,
        reason=decision.reason,
    )
    said = DecideApproval(run=run.id, approval=approval.id, decision=str(decided.decision))
    if decision.approved and decision.remember and approval.grant is not None:
        said = said.model_copy(update={"grant": new_id(), "remember": approval.grant.text})
    context = CallContext(tool=said.kind, run=run.id, step=step.id)
    # Its intent is handed in before the decision is, and so stored with it or before it.
    with parts.workspace.pipeline.recording(said, caller, context):
        if not (_approve if decision.approved else _deny)(parts, run, step, decided, said.grant):
            raise Conflict("The approval was decided already.", hint="The run shows how.", runId=run.id)
    fresh = parts.ledger.require(run.id)
    vars(fresh)["steps"] = run.steps  # known already
    return fresh, decided


def _explain_no_grant(operation: Operation) -> str:
    hint = "Decide without remember: it is asked about each time."
    if not isinstance(operation, GitAction):
        return hint
    return (
        f"{hint} Of git only fetch, pull and push can be remembered, for the url and the branch that the call names; "
        "never a push to a protected branch, by force, or that deletes."
    )


def _approve(parts: RunServices, run: Run, _: Step, decided: Approval, grant_id: str | None) -> bool:
    grant, by, grants = decided.grant, str(decided.decided_by), parts.workspace.grants
    granted: Callable[[sqlite3.Connection], object] | None = None
    if grant_id is not None and grant is not None:
        granted = partial(grants.insert, identifier=grant_id, grant=grant, by=by)
    waiting, running, owner = RunStatus.AWAITING_APPROVAL, RunStatus.RUNNING, parts.workspace.lease.id
    return parts.ledger.change(run, waiting, running, owner=owner, decided=decided, granted=granted)


def _deny(parts: RunServices, run: Run, step: Step, decided: Approval, _: str | None) -> bool:
    """The operation is skipped and the rest goes on; of an atomic run nothing stays."""
    reason = decided.reason or "A person denied it."
    events = [parts.events.denied(step.id, step.operation, reason, rule=decided.shown.get("rule"))]
    response = encode_error(parts, run, PermissionDenied(parts.workspace.redactor(reason), runId=run.id))
    if run.options.atomic:
        why = "An operation was denied"
        return recovery.end_pending(parts, run, decided, RunStatus.ERROR, events, why, response)
    return parts.ledger.change(
        run,
        RunStatus.AWAITING_APPROVAL,
        RunStatus.RUNNING,
        position=decided.position + 1,
        owner=parts.workspace.lease.id,
        events=events,
        decided=decided,
        response=response,
    )


def _find_approval(ledger: RunStore, run: Run, decision: Decision) -> Approval:
    """The approval that a decision is about."""
    known = ledger.approvals(run.id)
    if decision.approval_id is not None:
        found = [approval for approval in known if approval.id == decision.approval_id]
    else:
        found = [approval for approval in known if approval.operation_id == decision.operation_id]
        found = [approval for approval in found if approval.decision is None] or found
    if not found:
        named = decision.approval_id or decision.operation_id
        raise NotFound(f"The run has no approval for {named!r}.", hint="See the run's pendingApproval.", runId=run.id)
    approval = found[-1]
    if approval.decision is not None or run.status is not RunStatus.AWAITING_APPROVAL:
        became = approval.decision or run.status.value
        raise Conflict(f"The approval was decided already ({became}).", hint="The run shows how.", runId=run.id)
    return approval


def _renew_approval(parts: RunServices, run: Run, approval: Approval, changed: list[str]) -> Conflict:
    """What was shown is not what would happen now. The run waits for an answer to a new question."""
    step = run.steps[approval.position]
    reason, rule = str(approval.shown["reason"]), approval.shown.get("rule")
    refusal = ApprovalRequired(reason, hint=approval.shown.get("suggestion"), rule=rule, reason=reason)
    fresh = parts.questions.ask(run.id, approval.position, step, run.caller, refusal)
    event = parts.events.approval(step.id, step.operation, reason, describe_approval(fresh))
    waiting = RunStatus.AWAITING_APPROVAL
    void = replace(approval, decision="expired", reason="What was shown has changed.")
    if not parts.ledger.change(run, waiting, waiting, events=[event], decided=void, asked=fresh):
        return Conflict("The approval was decided already.", hint="The run shows how.", runId=run.id)
    return Conflict(
        f"Changed since it was shown: {', '.join(changed)}.",
        hint="Look at the new question and answer that.",
        paths=changed,
        runId=run.id,
        approvalId=fresh.id,
    )
