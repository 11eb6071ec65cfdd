"""Revert a run: check whether it can be reverted, record the revert, and report the rest.

A revert is recorded as changes of the run that does it, so it can be reverted too. No path can keep the others from
being reverted: an agent could otherwise make its run final by one file that policy closes.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

from wap_kernel.files.interface import FileKind, Guard, LinkStat, Locks
from wap_kernel.files.tree_walk import try_open
from wap_kernel.model.command import Deadline
from wap_kernel.model.errors import Conflict, PermissionDenied, WapError
from wap_kernel.model.paths import Access, render_path
from wap_kernel.model.results import RevertResult
from wap_kernel.state.directory import open_lock
from wap_kernel.state.file_lock import lock_within
from wap_kernel.state.undo.change_recorder import ChangeRecorder, Notice, UnrecoverableFiles
from wap_kernel.state.undo.change_store import Note, RecordedChange
from wap_kernel.state.undo.file_image import ABSENT, FileImage
from wap_kernel.state.undo.manifest import take_tree
from wap_kernel.state.undo.revert_apply import RevertExecutor, RevertGuard
from wap_kernel.state.undo.revert_plan import RevertPlan, plan_revert

SECONDS = 120.0
"""Seconds to stat all paths of a revert, and to wait for another revert of the run."""
TAKE_BACK_SECONDS = 3600.0
"""Seconds for the revert of an atomic run, which is not tried again."""
MAX_NAMED_PATHS = 10
"""Paths in the text of an error; its details have all of them."""
LATER = "A revert would lose that; force it if it may."
CLOSED = "A person may force it; what is protected always is left as it is even then."
REST = "With force the rest is reverted and these are left as they are."
TURNS = 1024
"""Number of lock files, which runs share."""


@dataclass(frozen=True)
class RevertSurvey:
    """The changes of a run, and the present images of their paths."""

    changes: Sequence[RecordedChange]
    notes: Sequence[Note]
    stats: Mapping[str, LinkStat | None]
    images: Mapping[str, FileImage]
    planned: RevertPlan
    unreachable: Collection[str]
    """Paths that cannot be reached."""

    @property
    def is_known(self) -> bool:
        """Return False if a command of the run was interrupted before its changes were recorded."""
        return all(note.get("isOver", True) for note in self.notes)

    @property
    def not_undone(self) -> list[str]:
        """Return excluded paths that changed, or may have, where nothing is ever reverted."""
        excluded = {path for note in self.notes for path in note.get("notUndone", ())}
        return sorted(excluded if self.is_known else {".", *excluded})


class RevertOutcome(NamedTuple):
    """The survey of a revert, and the paths that it left."""

    survey: RevertSurvey
    left: set[str]

    @property
    def restored(self) -> set[str]:
        return self.survey.planned.changes.keys() - self.left


class RunReverter:
    """Reverts runs."""

    def __init__(self, snapshots: ChangeRecorder, locks: Locks) -> None:
        self._snapshots = snapshots
        self._locks = locks

    def check(self, run: str, guard: Guard, *, force: bool = False) -> None:
        """Raise if a revert would be refused."""
        self._prepared(run, guard, force)

    def revert(
        self,
        run: str,
        guard: Guard,
        *,
        into: str,
        position: int = 0,
        force: bool = False,
        notice: Notice = lambda _: None,
    ) -> RevertResult:
        """Revert what `run` changed, as a part of the run `into` (which may be the same). `guard` is the caller's.

        Refused, with nothing changed, where a later change would be lost, the caller may not write, something was not
        kept, or it is not known what changed. `force`, which is for people only, overwrites later changes, puts back
        what policy closes, and leaves the rest as it is.
        """

        def once() -> RevertOutcome:
            survey, undoer = self._prepared(run, guard, force)
            self._record(survey, into, position, notice)
            return RevertOutcome(survey, self._carry_out(survey, undoer, into, position, force=force))

        return self._undo(run, once)

    def take_back(self, run: str, guard: Guard) -> RevertResult:
        """Revert what `run` has changed so far, but for later changes of others and files that were not stored.

        Policy has no say in it: the files are as the run found them, and no caller sees them. The revert is recorded in
        the end: were it recorded before, half of it would link_stat like all of it.
        """

        def once() -> RevertOutcome:
            survey = self.survey(run, Deadline(TAKE_BACK_SECONDS))
            planned = survey.planned
            _leave(planned, [*planned.conflicts, *survey.unreachable])
            with self._snapshots.undoing({path: survey.stats[path] for path in planned.changes}):
                left = self._carry_out(survey, _undoer(guard, planned.changes, planned), run, 0, force=False)
                undone = [change for change in survey.changes if change.path not in left]
                back = [RecordedChange(change.path, change.after or change.before, change.before) for change in undone]
                self._snapshots.changes.add(run, 0, back)
            return RevertOutcome(survey, left)

        return self._undo(run, once)

    def _undo(self, run: str, once: Callable[[], RevertOutcome]) -> RevertResult:
        with self._turn(run):
            done = once()
            restored = done.restored
            if done.survey.unreachable:  # in folders that the run had closed and that are open again
                done = once()
                restored |= done.restored
        return RevertResult(
            restored=sorted(map(render_path, restored)),
            left=sorted(map(render_path, done.left)) or None,
            not_undone=done.survey.not_undone or None,
        )

    def survey(self, run: str, deadline: Deadline) -> RevertSurvey:
        changes, notes = self._snapshots.changes.of(run), self._snapshots.changes.notes(run)
        stats: dict[str, LinkStat | None] = {}
        images: dict[str, FileImage] = {}
        unreachable: set[str] = set()
        budget = self._snapshots.hashed()
        for change in changes:
            deadline.check()
            path = change.path
            try:
                stats[path] = self._snapshots.files.lstat(path)
                images[path] = self._snapshots.imager.image_of(path, stats[path], budget)
            except (OSError, WapError):
                stats[path], images[path] = None, ABSENT
                unreachable.add(path)
        planned = plan_revert(
            [change for change in changes if change.path not in unreachable], images, self._has_content
        )
        for change in changes:
            planned.conflicts += self._others_in(change, stats, deadline)
        return RevertSurvey(changes, notes, stats, images, planned, unreachable)

    def _others_in(self, change: RecordedChange, stats: Mapping[str, LinkStat | None], deadline: Deadline) -> list[str]:
        """Return the paths that others put into a folder which the revert would remove."""
        link_stat = stats[change.path]
        if link_stat is None or link_stat.kind is not FileKind.FOLDER or change.before.kind in ("folder", "absent"):
            return []
        below, _ = take_tree(self._snapshots.files, change.path, deadline, bound=len(stats))
        return [path for path in below if path not in stats]

    def _has_content(self, image: FileImage) -> bool:
        if image.kind != "file":
            return image.can_be_restored
        return image.digest is not None and self._snapshots.blobs.mark_used(image.digest, image.size or 0)

    # -- checks

    def _prepared(self, run: str, guard: Guard, force: bool) -> tuple[RevertSurvey, RevertGuard]:
        survey = self.survey(run, Deadline(SECONDS))
        planned = survey.planned
        # What the run itself made is removed whatever policy says: that shows nothing. A person may have all of it put
        # back, but nothing that others have changed since.
        own = [path for path, change in planned.changes.items() if force or change.before.kind == "absent"]
        undoer = _undoer(guard, own, planned)
        refused = [path for path in planned.changes if _is_refused(undoer, path)]
        if not force:
            check_survey(survey, refused)
        _leave(planned, [*refused, *survey.unreachable])
        return survey, undoer

    # -- execution

    def _carry_out(
        self, survey: RevertSurvey, undoer: RevertGuard, into: str, position: int, *, force: bool
    ) -> set[str]:
        changes = self._snapshots.changes
        made: dict[str, list[int]] = {}

        def record(folder: str) -> None:
            if folder not in survey.planned.changes:
                made[folder] = changes.begin(into, position, {folder: ABSENT})

        executor = RevertExecutor(self._snapshots, self._locks, undoer, survey.stats, record)
        left = executor.carry_out(survey.planned, force=force)
        for folder, identifiers in made.items():
            link_stat = try_open(self._snapshots.files.lstat, folder)
            changes.end({folder: ABSENT}, identifiers, {folder: FileImage.of(link_stat)})
        return left

    def _record(self, survey: RevertSurvey, into: str, position: int, notice: Notice) -> None:
        """Record the revert before anything is changed. A step that fails leaves its path as it was."""
        planned, lost = survey.planned.changes, dict[str, str]()
        images = self._snapshots.keep({path: survey.stats[path] for path in planned}, self._snapshots.budget(), lost)
        losses = UnrecoverableFiles(lost)
        changes = [RecordedChange(path, images[path], change.before) for path, change in planned.items()]
        self._snapshots.changes.add(into, position, changes, losses.to_dict() if losses else None)
        if losses:
            notice(losses)

    @contextmanager
    def _turn(self, run: str) -> Iterator[None]:
        """Let reverts of a run happen one after the other; the second has nothing to do."""
        name = f"revert-{zlib.crc32(run.encode()) % TURNS:03x}"
        path = os.path.join(self._snapshots.state_dir, "locks", name)
        descriptor = open_lock(path)
        try:
            if not lock_within(descriptor, SECONDS):
                raise Conflict("The run is being reverted already.", hint="Try again when that is done.", runId=run)
            yield
        finally:
            os.close(descriptor)


def _undoer(guard: Guard, own: Iterable[str], planned: RevertPlan) -> RevertGuard:
    """Return the guard of a revert. `own` paths are reverted whatever policy says, if they are as the run left them."""
    undone = set(own).difference(planned.conflicts)
    on_the_way = {above for path in undone for above in _ways_to(path)}.difference(planned.changes, planned.conflicts)
    folders = {path for path, change in planned.changes.items() if change.before.kind == "folder"}
    return RevertGuard(guard, undone | on_the_way, folders)


def _is_refused(undoer: RevertGuard, path: str) -> bool:
    try:
        undoer.check(path, Access.WRITE)
    except PermissionDenied:
        return True
    return False


def _leave(planned: RevertPlan, paths: Sequence[str]) -> None:
    for path in paths:
        planned.changes.pop(path, None)
    planned.steps = [step for step in planned.steps if step.path in planned.changes]
    planned.lost += set(paths).difference(planned.lost)


def _ways_to(path: str) -> Iterator[str]:
    """Yield the path and the folders above it."""
    while path:
        yield path
        path = path.rpartition("/")[0]


def check_survey(survey: RevertSurvey, refused: Sequence[str] = ()) -> None:
    """Raise if not everything can be reverted; policy closes the paths in `refused`."""
    if refused:
        message = f"Policy or protection keeps these from being restored: {_named(refused)}."
        raise PermissionDenied(message, hint=CLOSED, paths=sorted(map(render_path, refused)))
    planned = survey.planned
    unknown = "A command of the run was interrupted, so it is not known what it changed"
    for paths, message, hint in (
        (planned.conflicts, f"Changed since the run: {_named(planned.conflicts)}", LATER),
        (planned.lost, f"What was there before the run was not kept: {_named(planned.lost)}", REST),
        (survey.unreachable, f"These cannot be reached: {_named(survey.unreachable)}", REST),
        ((".",) if not survey.is_known else (), unknown, "With force what is known is reverted."),
    ):
        if paths:
            raise Conflict(f"{message}.", hint=hint, paths=sorted(map(render_path, paths)))


def _named(paths: Collection[str]) -> str:
    names = [render_path(path) for path in sorted(paths)[:MAX_NAMED_PATHS]]
    more = len(paths) - len(names)
    return ", ".join(names) + (f" and {more} more" if more else "")
