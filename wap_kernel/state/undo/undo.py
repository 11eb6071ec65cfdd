"""Undo as the workspace uses it: keep before, tell what was changed, take it back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from wap_kernel.files.interface import Files, Guard, Locks
from wap_kernel.model.call_context import CallContext
from wap_kernel.model.caller import Caller
from wap_kernel.model.deadline import Deadline
from wap_kernel.model.errors import InvalidArgument, PermissionDenied, WapError
from wap_kernel.model.operations import GitAction, Operation, RevertRun, RunCommand
from wap_kernel.model.path_access import Access, PathAccess
from wap_kernel.model.results import RevertResult
from wap_kernel.model.run import Run
from wap_kernel.state.undo import crash_recovery, report
from wap_kernel.state.undo.change_recorder import Nameable, Readable, Snapshots
from wap_kernel.state.undo.change_store import Changes
from wap_kernel.state.undo.report import ForeseenRevert
from wap_kernel.state.undo.revert import Reverting

FORESEE_SECONDS = 5.0
"""What a question to a person may wait for this."""


class Undoing:
    """Without `snapshots` nothing is kept, and so nothing is undone. `guard_of` tells what a caller may change."""

    def __init__(self, snapshots: Snapshots | None, locks: Locks, guard_of: Callable[[Caller], Guard]) -> None:
        self._snapshots = snapshots
        self._locks = locks
        self._guard_of = guard_of
        self._reverting = None if snapshots is None else Reverting(snapshots, locks)

    @property
    def is_on(self) -> bool:
        return self._snapshots is not None

    def settle(self, run: Run) -> list[int]:
        """After a crash: the positions of the operations that had begun to change files."""
        return [] if self._snapshots is None else crash_recovery.settle(self._snapshots, run)

    @property
    def changes(self) -> Changes | None:
        """Where what runs change is stored."""
        return None if self._snapshots is None else self._snapshots.changes

    @contextmanager
    def around(self, operation: Operation, context: CallContext, deadline: Deadline) -> Iterator[None]:
        """Keep what the operation will change, and let nobody else change it between the keeping and the operation."""
        if self._snapshots is None:
            yield
            return
        files = self._snapshots.files
        changed = (touch for touch in operation.path_accesses() if touch.access is Access.WRITE)
        held = [path for touch in changed if (path := _resolved(files, touch)) is not None]
        run, position = str(context.run), context.position
        with (
            self._snapshots.announced(operation, deadline),
            self._locks.hold(*held),
            self._snapshots.around(operation, run, position, deadline, context.notice),
        ):
            yield

    def beside(self, operation: Operation, deadline: Deadline) -> AbstractContextManager[None]:
        """Around a single call, which is not undone: nor shall it be by mistake, with a command. Of two commands each
        may count what the other changed."""
        if self._snapshots is None or isinstance(operation, RunCommand | GitAction):
            return nullcontext()
        return self._snapshots.beside(operation, deadline)

    def foresee(self, nameable: Nameable = lambda _: True) -> dict[str, Any]:
        """What could not be brought back if a command changed it now, of that which is `nameable` to whoever shall
        know it beforehand."""
        if self._snapshots is None:
            return {}
        try:
            return self._snapshots.foresee(Deadline(FORESEE_SECONDS)).visible(nameable).to_dict()
        except (OSError, WapError):
            return {}  # it takes too long; the run will say it

    def check(self, operation: RevertRun, caller: Caller) -> None:
        """Raise if a revert would be refused."""
        self._kept().check(operation.run, self._guard_of(caller), force=operation.force)

    def revert(self, operation: RevertRun, guard: Guard, context: CallContext) -> RevertResult:
        if context.run is None:
            raise InvalidArgument("A revert is a run of its own.", hint="Revert the run, not an operation.")
        return self._kept().revert(
            operation.run,
            guard,
            into=context.run,
            position=context.position,
            force=operation.force,
            notice=context.notice,
        )

    def take_back(self, run: Run) -> list[str]:
        """All that an atomic run changed, but for what others have changed since; returns what is not as it was, or may
        not be."""
        if self._reverting is None:
            return ["."]
        reverted = self._reverting.take_back(run.id, self._guard_of(run.caller))
        return sorted({*(reverted.left or ()), *(reverted.not_undone or ())})

    def describe(self, run: str, readable: Readable, nameable: Nameable) -> dict[str, Any]:
        """What a run changed, and what a revert would do."""
        reverting = self._kept()
        assert self._snapshots is not None
        return report.describe(self._snapshots, reverting, run, readable, nameable)

    def foresee_revert(self, operation: RevertRun, caller: Caller, readable: Readable) -> ForeseenRevert:
        """What a person agrees to who agrees to a revert."""
        reverting, guard = self._kept(), self._guard_of(caller)
        assert self._snapshots is not None

        def is_open(path: str) -> bool:
            try:
                guard.check(path, Access.READ)
            except PermissionDenied:
                return False
            return True

        try:
            return report.foresee(self._snapshots, reverting, operation, is_open, readable)
        except (OSError, WapError) as error:  # it takes too long, or fails as things stand
            return ForeseenRevert({"note": f"What it would change could not be looked at: {error}"})

    def _kept(self) -> Reverting:
        if self._reverting is None:
            raise InvalidArgument("Undo is switched off here.", hint="See WapExtension.undo.")
        return self._reverting


def _resolved(files: Files, touch: PathAccess) -> str | None:
    try:
        return files.resolve(touch.path, follow=touch.follow)
    except (OSError, WapError):
        return None  # there is nothing to be changed, or it is refused in a moment
