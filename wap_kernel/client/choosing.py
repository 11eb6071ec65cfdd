"""Which run is meant: its id, the beginning of it, `last`, or the only one that waits."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from wap_kernel.client.backend import Backend
from wap_kernel.errors import InvalidArgument, NotFound

LAST = "last"
WHOLE = re.compile(r"run_[0-9a-f]{16}")
LOOKED_AT = 1000
"""Runs among which the beginning of an id is looked up."""


def run_named(backend: Backend, name: str, last: str | None) -> str:
    """The id of the run that is meant; `last` is the last one of whoever asks, if there was one."""
    if name == LAST and last is not None:
        return last
    if WHOLE.fullmatch(name):
        return name
    runs = [str(run["runId"]) for run in backend.runs(None, 1 if name == LAST else LOOKED_AT)["runs"]]
    if name == LAST and runs:
        return runs[0]
    return _only([run for run in runs if name and run.startswith((name, f"run_{name}"))], name)


def question(backend: Backend, name: str | None, last: str | None) -> tuple[str, str]:
    """The run and the approval that a decision is about: named by either, or the only one that waits."""
    waiting = {
        str(run["runId"]): str(run["pendingApproval"]["approvalId"])
        for run in backend.runs("awaiting_approval", LOOKED_AT)["runs"]
        if "pendingApproval" in run
    }
    if name is None:
        return _single(waiting)
    if name == LAST and last is not None:
        name = last
    if name == LAST:
        return _single(dict(list(waiting.items())[:1]))
    named = {
        run: approval
        for run, approval in waiting.items()
        if name and any(one.startswith((name, f"{one[:4]}{name}")) for one in (run, approval))
    }
    if not named and WHOLE.fullmatch(name):
        status = backend.get(name)["status"]  # says so where there is no such run
        raise NotFound(f"Nothing waits in {name}: it is {status.replace('_', ' ')}.", hint="Nothing is left to do.")
    run = _only(list(named), name)
    return run, waiting[run]


def _single(waiting: dict[str, str]) -> tuple[str, str]:
    if not waiting:
        raise NotFound("Nothing waits for approval.")
    if len(waiting) > 1:
        raise InvalidArgument(f"{len(waiting)} runs wait for approval.", hint=f"Name one: {', '.join(waiting)}.")
    return next(iter(waiting.items()))


def _only(found: Sequence[str], name: str) -> str:
    if not found:
        raise NotFound(f"There is no run {name!r} to be found.", hint="List the runs to see their ids.")
    if len(found) > 1:
        shown = f"{', '.join(found[:5])}{', ...' if len(found) > 5 else ''}"
        raise InvalidArgument(f"{len(found)} runs begin with {name!r}.", hint=f"Which one: {shown}?")
    return found[0]


def operations_message(operations: Any, *, atomic: bool, dry_run: bool) -> dict[str, Any]:
    """An operations message, of one or of a bare list."""
    if isinstance(operations, dict):
        message = dict(operations)
    elif isinstance(operations, list | tuple):
        message = {"protocolVersion": "1.0", "operations": list(operations)}
    else:
        raise InvalidArgument(
            f"Operations are a list, and this is {type(operations).__name__}.",
            hint='Such as [{"type": "readFile", "path": "a.py"}].',
        )
    return message | {name: True for name, wanted in (("atomic", atomic), ("dryRun", dry_run)) if wanted}
