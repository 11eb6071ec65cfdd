"""Runs that nobody executes: left by a process that died, waiting for a person, waited for too long.

On threads. Whoever settles one takes it first, so that nobody else does the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from wap_kernel.model.caller import Caller
from wap_kernel.model.errors import PARTIAL_EFFECT_HINT, ExecutionFailed, WapError
from wap_kernel.model.run import Approval, Run, RunStatus
from wap_kernel.runs.services import CANCELLED, RunServices, encode_error, encode_withdrawal, undo_run


def recover_runs(parts: RunServices, orphans: frozenset[str] = frozenset()) -> None:
    """At the start, and every now and then. One that cannot be settled does not keep the others from it. `orphans`: of
    this process, though no task executes them."""
    for run in parts.ledger.with_status(RunStatus.RUNNING):
        with _log_errors(parts):
            if run.id in orphans:
                recover_run(parts, run, "What became of this run could not be stored")
            else:
                recover_run_of_dead_owner(parts, run)
    for run in parts.ledger.with_status(RunStatus.AWAITING_APPROVAL):
        with _log_errors(parts):
            _recover_pending(parts, run)


@contextmanager
def _log_errors(parts: RunServices) -> Iterator[None]:
    """It is tried again."""
    try:
        yield
    except WapError as error:  # the disk is full, say
        parts.workspace.log.warning("wap: a run could not be settled: %s", error.text)
    except Exception as error:  # noqa: BLE001
        parts.workspace.bug(error, "settling a run")


def _recover_pending(parts: RunServices, run: Run) -> None:
    approval = parts.ledger.pending(run.id)
    if approval is None:
        return
    if run.cancel_requested:
        cancel_pending(parts, run, Caller())
    elif parts.questions.has_expired(approval):
        expire_approval(parts, run, approval)


def recover_run_of_dead_owner(parts: RunServices, run: Run) -> Run:
    """Mark a run as failed if the process that executed it has died."""
    if run.owner is not None and parts.workspace.lease.is_alive(run.owner):
        return run
    return recover_run(parts, run)


def recover_run(parts: RunServices, run: Run, said: str = "The process that executed this run ended") -> Run:
    """Say what was under way, and undo what is all or nothing."""
    if not parts.ledger.claim(run, parts.workspace.lease.id):
        return parts.ledger.require(run.id)  # it has ended meanwhile, or somebody else takes care of it
    current = parts.ledger.require(run.id)
    under_way = current.steps[current.position] if current.position < current.count else None
    is_answered = current.response is not None or current.dialect not in parts.encoders
    if under_way is None and is_answered and not current.options.atomic:
        # It died between its last operation and saying so; nothing is missing.
        ended = RunStatus.CANCELLED if current.cancel_requested else RunStatus.COMPLETED
        parts.ledger.change(current, RunStatus.RUNNING, ended)
        return parts.ledger.require(run.id)
    known: dict[str, Any] = {"position": current.position}
    if under_way is not None:
        said = f'{said} while operation "{under_way.id}" ({under_way.tool}) was under way'
        known |= {"operationId": under_way.id, "operationType": under_way.tool}
        if others := _list_bulk_operations(parts, current):
            said = f"{said}, and with it {len(others)} more of which some may be done"
            known |= {"operationIds": [under_way.id, *others]}
    events = [parts.events.error("system", f"{said}.", known)]
    if current.options.atomic:
        events.append(undo_run(parts, current, "The run did not end", under_way.id if under_way else ""))
    response = encode_error(parts, current, ExecutionFailed(f"{said}.", hint=PARTIAL_EFFECT_HINT, runId=current.id))
    parts.ledger.change(current, RunStatus.RUNNING, RunStatus.ERROR, events=events, response=response)
    return parts.ledger.require(run.id)


def _list_bulk_operations(parts: RunServices, run: Run) -> list[str]:
    """The operations after the one at its position that had begun as well, see `making.py`."""
    begun = parts.workspace.undo.settle(run)
    return [run.steps[position].id for position in begun if run.position < position < run.count]


def expire_approval(parts: RunServices, run: Run, approval: Approval) -> bool:
    """Nobody answered. The run ends: to go on later, with nobody there, is not what anyone expects."""
    minutes = round((approval.expires_at - approval.created_at) / 60)
    return _end_undecided(parts, run, replace(approval, decision="expired"), f"Nobody decided within {minutes} minutes.")


def cancel_pending(parts: RunServices, run: Run, caller: Caller) -> bool:
    """Whether it was still waiting."""
    approval = parts.ledger.pending(run.id)
    if approval is None:
        return False
    decided = replace(approval, decision="cancelled", decided_by=caller.user)
    return _end_undecided(parts, run, decided, CANCELLED)


def _end_undecided(parts: RunServices, run: Run, decided: Approval, why: str) -> bool:
    current = parts.ledger.require(run.id)
    step = current.steps[decided.position]
    events = [parts.events.denied(step.id, step.operation, why, rule=decided.shown.get("rule"))]
    response = encode_withdrawal(parts, current, why)
    return end_pending(parts, current, decided, RunStatus.CANCELLED, events, why.rstrip("."), response)


def end_pending(
    parts: RunServices,
    run: Run,
    decided: Approval,
    status: RunStatus,
    events: list[dict[str, Any]],
    why: str,
    response: Mapping[str, Any] | None,
) -> bool:
    """End a run that waits, with an answer to its question; False if it was answered before.

    Of an atomic run everything is undone. It is taken first: whoever loses against another answer must not undo.
    """
    waiting, running = RunStatus.AWAITING_APPROVAL, RunStatus.RUNNING
    change = parts.ledger.change
    if not run.options.atomic:
        return change(run, waiting, status, events=events, decided=decided, response=response)
    position = decided.position + 1
    owner = parts.workspace.lease.id
    if not change(run, waiting, running, owner=owner, position=position, events=events, decided=decided):
        return False
    undoing = undo_run(parts, run, why, decided.operation_id)
    change(run, running, status, events=[undoing], response=response)
    return True
