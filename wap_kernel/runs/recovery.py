"""Recover runs that no process executes: its process died, or the approval that it waits for expired. On threads.

A process claims a run before it recovers it, so that no other process recovers the same run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

from wap_kernel.model.caller import Caller
from wap_kernel.model.errors import PARTIAL_EFFECT_HINT, ExecutionFailed, ProviderUnavailable, WapError
from wap_kernel.model.run import Approval, Run, RunStatus
from wap_kernel.runs.batch_layer import describe_conflicts, find_batch_layer
from wap_kernel.runs.services import CANCELLED, RunServices, encode_error, encode_withdrawal, undo_run
from wap_kernel.state.changes.history import RecoveredChanges


def recover_runs(services: RunServices, orphans: frozenset[str] = frozenset()) -> None:
    """Recover all runs that no process executes, at the start and periodically.

    A run that cannot be recovered does not keep the others from it. `orphans` are the runs of this process that no task
    executes.
    """
    for run in services.store.with_status(RunStatus.RUNNING):
        with _log_errors(services):
            if run.id in orphans:
                recover_run(services, run, "What became of this run could not be stored")
            else:
                recover_run_of_dead_owner(services, run)
    for run in services.store.with_status(RunStatus.AWAITING_APPROVAL):
        with _log_errors(services):
            _recover_pending(services, run)


def sweep_layers(services: RunServices) -> None:
    """Remove the layers that no run needs any more."""
    if services.workspace.layered is None:
        return

    def is_needed(owner: Mapping[str, Any]) -> bool:
        run = services.store.find(str(owner.get("run")))
        return run is not None and not run.status.is_final

    with _log_errors(services):
        services.workspace.layered.sweep(is_needed)


@contextmanager
def _log_errors(services: RunServices) -> Iterator[None]:
    """Log an error of the block; the next round tries again."""
    try:
        yield
    except WapError as error:  # the disk is full, say
        services.workspace.log.warning(
            "wap: a run could not be recovered, and the next round tries again: %s", error.text
        )
    except Exception as error:  # noqa: BLE001
        services.workspace.bug(error, "recovering a run")


def _recover_pending(services: RunServices, run: Run) -> None:
    approval = services.store.pending_approval(run.id)
    if approval is None:
        return
    if run.cancel_requested:
        cancel_pending(services, run, Caller())
    elif services.approval_requests.has_expired(approval):
        expire_approval(services, run, approval)


def recover_run_of_dead_owner(services: RunServices, run: Run) -> Run:
    """Recover a run if the process that executed it has died; return it as it is then."""
    if run.owner is not None and services.workspace.lease.is_alive(run.owner):
        return run
    return recover_run(services, run)


def recover_run(services: RunServices, run: Run, cause: str = "The process that executed this run ended") -> Run:
    """End a run with an error that names the operation under way, and undo an atomic run; return it as it is then."""
    if not services.store.claim(run, services.workspace.lease.id):
        return services.store.require(run.id)  # it has ended meanwhile, or another process recovers it
    current = services.store.require(run.id)
    recovered = services.workspace.history.recover(run.id)
    if _recover_batch(services, current, recovered):
        return services.store.require(run.id)
    under_way = current.steps[current.position] if current.position < current.count else None
    is_answered = current.response is not None or current.dialect not in services.encoders
    if under_way is None and is_answered and not current.options.atomic:
        # The process died between the last operation and the end of the run; nothing is missing.
        ended = RunStatus.CANCELLED if current.cancel_requested else RunStatus.COMPLETED
        services.store.change_status(current, RunStatus.RUNNING, ended)
        return services.store.require(run.id)
    details: dict[str, Any] = {"position": current.position}
    if under_way is not None:
        cause = f'{cause} while operation "{under_way.id}" ({under_way.tool}) was under way'
        details |= {"operationId": under_way.id, "operationType": under_way.tool}
        if others := _list_bulk_operations(current, recovered.positions):
            cause = f"{cause}, and with it {len(others)} more of which some may be done"
            details |= {"operationIds": [under_way.id, *others]}
    events = [services.events.write_error("system", f"{cause}.", details)]
    if current.options.atomic:
        events.append(undo_run(services, current, "The run did not end", under_way.id if under_way else ""))
    response = encode_error(services, current, ExecutionFailed(f"{cause}.", hint=PARTIAL_EFFECT_HINT, runId=current.id))
    services.store.change_status(current, RunStatus.RUNNING, RunStatus.ERROR, events=events, response=response)
    return services.store.require(run.id)


def _recover_batch(services: RunServices, run: Run, recovered: RecoveredChanges) -> bool:
    """End a run whose layer was being applied, or was applied, when its process died; return False for any other."""
    if not run.options.on_layer or run.options.dry_run:
        return False
    is_conflicting = bool(recovered.conflicts) and run.count in recovered.positions
    if not is_conflicting and not services.workspace.history.has_changes(run.id, run.count):
        return False
    with suppress(ProviderUnavailable):  # there are no layers here any more
        if (batch := find_batch_layer(services.workspace, run)) is not None:
            batch.keep("conflict") if is_conflicting else batch.discard()
    if is_conflicting:
        event = services.events.write_error("execution", *describe_conflicts(recovered.conflicts))
        services.store.change_status(run, RunStatus.RUNNING, RunStatus.ERROR, events=[event])
    else:
        services.store.change_status(run, RunStatus.RUNNING, RunStatus.COMPLETED)
    return True


def _list_bulk_operations(run: Run, recovered: Sequence[int]) -> list[str]:
    """Return the ids of the operations after the one at the run's position that a bulk create had begun as well."""
    return [run.steps[position].id for position in recovered if run.position < position < run.count]


def expire_approval(services: RunServices, run: Run, approval: Approval) -> bool:
    """End a run whose approval no person decided in time: it must not go on later, unattended."""
    minutes = round((approval.expires_at - approval.created_at) / 60)
    return _end_undecided(
        services,
        run,
        replace(approval, decision="expired"),
        f"The approval expired: no person decided within {minutes} minutes.",
    )


def cancel_pending(services: RunServices, run: Run, caller: Caller) -> bool:
    """End a run that waits for a person; return False if it waits no longer."""
    approval = services.store.pending_approval(run.id)
    if approval is None:
        return False
    decided = replace(approval, decision="cancelled", decided_by=caller.user)
    return _end_undecided(services, run, decided, CANCELLED)


def _end_undecided(services: RunServices, run: Run, decided: Approval, why: str) -> bool:
    current = services.store.require(run.id)
    step = current.steps[decided.position]
    events = [services.events.write_denial(step.id, step.operation, why, rule=decided.details.get("rule"))]
    response = encode_withdrawal(services, current, why)
    return end_pending(services, current, decided, RunStatus.CANCELLED, events, why.rstrip("."), response)


def end_pending(
    services: RunServices,
    run: Run,
    decided: Approval,
    status: RunStatus,
    events: list[dict[str, Any]],
    why: str,
    response: Mapping[str, Any] | None,
) -> bool:
    """End a run that waits for a person, with the decision; return False if it was decided before.

    An atomic run is undone. This process claims it first: if another decision came first, nothing may be undone.
    """
    waiting, running = RunStatus.AWAITING_APPROVAL, RunStatus.RUNNING
    change = services.store.change_status
    if not run.options.atomic:
        is_ended = change(run, waiting, status, events=events, decided_approval=decided, response=response)
        if is_ended:
            services.workspace.discard_layer(decided.layer)
        return is_ended
    position = decided.position + 1
    owner = services.workspace.lease.id
    if not change(run, waiting, running, owner=owner, position=position, events=events, decided_approval=decided):
        return False
    is_cancelled = status is RunStatus.CANCELLED
    undo_event = undo_run(services, run, why, decided.operation_id, is_cancelled=is_cancelled)
    change(run, running, status, events=[undo_event], response=response)
    return True
