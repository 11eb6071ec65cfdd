"""A person's answer to what waits: checked against what was shown, stored once, and what follows. On threads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from wap_kernel.caller import Caller
from wap_kernel.errors import ApprovalRequired, Conflict, InvalidArgument, NotFound
from wap_kernel.runner import recovery
from wap_kernel.runner.execution import Parts, details_of, undone
from wap_kernel.runs.ledger import Ledger
from wap_kernel.runs.model import Approval, Run, Status, Step


@dataclass(frozen=True)
class Decision:
    """To an approval or, where there is only one, to an operation."""

    approved: bool
    approval_id: str | None = None
    operation_id: str | None = None
    reason: str | None = None
    remember: bool = False
    """Never ask about the same again."""


def take_over(parts: Parts, run: Run, decision: Decision, caller: Caller) -> tuple[Run, Approval]:
    """Store the decision, and make the run this process's own if it goes on."""
    approval = _question(parts.ledger, run, decision)
    step = run.steps[approval.position]
    if parts.questions.has_expired(approval):
        recovery.expire(parts, run, approval)
        raise Conflict("The approval has expired.", hint="Send the operations again.", runId=run.id)
    if decision.remember and approval.grant is None:
        raise InvalidArgument(
            "This cannot be allowed for good.",
            hint="Decide without remember: it is asked about each time.",
            runId=run.id,
        )
    if decision.approved and (changed := parts.questions.changed(approval, step, run.caller)):
        raise _ask_again(parts, run, approval, changed)
    decided = replace(
        approval,
        decision="approved" if decision.approved else "denied",
        decided_by=caller.user,
        reason=decision.reason,
    )
    owner = parts.workspace.lease.id
    if decision.approved:
        waiting, running = Status.AWAITING_APPROVAL, Status.RUNNING
        is_ours = parts.ledger.change(run.id, waiting, running, owner=owner, decided=decided)
    else:
        is_ours = _deny(parts, run, step, decided)
    if not is_ours:
        raise Conflict("The approval was decided already.", hint="GET the run to see how.", runId=run.id)
    parts.workspace.decided(step, decided, caller)
    if decision.approved and approval.grant is not None and decision.remember:
        parts.workspace.grants.add(approval.grant, caller.user)
    return parts.ledger.require(run.id), decided


def _deny(parts: Parts, run: Run, step: Step, decided: Approval) -> bool:
    """The operation is skipped and the rest goes on; of an atomic run nothing stays."""
    reason = decided.reason or "A person denied it."
    events = [parts.events.denied(step.id, step.operation, reason, rule=decided.shown.get("rule"))]
    status, owner = Status.RUNNING, str(parts.workspace.lease.id)
    if run.options.atomic:
        events.append(undone(parts, run, "An operation was denied", step.id))
        status, owner = Status.ERROR, ""
    return parts.ledger.change(
        run.id,
        Status.AWAITING_APPROVAL,
        status,
        position=decided.position + 1,
        owner=owner or None,
        events=events,
        decided=decided,
        response=denial(parts, run, reason),
    )


def denial(parts: Parts, run: Run, reason: str) -> Mapping[str, Any] | None:
    """The answer of a single call that was not agreed to."""
    if run.dialect not in parts.responses:
        return None
    return {"error": reason, "code": "PERMISSION_DENIED", "details": {"runId": run.id}}


def _question(ledger: Ledger, run: Run, decision: Decision) -> Approval:
    """The approval that a decision is about."""
    known = ledger.approvals(run.id)
    if decision.approval_id is not None:
        found = [approval for approval in known if approval.id == decision.approval_id]
    else:
        found = [approval for approval in known if approval.operation_id == decision.operation_id]
        found = [approval for approval in found if approval.decision is None] or found
    if not found:
        named = decision.approval_id or decision.operation_id
        raise NotFound(f"The run has no approval for {named!r}.", hint="GET the run: pendingApproval.", runId=run.id)
    approval = found[-1]
    if approval.decision is not None or run.status is not Status.AWAITING_APPROVAL:
        became = approval.decision or run.status.value
        raise Conflict(f"The approval was decided already ({became}).", hint="GET the run to see how.", runId=run.id)
    return approval


def _ask_again(parts: Parts, run: Run, approval: Approval, changed: list[str]) -> Conflict:
    """What was shown is not what would happen now. The run waits for an answer to a new question."""
    step = run.steps[approval.position]
    reason, rule = str(approval.shown["reason"]), approval.shown.get("rule")
    refusal = ApprovalRequired(reason, hint=approval.shown.get("suggestion"), rule=rule, reason=reason)
    fresh = parts.questions.ask(run.id, approval.position, step, run.caller, refusal)
    event = parts.events.approval(step.id, step.operation, reason, details_of(fresh))
    waiting = Status.AWAITING_APPROVAL
    void = replace(approval, decision="expired", reason="What was shown has changed.")
    parts.ledger.change(run.id, waiting, waiting, events=[event], decided=void, asked=fresh)
    return Conflict(
        f"Changed since it was shown: {', '.join(changed)}.",
        hint="Look at the new question and answer that.",
        paths=changed,
        runId=run.id,
        approvalId=fresh.id,
    )
