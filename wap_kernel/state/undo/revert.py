"""Undoing a run: whether it may be, what is recorded of it, and what is said about the rest.

A revert is recorded as changes of the run that does it, so it can be reverted too. No path can keep the others from
being undone: whoever made a run could otherwise make it final by one file that policy closes.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

from wap_kernel.files.interface import Guard, FileKind, Locks, LinkStat
from wap_kernel.files.tree_walk import try_open
from wap_kernel.model.deadline import Deadline
from wap_kernel.model.errors import Conflict, PermissionDenied, WapError
from wap_kernel.model.path_access import Access
from wap_kernel.model.paths import render_path
from wap_kernel.model.results import RevertResult
from wap_kernel.state.directory import open_lock
from wap_kernel.state.file_lock import lock_within
from wap_kernel.state.undo.change_recorder import Notice, NotKept, Snapshots
from wap_kernel.state.undo.change_store import Change, Note
from wap_kernel.state.undo.file_image import ABSENT, Image
from wap_kernel.state.undo.manifest import take_tree
from wap_kernel.state.undo.revert_apply import PuttingBack, Undoer
from wap_kernel.state.undo.revert_plan import Plan, plan

SECONDS = 120.0
"""What it may take to look at everything that a revert would touch, and to wait for another revert of the run."""
TAKE_BACK_SECONDS = 3600.0
"""Nobody tries an atomic run's undo again."""
MAX_SHOWN = 10
"""Paths in the text of an error; its details have all of them."""
LATER = "A revert would lose that; force it if it may."
CLOSED = "A person may force it; what is protected always is left as it is even then."
REST = "With force the rest is reverted and these are left as they are."
TURNS = 1024
"""Runs share locks, so that the number of lock files is bounded."""


@dataclass(frozen=True)
class Survey:
    """What a run changed and what stands there now."""

    changes: Sequence[Change]
    notes: Sequence[Note]
    looks: Mapping[str, LinkStat | None]
    images: Mapping[str, Image]
    planned: Plan
    unreachable: Collection[str]
    """Paths that cannot even be looked at."""

    @property
    def is_known(self) -> bool:
        """False: a command of the run was interrupted, and what it changed was never recorded."""
        return all(note.get("isOver", True) for note in self.notes)

    @property
    def not_undone(self) -> list[str]:
        """Places that changed, or may have, where nothing is ever undone."""
        places = {path for note in self.notes for path in note.get("notUndone", ())}
        return sorted(places if self.is_known else {".", *places})


class Done(NamedTuple):
    survey: Survey
    left: set[str]

    @property
    def restored(self) -> set[str]:
        return self.survey.planned.changes.keys() - self.left


class Reverting:
    def __init__(self, snapshots: Snapshots, locks: Locks) -> None:
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
        """Undo what `run` changed, as a part of the run `into` (which may be the same). `guard` is the caller's.

        Refused, with nothing changed, where a later change would be lost, the caller may not write, something was not
        kept, or it is not known what changed. `force`, which is for people only, overwrites later changes, puts back
        what policy closes, and leaves the rest as it is.
        """

        def once() -> Done:
            survey, undoer = self._prepared(run, guard, force)
            self._record(survey, into, position, notice)
            return Done(survey, self._carry_out(survey, undoer, into, position, force=force))

        return self._undo(run, once)

    def take_back(self, run: str, guard: Guard) -> RevertResult:
        """Undo what `run` has changed so far, but for what others have changed since or what was not kept.

        Policy has no say in it: what the run found is put back, and nobody sees it. It is recorded when it is done:
        were it recorded before, half of it done would look like all of it.
        """

        def once() -> Done:
            survey = self.survey(run, Deadline(TAKE_BACK_SECONDS))
            planned = survey.planned
            _leave(planned, [*planned.conflicts, *survey.unreachable])
            with self._snapshots.undoing({path: survey.looks[path] for path in planned.changes}):
                left = self._carry_out(survey, _undoer(guard, planned.changes, planned), run, 0, force=False)
                undone = [change for change in survey.changes if change.path not in left]
                back = [Change(change.path, change.after or change.before, change.before) for change in undone]
                self._snapshots.changes.add(run, 0, back)
            return Done(survey, left)

        return self._undo(run, once)

    def _undo(self, run: str, once: Callable[[], Done]) -> RevertResult:
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

    def survey(self, run: str, deadline: Deadline) -> Survey:
        changes, notes = self._snapshots.changes.of(run), self._snapshots.changes.notes(run)
        looks: dict[str, LinkStat | None] = {}
        images: dict[str, Image] = {}
        unreachable: set[str] = set()
        budget = self._snapshots.hashed()
        for change in changes:
            deadline.check()
            path = change.path
            try:
                looks[path] = self._snapshots.files.lstat(path)
                images[path] = self._snapshots.imager.image_of(path, looks[path], budget)
            except (OSError, WapError):
                looks[path], images[path] = None, ABSENT
                unreachable.add(path)
        planned = plan([change for change in changes if change.path not in unreachable], images, self._has_content)
        for change in changes:
            planned.conflicts += self._others_in(change, looks, deadline)
        return Survey(changes, notes, looks, images, planned, unreachable)

    def _others_in(self, change: Change, looks: Mapping[str, LinkStat | None], deadline: Deadline) -> list[str]:
        """What others put into a folder that would have to go."""
        look = looks[change.path]
        if look is None or look.kind is not FileKind.FOLDER or change.before.kind in ("folder", "absent"):
            return []
        below, _ = take_tree(self._snapshots.files, change.path, deadline, bound=len(looks))
        return [path for path in below if path not in looks]

    def _has_content(self, image: Image) -> bool:
        if image.kind != "file":
            return image.can_be_restored
        return image.digest is not None and self._snapshots.blobs.touch(image.digest, image.size or 0)

    # -- whether

    def _prepared(self, run: str, guard: Guard, force: bool) -> tuple[Survey, Undoer]:
        survey = self.survey(run, Deadline(SECONDS))
        planned = survey.planned
        # What the run itself made is removed whatever policy says: that shows nothing. A person may have all of it put
        # back, but nothing that others have changed since.
        own = [path for path, change in planned.changes.items() if force or change.before.kind == "absent"]
        undoer = _undoer(guard, own, planned)
        refused = [path for path in planned.changes if _is_refused(undoer, path)]
        if not force:
            refuse(survey, refused)
        _leave(planned, [*refused, *survey.unreachable])
        return survey, undoer

    # -- doing

    def _carry_out(self, survey: Survey, undoer: Undoer, into: str, position: int, *, force: bool) -> set[str]:
        changes = self._snapshots.changes
        made: dict[str, list[int]] = {}

        def record(folder: str) -> None:
            if folder not in survey.planned.changes:
                made[folder] = changes.begin(into, position, {folder: ABSENT})

        putting_back = PuttingBack(self._snapshots, self._locks, undoer, survey.looks, record)
        left = putting_back.carry_out(survey.planned, force=force)
        for folder, identifiers in made.items():
            look = try_open(self._snapshots.files.lstat, folder)
            changes.end({folder: ABSENT}, identifiers, {folder: Image.of(look)})
        return left

    def _record(self, survey: Survey, into: str, position: int, notice: Notice) -> None:
        """Before anything is changed. What is not done after all is then as it was, which needs no undoing."""
        planned, lost = survey.planned.changes, dict[str, str]()
        kept = self._snapshots.keep({path: survey.looks[path] for path in planned}, self._snapshots.budget(), lost)
        not_kept = NotKept(lost)
        changes = [Change(path, kept[path], change.before) for path, change in planned.items()]
        self._snapshots.changes.add(into, position, changes, not_kept.to_dict() if not_kept else None)
        if not_kept:
            notice(not_kept)

    @contextmanager
    def _turn(self, run: str) -> Iterator[None]:
        """One after the other: the second finds everything undone, and has nothing to do."""
        name = f"revert-{zlib.crc32(run.encode()) % TURNS:03x}"
        path = os.path.join(self._snapshots.state_dir, "locks", name)
        descriptor = open_lock(path)
        try:
            if not lock_within(descriptor, SECONDS):
                raise Conflict("The run is being reverted already.", hint="Try again when that is done.", runId=run)
            yield
        finally:
            os.close(descriptor)


def _undoer(guard: Guard, own: Iterable[str], planned: Plan) -> Undoer:
    """`own`: what is undone whatever policy says, as long as it is as the run left it."""
    undone = set(own).difference(planned.conflicts)
    on_the_way = {place for path in undone for place in _ways_to(path)}.difference(planned.changes, planned.conflicts)
    folders = {path for path, change in planned.changes.items() if change.before.kind == "folder"}
    return Undoer(guard, undone | on_the_way, folders)


def _is_refused(undoer: Undoer, path: str) -> bool:
    try:
        undoer.check(path, Access.WRITE)
    except PermissionDenied:
        return True
    return False


def _leave(planned: Plan, paths: Sequence[str]) -> None:
    for path in paths:
        planned.changes.pop(path, None)
    planned.steps = [step for step in planned.steps if step.path in planned.changes]
    planned.lost += set(paths).difference(planned.lost)


def _ways_to(path: str) -> Iterator[str]:
    """The path and the folders on the way to it."""
    while path:
        yield path
        path = path.rpartition("/")[0]


def refuse(survey: Survey, refused: Sequence[str] = ()) -> None:
    """Raise if it cannot all be undone; `refused` is what policy closes."""
    if refused:
        said = f"Policy or protection keeps these from being restored: {_named(refused)}."
        raise PermissionDenied(said, hint=CLOSED, paths=sorted(map(render_path, refused)))
    planned = survey.planned
    unknown = "A command of the run was interrupted, so it is not known what it changed"
    for paths, said, hint in (
        (planned.conflicts, f"Changed since the run: {_named(planned.conflicts)}", LATER),
        (planned.lost, f"What was there before the run was not kept: {_named(planned.lost)}", REST),
        (survey.unreachable, f"These cannot be reached: {_named(survey.unreachable)}", REST),
        ((".",) if not survey.is_known else (), unknown, "With force what is known is reverted."),
    ):
        if paths:
            raise Conflict(f"{said}.", hint=hint, paths=sorted(map(render_path, paths)))


def _named(paths: Collection[str]) -> str:
    shown = [render_path(path) for path in sorted(paths)[:MAX_SHOWN]]
    more = len(paths) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")
