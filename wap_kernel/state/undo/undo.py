"""Undo for the workspace: recover and describe the changes of runs, and revert them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from wap_kernel.files.interface import Guard, Locks
from wap_kernel.model.caller import CallContext, Caller
from wap_kernel.model.errors import InvalidArgument, PermissionDenied, WapError
from wap_kernel.model.hints import tell_user
from wap_kernel.model.operations import RevertRun
from wap_kernel.model.paths import Access
from wap_kernel.model.results import RevertResult
from wap_kernel.model.run import Run
from wap_kernel.state.changes.history import ChangeHistory
from wap_kernel.state.undo import report
from wap_kernel.state.undo.report import Readable, RevertPreview
from wap_kernel.state.undo.revert import RunReverter


class Undo:
    """The undo of one workspace; off without `history`. `guard_of` returns the guard of a caller."""

    def __init__(self, history: ChangeHistory | None, locks: Locks, guard_of: Callable[[Caller], Guard]) -> None:
        self.history = history
        self._guard_of = guard_of
        self._reverter = None if history is None else RunReverter(history)

    @property
    def is_on(self) -> bool:
        return self.history is not None

    def check(self, operation: RevertRun, caller: Caller) -> None:
        """Raise if a revert would be refused."""
        self._require_reverter().check(operation.run, self._guard_of(caller), force=operation.force)

    def revert(self, operation: RevertRun, guard: Guard, context: CallContext) -> RevertResult:
        if context.run is None:
            raise InvalidArgument("A revert is a run of its own.", hint="Revert the run, not an operation.")
        return self._require_reverter().revert(
            operation.run, guard, into=context.run, position=context.position, force=operation.force
        )

    def take_back(self, run: Run) -> list[str]:
        """Revert an atomic run except for later changes of others; return the paths that may not be restored."""
        if self._reverter is None:
            return ["."]
        return sorted(self._reverter.take_back(run.id, self._guard_of(run.caller)).left or ())

    def describe(self, run: str, readable: Readable) -> dict[str, Any]:
        """Return what a run changed, and what a revert would do."""
        reverter = self._require_reverter()
        assert self.history is not None
        return report.describe_changes(self.history, reverter, run, readable)

    def preview_revert(self, operation: RevertRun, caller: Caller, readable: Readable) -> RevertPreview:
        """Return the preview of a revert for the person who approves it."""
        reverter, guard = self._require_reverter(), self._guard_of(caller)
        assert self.history is not None

        def is_open(path: str) -> bool:
            try:
                guard.check(path, Access.READ)
            except PermissionDenied:
                return False
            return True

        try:
            return report.preview_revert(self.history, reverter, operation, guard, is_open, readable)
        except (OSError, WapError) as error:  # it takes too long, or fails as things stand
            return RevertPreview({"note": f"What it would change could not be looked at: {error}"})

    def _require_reverter(self) -> RunReverter:
        if self._reverter is None:
            raise InvalidArgument("Undo is switched off here.", hint=tell_user("See WapExtension.undo."))
        return self._reverter
