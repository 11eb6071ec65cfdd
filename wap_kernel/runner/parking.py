"""A single call that needs a person's agreement: it becomes a run of one operation that waits. On threads."""

from __future__ import annotations

import secrets

from wap_kernel.caller import Caller
from wap_kernel.errors import ApprovalRequired
from wap_kernel.runner.parts import Parts, details_of
from wap_kernel.runner.performing import MAX_WAITING, too_many_waiting
from wap_kernel.runs.ledger import NewRun, asker
from wap_kernel.runs.model import Approval, Options, Status, Step


def park(parts: Parts, step: Step, caller: Caller, dialect: str, refusal: ApprovalRequired) -> Approval:
    waiting = _waiting_for_the_same(parts, step, caller, dialect)
    if waiting is not None:
        return waiting
    if caller.token is not None and parts.ledger.waiting(caller.token) >= MAX_WAITING:
        raise too_many_waiting()
    identifier = new_id()
    approval = parts.questions.ask(identifier, 0, step, caller, refusal)
    reason = str(approval.shown["reason"])
    event = parts.events.approval(step.id, step.operation, reason, details_of(approval))
    new = NewRun(identifier, caller, dialect, Options(), (step,), None, Status.AWAITING_APPROVAL)
    parts.ledger.create(new, approval, [event])
    return approval


def _waiting_for_the_same(parts: Parts, step: Step, caller: Caller, dialect: str) -> Approval | None:
    """An agent that asks again is not asking for something else."""
    for glance in parts.ledger.with_status(Status.AWAITING_APPROVAL):
        if glance.dialect != dialect or asker(glance.caller) != asker(caller) or glance.count != 1:
            continue
        pending = parts.ledger.pending(glance.id)
        if pending is None or parts.questions.has_expired(pending):
            continue
        if parts.ledger.require(glance.id).steps[0] == step and not parts.questions.changed(pending, step, caller):
            return pending
    return None


def new_id() -> str:
    return f"run_{secrets.token_hex(8)}"
