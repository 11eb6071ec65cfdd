"""Apply a person's decision on a pending approval: check that it still holds, store it once, go on. On threads."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from wap_kernel.model.caller import CallContext, Caller
from wap_kernel.model.errors import Conflict, InvalidArgument, NotFound, PermissionDenied
from wap_kernel.model.git.operations import GitAction
from wap_kernel.model.operations import DecideApproval, Operation
from wap_kernel.model.run import Approval, Run, RunStatus, Step
from wap_kernel.policy.grant_store import new_grant_id
from wap_kernel.runs import recovery
from wap_kernel.runs.batch_layer import open_batch_files
from wap_kernel.runs.services import RunServices, describe_approval, encode_error, repeat_refusal
from wap_kernel.runs.store.run_store import RunStore


@dataclass(frozen=True)
class Decision:
    """A person's decision on an approval, which is named by its id or by its operation."""

    approved: bool
    approval_id: str | None = None
    operation_id: str | None = None
    reason: str | None = None
    remember: bool = False
    """True to store a grant, so that the same operation needs no further approval."""


def apply_decision(services: RunServices, run: Run, decision: Decision, caller: Caller) -> tuple[Run, Approval]:
    """Store the decision, and make this process the owner of the run if it goes on."""
    approval = _find_approval(services.store, run, decision)
    step = run.steps[approval.position]
    if run.cancel_requested:
        recovery.cancel_pending(services, run, caller)
        raise Conflict("The run was cancelled.", runId=run.id)
    if services.approval_requests.has_expired(approval):
        recovery.expire_approval(services, run, approval)
        raise Conflict("The approval has expired.", hint="Send the operations again.", runId=run.id)
    if decision.remember and approval.grant is None:
        raise InvalidArgument(
            "This operation cannot be allowed for good.",
            hint=_explain_no_grant(step.operation),
            runId=run.id,
        )
    if decision.approved and (changed := _find_changes(services, run, approval, step)):
        raise _renew_approval(services, run, approval, changed)
    decided_approval = replace(
        approval,
        decision="approved" if decision.approved else "denied",
        decided_by=caller.user,
        reason=decision.reason,
    )
    operation = DecideApproval(run=run.id, approval=approval.id, decision=str(decided_approval.decision))
    if decision.approved and decision.remember and approval.grant is not None:
        operation = operation.model_copy(update={"grant": new_grant_id(), "remember": approval.grant.text})
    context = CallContext(tool=operation.kind, run=run.id, step=step.id)
    # The intent of the audit is queued before the decision is, and so stored with it or before it.
    with services.workspace.pipeline.audit_action(operation, caller, context):
        if not (_approve if decision.approved else _deny)(services, run, step, decided_approval, operation.grant):
            raise _make_decided(run)
    fresh = services.store.require(run.id)
    vars(fresh)["steps"] = run.steps  # known already
    return fresh, decided_approval


def _find_changes(services: RunServices, run: Run, approval: Approval, step: Step) -> list[str]:
    """Return the paths that differ from what the approval showed."""
    try:
        with open_batch_files(services.workspace, run) as files:
            return services.approval_requests.changed_paths(approval, step, run.caller, files=files)
    except (Conflict, NotFound):  # the layer of the run is in use, or gone
        current = services.store.approval(approval.id)
        if current is None or current.decision is None:
            raise
        raise _make_decided(run) from None


def _explain_no_grant(operation: Operation) -> str:
    hint = "Decide without remember: it needs approval each time."
    if not isinstance(operation, GitAction):
        return hint
    return (
        f"{hint} Of git only fetch, pull and push can be remembered, for the url and the branch that the call names; "
        "never a push to a protected branch, by force, or that deletes."
    )


def _approve(services: RunServices, run: Run, _: Step, decided: Approval, grant_id: str | None) -> bool:
    grant, by, grants = decided.grant, str(decided.decided_by), services.workspace.grants
    insert_grant: Callable[[sqlite3.Connection], object] | None = None
    if grant_id is not None and grant is not None:
        insert_grant = partial(grants.insert, identifier=grant_id, grant=grant, by=by)
    waiting, running, owner = RunStatus.AWAITING_APPROVAL, RunStatus.RUNNING, services.workspace.lease.id
    return services.store.change_status(
        run, waiting, running, owner=owner, decided_approval=decided, insert_grant=insert_grant
    )


def _deny(services: RunServices, run: Run, step: Step, decided: Approval, _: str | None) -> bool:
    """Skip the operation and go on with the rest; end and undo an atomic run."""
    reason = decided.reason or "A person denied it."
    events = [services.events.write_denial(step.id, step.operation, reason, rule=decided.details.get("rule"))]
    response = encode_error(services, run, PermissionDenied(services.workspace.redactor(reason), runId=run.id))
    if run.options.atomic:
        why = "An operation was denied"
        return recovery.end_pending(services, run, decided, RunStatus.ERROR, events, why, response)
    is_denied = services.store.change_status(
        run,
        RunStatus.AWAITING_APPROVAL,
        RunStatus.RUNNING,
        position=decided.position + 1,
        owner=services.workspace.lease.id,
        events=events,
        decided_approval=decided,
        response=response,
    )
    if is_denied:
        services.workspace.discard_layer(decided.layer)
    return is_denied


def _find_approval(store: RunStore, run: Run, decision: Decision) -> Approval:
    """Return the approval that the decision names; raise unless it is pending."""
    approvals = store.approvals(run.id)
    if decision.approval_id is not None:
        matches = [approval for approval in approvals if approval.id == decision.approval_id]
    else:
        matches = [approval for approval in approvals if approval.operation_id == decision.operation_id]
        matches = [approval for approval in matches if approval.decision is None] or matches
    if not matches:
        named = decision.approval_id or decision.operation_id
        raise NotFound(f"The run has no approval for {named!r}.", hint="See the run's pendingApproval.", runId=run.id)
    approval = matches[-1]
    if approval.decision is not None or run.status is not RunStatus.AWAITING_APPROVAL:
        became = approval.decision or run.status.value
        raise Conflict(f"The approval was decided already ({became}).", hint="The run shows how.", runId=run.id)
    return approval


def _make_decided(run: Run) -> Conflict:
    return Conflict("The approval was decided already.", hint="The run shows how.", runId=run.id)


def _renew_approval(services: RunServices, run: Run, approval: Approval, changed: list[str]) -> Conflict:
    """Replace an approval that shows what no longer holds, and return the Conflict that names the new one."""
    step = run.steps[approval.position]
    refusal = repeat_refusal(approval)
    with open_batch_files(services.workspace, run) as files:
        fresh = services.approval_requests.create(run.id, approval.position, step, run.caller, refusal, files=files)
    event = services.events.write_approval(step.id, step.operation, refusal.message, describe_approval(fresh))
    waiting = RunStatus.AWAITING_APPROVAL
    void = replace(approval, decision="expired", reason="What was shown has changed.")
    if not services.store.change_status(
        run, waiting, waiting, events=[event], decided_approval=void, new_approval=fresh
    ):
        return _make_decided(run)
    return Conflict(
        f"Changed since it was shown: {', '.join(changed)}.",
        hint="Look at the new approval and decide on that.",
        paths=changed,
        runId=run.id,
        approvalId=fresh.id,
    )
