"""Revert a run: survey what it would meet, undo the log backwards, and report the rest.

A revert is recorded as changes of the run that does it, so it can be reverted too. No path can keep the others from
being reverted: an agent could otherwise make its run final by one file that policy closes.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager

from wap_kernel.files.contained.renames import sync_filesystem
from wap_kernel.files.interface import Guard
from wap_kernel.model.command import Deadline
from wap_kernel.model.errors import NO_SPACE_ERRNOS, Conflict, NoSpace, PermissionDenied, WapError
from wap_kernel.model.paths import render_path
from wap_kernel.model.results import RevertResult
from wap_kernel.state.changes.change_log import LoggedChange
from wap_kernel.state.changes.displacer import ChangeConflict
from wap_kernel.state.changes.history import ChangeHistory
from wap_kernel.state.directory import open_lock
from wap_kernel.state.file_lock import lock_within
from wap_kernel.state.undo.inversion import Inverter
from wap_kernel.state.undo.net_changes import NetChange, fold_changes
from wap_kernel.state.undo.survey import RevertSurvey, Surveyor

SECONDS = 120.0
"""Seconds to stat all paths of a revert, and to wait for another revert of the run."""
MAX_NAMED_PATHS = 10
"""Paths in the text of an error; its details have all of them."""
MANY = 32
"""Changes from which on one sync of the filesystem takes the place of one for each."""
LATER = "A revert would lose that; force it if it may."
CLOSED = "A person may force it; what is protected always is left as it is even then."
REST = "With force the rest is reverted and these are left as they are."
TURNS = 1024
"""Number of lock files, which runs share."""


class RunReverter:
    """Reverts runs."""

    def __init__(self, history: ChangeHistory) -> None:
        self._history = history

    def survey(self, run: str, guard: Guard | None, seconds: float = SECONDS, *, force: bool = False) -> RevertSurvey:
        """Return what a revert would meet; nothing is changed."""
        log, deadline = self._history.log, Deadline(seconds)
        rows = log.read_live(run)
        if not rows and (undone := log.read_own(run)):
            # Other changes may have led to the same again, such as a second revert of what this run had reverted.
            survey = Surveyor(self._history, undone, deadline).survey(guard, force=force)
            if not (survey.conflicts or survey.lost or survey.refused):
                return survey
        return Surveyor(self._history, rows, deadline).survey(guard, force=force)

    def check(self, run: str, guard: Guard, *, force: bool = False) -> None:
        """Raise if a revert would be refused."""
        survey = self.survey(run, guard, force=force)
        if not force:
            check_survey(survey)

    def revert(self, run: str, guard: Guard, *, into: str, position: int = 0, force: bool = False) -> RevertResult:
        """Revert what `run` changed, as a part of the run `into`. `guard` is the caller's.

        Refused, with nothing changed, where a later change would be lost, the caller may not write, or something is not
        stored any more. `force`, which is for people only, displaces later changes into the store, puts back what
        policy closes, and leaves the rest as it is.
        """
        with self._take_turn(run):
            survey = self.survey(run, guard, force=force)
            if not force:
                check_survey(survey)
            left = {*survey.refused, *survey.lost}
            return self._undo(survey, into, position, force, left)

    def take_back(self, run: str, guard: Guard) -> RevertResult:
        """Revert what `run` has changed so far, but for later changes of others. Of `guard` only protection counts."""
        with self._take_turn(run):
            survey = self.survey(run, guard, force=True)
            return self._undo(survey, run, 0, False, {*survey.refused, *survey.conflicts, *survey.lost})

    def _undo(self, survey: RevertSurvey, into: str, position: int, force: bool, left: set[str]) -> RevertResult:
        rows = [row for row in reversed(survey.rows) if row.id not in survey.skipped]
        is_synced = len(rows) <= MANY
        recorder = self._history.record(into, position, allows_loss=True, is_synced=is_synced)
        inverter = Inverter(self._history, recorder, force=force)
        inverted: list[LoggedChange] = []
        for row in rows:
            try:
                if inverter.invert(row):
                    inverted.append(row)
            except ChangeConflict as conflict:
                left.update(conflict.paths)
            except NoSpace:
                raise
            except WapError:
                left.add(row.path)
            except OSError as error:
                if error.errno in NO_SPACE_ERRNOS:
                    raise _make_no_space() from error
                left.add(row.path)
        if not is_synced:
            sync_filesystem(self._history.root.fd)
        restored = _list_paths(fold_changes(reversed(inverted), self._history.log.read_tree))
        return RevertResult(
            restored=sorted(map(render_path, restored - left)), left=sorted(map(render_path, left)) or None
        )

    @contextmanager
    def _take_turn(self, run: str) -> Iterator[None]:
        """Let reverts of a run happen one after the other; the second has nothing to do."""
        name = f"revert-{zlib.crc32(run.encode()) % TURNS:03x}"
        descriptor = open_lock(os.path.join(self._history.state_dir, "locks", name))
        try:
            if not lock_within(descriptor, SECONDS):
                raise Conflict("The run is being reverted already.", hint="Try again when that is done.", runId=run)
            yield
        finally:
            os.close(descriptor)


def check_survey(survey: RevertSurvey) -> None:
    """Raise if not everything can be reverted."""
    if survey.refused:
        message = f"Policy or protection keeps these from being restored: {_name_some(survey.refused)}."
        raise PermissionDenied(message, hint=CLOSED, paths=sorted(map(render_path, survey.refused)))
    for paths, message, hint in (
        (survey.conflicts, f"Changed since the run: {_name_some(survey.conflicts)}", LATER),
        (survey.lost, f"The content before the run is not stored any more: {_name_some(survey.lost)}", REST),
    ):
        if paths:
            raise Conflict(f"{message}.", hint=hint, paths=sorted(map(render_path, paths)))


def _list_paths(changes: Iterable[NetChange]) -> set[str]:
    return {path for change in changes for path in (change.path, change.source) if path is not None}


def _name_some(paths: Collection[str]) -> str:
    names = [render_path(path) for path in sorted(paths)[:MAX_NAMED_PATHS]]
    more = len(paths) - len(names)
    return ", ".join(names) + (f" and {more} more" if more else "")


def _make_no_space() -> NoSpace:
    return NoSpace(
        "No space left, so the run was reverted in part.", hint="Free some space and revert it again: it goes on then."
    )
