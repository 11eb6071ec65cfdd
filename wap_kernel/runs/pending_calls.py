"""A single call that needs a person's agreement: it becomes a run of one operation that waits. On threads."""

from __future__ import annotations

import secrets

from wap_kernel.model.caller import Caller
from wap_kernel.model.errors import ApprovalRequired
from wap_kernel.model.limits import MAX_PENDING_APPROVALS
from wap_kernel.model.run import Approval, BatchOptions, RunStatus, Step
from wap_kernel.runs.services import RunServices, describe_approval
from wap_kernel.runs.step_execution import too_many_pending
from wap_kernel.runs.store.run_store import NewRun, sender_key


class PendingCalls:
    def __init__(self, parts: RunServices) -> None:
        self._parts = parts
        self._shared: set[str] = set()

    def is_shared(self, run_id: str) -> bool:
        """Whether more than one call has put this question. Then it does not end with one of them."""
        return run_id in self._shared

    def park(self, step: Step, caller: Caller, dialect: str, refusal: ApprovalRequired) -> Approval:
        parts = self._parts
        waiting = self._waiting_for_the_same(step, caller, dialect)
        if waiting is not None:
            self._shared.add(waiting.run)
            return waiting
        if caller.token is not None and parts.ledger.waiting(caller.token) >= MAX_PENDING_APPROVALS:
            raise too_many_pending()
        identifier = new_run_id()
        approval = parts.questions.ask(identifier, 0, step, caller, refusal)
        reason = str(approval.shown["reason"])
        event = parts.events.approval(step.id, step.operation, reason, describe_approval(approval))
        new = NewRun(identifier, caller, dialect, BatchOptions(), (step,), None, RunStatus.AWAITING_APPROVAL)
        parts.ledger.create(new, approval, [event])
        return approval

    def _waiting_for_the_same(self, step: Step, caller: Caller, dialect: str) -> Approval | None:
        """An agent that asks again is not asking for something else."""
        parts = self._parts
        known = set(self._shared)  # before the look: what another call adds meanwhile may not be in it yet
        glances = parts.ledger.with_status(RunStatus.AWAITING_APPROVAL)
        self._shared -= known.difference(glance.id for glance in glances)
        for glance in glances:
            if glance.dialect != dialect or sender_key(glance.caller) != sender_key(caller) or glance.count != 1:
                continue
            pending = parts.ledger.pending(glance.id)
            if pending is None or parts.questions.has_expired(pending):
                continue
            is_same = parts.ledger.require(glance.id).steps[0] == step
            if is_same and not parts.questions.changed(pending, step, caller):
                return pending
        return None


def new_run_id() -> str:
    return f"run_{secrets.token_hex(8)}"
