"""Runs that nobody executes: left by a process that died, waiting for a person, waited for too long.

On threads. Each step is one transaction that first looks whether somebody else has taken it already.
"""

from __future__ import annotations

from dataclasses import replace

from wap_kernel.caller import Caller
from wap_kernel.errors import WapError
from wap_kernel.runner.execution import Parts, undone
from wap_kernel.runs.model import Approval, Run, Status


def settle(parts: Parts) -> None:
    """At the start, and every now and then."""
    for run in parts.ledger.with_status(Status.RUNNING):
        bury_if_dead(parts, run)
    expire_due(parts)


def tend(parts: Parts) -> list[str]:
    """What has come up meanwhile; returns the runs of this process that another one wants to end."""
    settle(parts)
    return parts.ledger.cancellations(parts.workspace.lease.id)


def bury_if_dead(parts: Parts, run: Run) -> Run:
    """Mark a run as failed if the process that executed it has died, and say what was under way."""
    if run.owner is not None and parts.workspace.lease.is_alive(run.owner):
        return run
    current = parts.ledger.require(run.id)  # it may have ended, and its process after it, since it was read
    if current.status is not Status.RUNNING or current.owner != run.owner:
        return current
    under_way = current.steps[current.position] if current.position < current.count else None
    if under_way is None and not current.options.atomic and current.response is None:
        # It died between its last operation and saying so; nothing is missing.
        status = Status.CANCELLED if current.cancel_requested else Status.COMPLETED
        if current.dialect not in parts.responses:
            parts.ledger.change(current.id, Status.RUNNING, status)
            return parts.ledger.require(run.id)
    details = {"position": current.position}
    said = "The process that executed this run ended"
    if under_way is not None:
        said = f'{said} while operation "{under_way.id}" ({under_way.tool}) was under way'
    known = details | ({"operationId": under_way.id, "operationType": under_way.tool} if under_way else {})
    events = [parts.events.error("system", f"{said}.", known)]
    if current.options.atomic:
        events.append(undone(parts, current, "The run did not end", under_way.id if under_way else ""))
    response = None
    if current.dialect in parts.responses:
        response = {"error": f"{said}.", "code": "EXECUTION_FAILED", "details": {"runId": current.id}}
    parts.ledger.change(current.id, Status.RUNNING, Status.ERROR, events=events, response=response)
    return parts.ledger.require(run.id)


def expire_due(parts: Parts) -> None:
    for run in parts.ledger.with_status(Status.AWAITING_APPROVAL):
        approval = parts.ledger.pending(run.id)
        if approval is not None and parts.questions.has_expired(approval):
            expire(parts, run, approval)


def expire(parts: Parts, run: Run, approval: Approval) -> None:
    """Nobody answered. The run ends: to go on later, with nobody there, is not what anyone expects."""
    minutes = round((approval.expires_at - approval.created_at) / 60)
    _give_up(parts, run, replace(approval, decision="expired"), f"Nobody decided within {minutes} minutes.")


def cancel_waiting(parts: Parts, run: Run, caller: Caller) -> None:
    approval = parts.ledger.pending(run.id)
    if approval is not None:
        decided = replace(approval, decision="cancelled", decided_by=caller.user)
        _give_up(parts, run, decided, "The run was cancelled.")


def _give_up(parts: Parts, run: Run, decided: Approval, why: str) -> None:
    step = run.steps[decided.position]
    events = [parts.events.denied(step.id, step.operation, why, rule=decided.shown.get("rule"))]
    if run.options.atomic:
        try:
            events.append(undone(parts, run, why.rstrip("."), step.id))
        except WapError as error:
            events.append(parts.events.error("system", error.text))
    response = None
    if run.dialect in parts.responses:
        response = {"error": why, "code": "PERMISSION_DENIED", "details": {"runId": run.id}}
    parts.ledger.change(
        run.id, Status.AWAITING_APPROVAL, Status.CANCELLED, events=events, decided=decided, response=response
    )
