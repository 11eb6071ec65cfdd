"""Which run is meant: its id, the beginning of it, `last`, or the only one that waits."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from wap_kernel.client.backend import Backend
from wap_kernel.model.errors import InvalidArgument, NotFound

LAST = "last"
WHOLE = re.compile(r"run_[0-9a-f]{16}")
BEGINNING = re.compile(r"(run_|apr_)?[0-9a-f]{4,16}")
"""Less than that may be anybody's."""
LOOKED_AT = 1000
"""Runs among which the beginning of an id is looked up."""


class Question(NamedTuple):
    """What a decision is about."""

    run: str
    approval: str
    operations: int
    """How many the run has."""


def run_named(backend: Backend, name: str, last: str | None, *, or_newest: bool = False) -> str:
    """The id of the run that is meant; `last` is the last one of whoever asks. Where nothing is done to it, it may also
    be the newest of anybody."""
    if name == LAST and last is None and or_newest:
        last = next((str(run["runId"]) for run in backend.runs(None, 1)["runs"]), None)
    if name == LAST:
        return _own(last)
    if WHOLE.fullmatch(name):
        return name
    _check(name)
    runs = [str(run["runId"]) for run in backend.runs(None, LOOKED_AT)["runs"]]
    return _only([run for run in runs if run.startswith((name, f"run_{name}"))], name)


def question(backend: Backend, name: str | None, last: str | None, shown: Collection[str] = ()) -> Question:
    """Named by the run or the approval, or the only one that waits: of those that were `shown` to whoever decides, if
    there are any."""
    waiting = [
        Question(str(run["runId"]), str(run["pendingApproval"]["approvalId"]), int(run.get("operations", 0)))
        for run in backend.runs("awaiting_approval", LOOKED_AT)["runs"]
        if "pendingApproval" in run
    ]
    if name is None:
        return _single([one for one in waiting if one.approval in shown] or waiting)
    if name == LAST:
        name = _own(last)
    _check(name)
    named = {
        one.run: one
        for one in waiting
        if any(known.startswith((name, f"{known[:4]}{name}")) for known in (one.run, one.approval))
    }
    if not named and WHOLE.fullmatch(name):
        status = backend.get(name)["status"]  # says so where there is no such run
        raise NotFound(f"Nothing waits in {name}: it is {status.replace('_', ' ')}.", hint="Nothing is left to do.")
    return named[_only(list(named), name)]


def _own(last: str | None) -> str:
    """Never the newest of anybody: that may be an agent's."""
    if last is None:
        raise NotFound("No run was begun here yet.", hint="List the runs, and name one by its id.")
    return last


def _check(name: str) -> None:
    if not BEGINNING.fullmatch(name):
        raise NotFound(
            f"{name!r} is no run.", hint="Its id looks like run_0123abcd...; four digits or more are enough."
        )


def _single(waiting: Sequence[Question]) -> Question:
    if not waiting:
        raise NotFound("Nothing waits for approval.")
    if len(waiting) > 1:
        raise InvalidArgument(
            f"{len(waiting)} runs wait for approval.", hint=f"Name one: {', '.join(one.run for one in waiting)}."
        )
    return waiting[0]


def _only(found: Sequence[str], name: str) -> str:
    if not found:
        raise NotFound(f"There is no run {name!r} to be found.", hint="List the runs to see their ids.")
    if len(found) > 1:
        shown = f"{', '.join(found[:5])}{', ...' if len(found) > 5 else ''}"
        raise InvalidArgument(f"{len(found)} runs begin with {name!r}.", hint=f"Which one: {shown}?")
    return found[0]


def operations_message(operations: Any, *, atomic: bool, dry_run: bool) -> dict[str, Any]:
    """An operations message, of one or of a bare list."""
    is_message = isinstance(operations, Mapping)
    listed = operations.get("operations") if is_message else operations
    if not isinstance(listed, Sequence) or isinstance(listed, str | bytes | bytearray):
        what = "A message has a list of operations" if is_message else "Operations are a list"
        raise InvalidArgument(
            f"{what}, and this is {'missing' if listed is None else type(listed).__name__}.",
            hint='Such as [{"type": "readFile", "path": "a.py"}].',
        )
    message = dict(operations) if is_message else {"protocolVersion": "1.0"}
    message["operations"] = [dict(one) if isinstance(one, Mapping) else one for one in listed]
    return message | {name: True for name, wanted in (("atomic", atomic), ("dryRun", dry_run)) if wanted}
