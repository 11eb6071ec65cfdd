"""Find the run that a person names: by its id, the beginning of it, `last`, or as the only one that waits."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from wap_kernel.client.backend import Backend
from wap_kernel.client.results import ACTIVE_STATUSES
from wap_kernel.model.errors import InvalidArgument, NotFound

LAST = "last"
RUN_ID = re.compile(r"run_[0-9a-f]{16}")
ID_PREFIX = re.compile(r"(run_|apr_)?[0-9a-f]{4,16}")
"""A run id or approval id, or four digits of it: fewer would match too many."""
MAX_LISTED_RUNS = 1000
"""Runs among which the beginning of an id is looked up."""


NEWEST_RUNS = 100
"""Runs among which the newest that has ended is looked up."""
Newest = Literal["any", "ended"]


class PendingApproval(NamedTuple):
    """A run that waits for a decision, and its approval."""

    run: str
    approval: str
    operations: int
    """The number of operations in the run."""


def resolve_run_id(backend: Backend, name: str, last: str | None, *, or_newest: Newest | None = None) -> str:
    """Return the id of the run that `name` means; `last` is the caller's own last run.

    With `or_newest`, where the caller has started none, the name `last` means the newest run of any caller, or the
    newest that has ended: every single call that changed something is a run.
    """
    if name == LAST and last is None and or_newest is not None:
        runs = backend.runs(None, NEWEST_RUNS if or_newest == "ended" else 1)["runs"]
        last = next((str(run["runId"]) for run in runs if or_newest == "any" or not _is_active(run)), None)
    if name == LAST:
        return _require_last(last)
    if RUN_ID.fullmatch(name):
        return name
    _require_prefix(name)
    runs = [str(run["runId"]) for run in backend.runs(None, MAX_LISTED_RUNS)["runs"]]
    return _require_one([run for run in runs if run.startswith((name, f"run_{name}"))], name)


def find_pending_approval(
    backend: Backend, name: str | None, last: str | None, displayed: Collection[str] = ()
) -> PendingApproval:
    """Return the approval that `name` means: by its run, by its own id, or as the only one that waits.

    Without a name, the approvals that were `displayed` to the person count first.
    """
    waiting = [
        PendingApproval(str(run["runId"]), str(run["pendingApproval"]["approvalId"]), int(run.get("operations", 0)))
        for run in backend.runs("awaiting_approval", MAX_LISTED_RUNS)["runs"]
        if "pendingApproval" in run
    ]
    if name is None:
        return _require_single([one for one in waiting if one.approval in displayed] or waiting)
    if name == LAST:
        name = _require_last(last)
    _require_prefix(name)
    matches = {
        one.run: one
        for one in waiting
        if any(known.startswith((name, f"{known[:4]}{name}")) for known in (one.run, one.approval))
    }
    if not matches and RUN_ID.fullmatch(name):
        status = backend.get(name)["status"]  # raises where there is no such run
        raise NotFound(
            f"{name} does not wait for approval: its status is {status.replace('_', ' ')}.",
            hint="Nothing is left to do.",
        )
    return matches[_require_one(list(matches), name)]


def _is_active(run: Mapping[str, Any]) -> bool:
    return run.get("status") in ACTIVE_STATUSES


def _require_last(last: str | None) -> str:
    """Return the caller's own last run; the newest of any caller may be an agent's."""
    if last is None:
        raise NotFound("No run was started here yet.", hint="List the runs, and name one by its id.")
    return last


def _require_prefix(name: str) -> None:
    if not ID_PREFIX.fullmatch(name):
        raise NotFound(
            f"{name!r} is not the id of a run.",
            hint="An id looks like run_0123abcd...; four digits or more are enough.",
        )


def _require_single(waiting: Sequence[PendingApproval]) -> PendingApproval:
    if not waiting:
        raise NotFound("No run waits for approval.")
    if len(waiting) > 1:
        raise InvalidArgument(
            f"{len(waiting)} runs wait for approval.", hint=f"Name one: {', '.join(one.run for one in waiting)}."
        )
    return waiting[0]


def _require_one(runs: Sequence[str], name: str) -> str:
    if not runs:
        raise NotFound(f"There is no run {name!r}.", hint="List the runs to see their ids.")
    if len(runs) > 1:
        listed = f"{', '.join(runs[:5])}{', ...' if len(runs) > 5 else ''}"
        raise InvalidArgument(f"{len(runs)} runs begin with {name!r}.", hint=f"Name one of them: {listed}.")
    return runs[0]


def build_message(operations: Any, *, atomic: bool, dry_run: bool) -> dict[str, Any]:
    """Return an operations message, made from a message or from a bare list of operations."""
    is_message = isinstance(operations, Mapping)
    listed = operations.get("operations") if is_message else operations
    if not isinstance(listed, Sequence) or isinstance(listed, str | bytes | bytearray):
        subject = "The operations of a message" if is_message else "Operations"
        raise InvalidArgument(
            f"{subject} must be a list; they are {'missing' if listed is None else 'a ' + type(listed).__name__}.",
            hint='Write them as [{"type": "readFile", "path": "a.py"}].',
        )
    message = dict(operations) if is_message else {"protocolVersion": "1.0"}
    message["operations"] = [dict(one) if isinstance(one, Mapping) else one for one in listed]
    return message | {name: True for name, is_set in (("atomic", atomic), ("dryRun", dry_run)) if is_set}
