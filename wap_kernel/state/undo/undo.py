"""Undo for the workspace: record the changes of runs, describe them, and revert them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from wap_kernel.files.interface import Files, Guard, Locks
from wap_kernel.model.caller import CallContext, Caller
from wap_kernel.model.command import Deadline
from wap_kernel.model.errors import InvalidArgument, PermissionDenied, WapError
from wap_kernel.model.git.operations import GitAction
from wap_kernel.model.operations import Operation, RevertRun, RunCommand
from wap_kernel.model.paths import Access, PathAccess
from wap_kernel.model.results import RevertResult
from wap_kernel.model.run import Run
from wap_kernel.state.undo import crash_recovery, report
from wap_kernel.state.undo.change_recorder import ChangeRecorder, Nameable, Readable
from wap_kernel.state.undo.change_store import ChangeStore
from wap_kernel.state.undo.report import RevertPreview
from wap_kernel.state.undo.revert import RunReverter

PREVIEW_SECONDS = 5.0
"""Seconds that an approval request may wait for a preview."""


class Undo:
    """The undo of one workspace; off without `snapshots`. `guard_of` returns the guard of a caller."""

    def __init__(self, snapshots: ChangeRecorder | None, locks: Locks, guard_of: Callable[[Caller], Guard]) -> None:
        self._snapshots = snapshots
        self._locks = locks
        self._guard_of = guard_of
        self._reverter = None if snapshots is None else RunReverter(snapshots, locks)

    @property
    def is_on(self) -> bool:
        return self._snapshots is not None

    def recover(self, run: Run) -> list[int]:
        """Recover the unfinished changes of a run, and return the positions of their operations."""
        return [] if self._snapshots is None else crash_recovery.recover_changes(self._snapshots, run)

    @property
    def changes(self) -> ChangeStore | None:
        """The store of the changes of runs."""
        return None if self._snapshots is None else self._snapshots.changes

    @contextmanager
    def around(self, operation: Operation, context: CallContext, deadline: Deadline) -> Iterator[None]:
        """Store the files that the operation will change, locked until the operation has ended."""
        if self._snapshots is None:
            yield
            return
        files = self._snapshots.files
        changed = (path_access for path_access in operation.path_accesses() if path_access.access is Access.WRITE)
        locked = [path for path_access in changed if (path := _resolved(files, path_access)) is not None]
        run, position = str(context.run), context.position
        with (
            self._snapshots.announce(operation, deadline),
            self._locks.hold(*locked),
            self._snapshots.around(operation, run, position, deadline, context.notice),
        ):
            yield

    def around_call(self, operation: Operation, deadline: Deadline) -> AbstractContextManager[None]:
        """Run a single call in the block, whose changes no revert of a command shall take back.

        Of two commands each may count what the other changed.
        """
        if self._snapshots is None or isinstance(operation, RunCommand | GitAction):
            return nullcontext()
        return self._snapshots.around_call(operation, deadline)

    def preview_losses(self, nameable: Nameable = lambda _: True) -> dict[str, Any]:
        """Return the `nameable` files that could not be restored if a command changed them now."""
        if self._snapshots is None:
            return {}
        try:
            return self._snapshots.preview_losses(Deadline(PREVIEW_SECONDS)).visible(nameable).to_dict()
        except (OSError, WapError):
            return {}  # it takes too long; the run will report it

    def check(self, operation: RevertRun, caller: Caller) -> None:
        """Raise if a revert would be refused."""
        self._require_reverter().check(operation.run, self._guard_of(caller), force=operation.force)

    def revert(self, operation: RevertRun, guard: Guard, context: CallContext) -> RevertResult:
        if context.run is None:
            raise InvalidArgument("A revert is a run of its own.", hint="Revert the run, not an operation.")
        return self._require_reverter().revert(
            operation.run,
            guard,
            into=context.run,
            position=context.position,
            force=operation.force,
            notice=context.notice,
        )

    def take_back(self, run: Run) -> list[str]:
        """Revert an atomic run except for later changes of others; return the paths that may not be restored."""
        if self._reverter is None:
            return ["."]
        reverted = self._reverter.take_back(run.id, self._guard_of(run.caller))
        return sorted({*(reverted.left or ()), *(reverted.not_undone or ())})

    def describe(self, run: str, readable: Readable, nameable: Nameable) -> dict[str, Any]:
        """Return what a run changed, and what a revert would do."""
        reverting = self._require_reverter()
        assert self._snapshots is not None
        return report.describe_changes(self._snapshots, reverting, run, readable, nameable)

    def preview_revert(self, operation: RevertRun, caller: Caller, readable: Readable) -> RevertPreview:
        """Return the preview of a revert for the person who approves it."""
        reverting, guard = self._require_reverter(), self._guard_of(caller)
        assert self._snapshots is not None

        def is_open(path: str) -> bool:
            try:
                guard.check(path, Access.READ)
            except PermissionDenied:
                return False
            return True

        try:
            return report.preview_revert(self._snapshots, reverting, operation, is_open, readable)
        except (OSError, WapError) as error:  # it takes too long, or fails as things stand
            return RevertPreview({"note": f"What it would change could not be looked at: {error}"})

    def _require_reverter(self) -> RunReverter:
        if self._reverter is None:
            raise InvalidArgument("Undo is switched off here.", hint="See WapExtension.undo.")
        return self._reverter


def _resolved(files: Files, path_access: PathAccess) -> str | None:
    try:
        return files.resolve(path_access.path, follow=path_access.follow)
    except (OSError, WapError):
        return None  # there is nothing to be changed, or it is refused in a moment
