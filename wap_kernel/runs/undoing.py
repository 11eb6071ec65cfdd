"""Undo as the workspace uses it: keep before, tell what was changed, take it back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from wap_kernel.context import Context
from wap_kernel.errors import InvalidArgument, WapError
from wap_kernel.files.deadline import Deadline
from wap_kernel.files.primitives import Access, Files, Guard, Locks
from wap_kernel.operations import Operation, Reverted, RevertRun
from wap_kernel.policy.touches import Touch, touches
from wap_kernel.runs import showing
from wap_kernel.runs.restoring import Reverting
from wap_kernel.runs.snapshots import NotKept, Snapshots

FORESEE_SECONDS = 5.0
"""What a question to a person may wait for this."""


class Undoing:
    def __init__(self, snapshots: Snapshots, locks: Locks) -> None:
        self._snapshots = snapshots
        self._locks = locks
        self._reverting = Reverting(snapshots, locks)

    @contextmanager
    def around(self, operation: Operation, context: Context, deadline: Deadline) -> Iterator[None]:
        """Keep what the operation will change, and let nobody else change it between the keeping and the operation."""
        files = self._snapshots.files
        changed = (touch for touch in touches(operation) if touch.access is Access.WRITE)
        held = [path for touch in changed if (path := _resolved(files, touch)) is not None]
        run, position = str(context.run), context.position
        with self._locks.hold(*held), self._snapshots.around(operation, run, position, deadline, context.notice):
            yield

    def foresee(self) -> NotKept:
        """What could not be brought back if a command changed it now."""
        return self._snapshots.foresee(Deadline(FORESEE_SECONDS))

    def check(self, operation: RevertRun, guard: Guard) -> None:
        """Raise if a revert would be refused."""
        self._reverting.check(operation.run, guard, force=operation.force)

    def revert(self, operation: RevertRun, guard: Guard, context: Context) -> Reverted:
        if context.run is None:
            raise InvalidArgument("A revert is a run of its own.", hint="POST wap/runs/{runId}/revert.")
        return self._reverting.revert(
            operation.run, guard, into=context.run, position=context.position, force=operation.force
        )

    def take_back(self, run: str, guard: Guard) -> list[str]:
        """All that an atomic run changed, but for what others have changed since; returns what is left."""
        return self._reverting.take_back(run, guard).left or []

    def describe(self, run: str, guard: Guard) -> dict[str, Any]:
        return showing.describe(self._snapshots, self._reverting, run, lambda path: _may_read(guard, path))


def _resolved(files: Files, touch: Touch) -> str | None:
    try:
        return files.resolve(touch.path, follow=touch.follow)
    except (OSError, WapError):
        return None  # there is nothing to be changed, or it is refused in a moment


def _may_read(guard: Guard, path: str) -> bool:
    try:
        guard.check(path, Access.READ)
    except WapError:
        return False
    return True
