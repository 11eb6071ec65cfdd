"""Create a run, or find the run that the same request created before; check whether a run may be reverted."""

from __future__ import annotations

import secrets
import sqlite3

from wap_kernel.model.caller import Caller
from wap_kernel.model.errors import Conflict, InvalidArgument, PermissionDenied, RateLimited
from wap_kernel.model.limits import MAX_PENDING_OPERATION_CHARACTERS
from wap_kernel.model.run import Run
from wap_kernel.runs.store.records import NewRun
from wap_kernel.runs.store.run_store import RunStore


def new_run_id() -> str:
    return f"run_{secrets.token_hex(8)}"


def create_run(store: RunStore, new: NewRun) -> tuple[Run, bool]:
    """Store `new`, or find the run that was started under its key; return the run and whether it is new."""
    earlier = _find_earlier(store, new)
    if earlier is not None:
        return earlier, False
    _check_pending_size(store, new)
    try:
        return store.create(new), True
    except sqlite3.IntegrityError:  # another request with the same key was faster
        winner = _find_earlier(store, new)
        if winner is None:
            raise Conflict("The run could not be stored.", hint="Try again.") from None
        return winner, False


def check_revert(run: Run, caller: Caller, *, force: bool) -> None:
    """Raise unless the caller may start a run that reverts `run`."""
    if force and caller.token is not None:
        raise PermissionDenied("Only a person may force a revert.", hint="A forced revert overwrites later changes.")
    if run.reverts is not None and caller.token is not None:  # what a person approved once would happen twice
        raise PermissionDenied("Only a person may revert a revert.", hint="Send the operations again instead.")
    if not run.status.is_final:
        raise Conflict(f"The run has not ended ({run.status.value}).", hint="Cancel it first.", runId=run.id)
    if run.options.dry_run:
        raise InvalidArgument("A dry run changed nothing.", runId=run.id)


def _find_earlier(store: RunStore, new: NewRun) -> Run | None:
    earlier = None if new.key is None else store.find_by_key(new.caller, new.key)
    if earlier is None:
        return None
    run, digest = earlier
    if digest != new.digest:
        raise Conflict("This Idempotency-Key was used for another request.", hint="Use a new key.", runId=run.id)
    return run


def _check_pending_size(store: RunStore, new: NewRun) -> None:
    token = new.caller.token
    if token is not None and store.count_pending_characters(token) > MAX_PENDING_OPERATION_CHARACTERS:
        raise RateLimited(
            f"The runs of this agent that have not ended hold over {MAX_PENDING_OPERATION_CHARACTERS} characters.",
            hint="Wait until some have ended, or cancel them.",
            limit="heldBytes",
            retryAfterMs=10_000,
        )
