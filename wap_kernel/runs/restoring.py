"""Carrying out a revert, and telling beforehand whether it can be. Each file is old or new at any kill, and what was
half done can be done again.

A revert is recorded as changes of the run that does it, so it can be reverted too.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from wap_kernel.errors import Conflict
from wap_kernel.files.deadline import Deadline
from wap_kernel.files.paths import display
from wap_kernel.files.primitives import Access, Guard, Kind, Locks, Look, RestorableFiles
from wap_kernel.operations import Reverted
from wap_kernel.runs.blobs import Blobs
from wap_kernel.runs.changes import Change
from wap_kernel.runs.images import Image
from wap_kernel.runs.manifest import take_tree
from wap_kernel.runs.reverting import Do, Plan, Step, plan
from wap_kernel.runs.snapshots import Snapshots

SECONDS = 120.0
"""What it may take to look at everything that a revert would touch."""
MAX_SHOWN = 10
"""Paths in the text of an error; its details have all of them."""


class Now(NamedTuple):
    """What stands at the paths that a run changed."""

    looks: Mapping[str, Look | None]
    images: Mapping[str, Image]
    occupied: Sequence[str]
    """What others put into folders that would have to go."""


class Reverting:
    def __init__(self, snapshots: Snapshots, locks: Locks) -> None:
        self._snapshots = snapshots
        self._locks = locks

    def check(self, run: str, guard: Guard, *, force: bool = False) -> None:
        """Raise if a revert would be refused."""
        self._prepared(run, guard, force)

    def revert(self, run: str, guard: Guard, *, into: str, position: int = 0, force: bool = False) -> Reverted:
        """Undo what `run` changed, as a part of the run `into` (which may be the same). `guard` is the caller's.

        Refused, with nothing changed, where a later change would be lost or something was not kept; with `force` the
        former is overwritten and the latter left as it is.
        """
        planned, now = self._prepared(run, guard, force)
        self._record(planned, now, into, position)
        return _Restoration(self._snapshots, self._locks, guard, now).carry_out(planned, force=force)

    def take_back(self, run: str, guard: Guard) -> Reverted:
        """Undo what `run` has changed so far, but for what others have changed since or what was not kept."""
        planned, now = self._prepared(run, guard, force=True)
        for path in planned.conflicts:
            planned.changes.pop(path, None)
        planned.steps = [step for step in planned.steps if step.path in planned.changes]
        planned.lost += planned.conflicts
        # Recorded when it is done: were it recorded before, half of it done would look like all of it.
        kept = self._keep(planned, now)
        done = _Restoration(self._snapshots, self._locks, guard, now).carry_out(planned, force=False)
        left = set(done.left or ())
        undone = {path: change for path, change in planned.changes.items() if display(path) not in left}
        changes = [Change(path, kept[path], change.before) for path, change in undone.items()]
        self._snapshots.changes.add(run, 0, changes)
        return done

    def plan(self, run: str) -> tuple[Plan, Now]:
        deadline = Deadline(SECONDS)
        changes = self._snapshots.changes.of(run)
        now = self._look(changes, deadline)
        planned = plan(changes, now.images, self._has_content)
        planned.conflicts += (path for path in now.occupied if path not in planned.conflicts)
        return planned, now

    def _prepared(self, run: str, guard: Guard, force: bool) -> tuple[Plan, Now]:
        planned, now = self.plan(run)
        for step in planned.steps:
            guard.check(step.path, Access.WRITE, folder=step.wanted.kind == "folder")
        if not force:
            _refuse(planned)
        return planned, now

    def _look(self, changes: Sequence[Change], deadline: Deadline) -> Now:
        files, budget = self._snapshots.files, self._snapshots.hashed()
        looks = {change.path: files.look(change.path) for change in changes}
        images: dict[str, Image] = {}
        occupied: list[str] = []
        for change in changes:
            deadline.check()
            path, look = change.path, looks[change.path]
            images[path] = self._snapshots.imager.image_of(path, look, budget)
            if look is not None and look.kind is Kind.FOLDER and change.before.kind not in ("folder", "absent"):
                below, _ = take_tree(files, path, deadline, bound=len(changes))
                occupied += (inner for inner in below if inner not in looks)
        return Now(looks, images, occupied)

    def _has_content(self, image: Image) -> bool:
        if image.kind != "file":
            return image.can_be_restored
        return image.digest is not None and self._snapshots.blobs.touch(image.digest, image.size or 0)

    def _record(self, planned: Plan, now: Now, into: str, position: int) -> None:
        """Before anything is changed. What is not done after all is then as it was, which needs no undoing."""
        kept = self._keep(planned, now)
        changes = [Change(path, kept[path], change.before) for path, change in planned.changes.items()]
        self._snapshots.changes.add(into, position, changes)

    def _keep(self, planned: Plan, now: Now) -> dict[str, Image]:
        return self._snapshots.keep({path: now.looks[path] for path in planned.changes}, self._snapshots.budget(), {})


class _Restoration:
    def __init__(self, snapshots: Snapshots, locks: Locks, guard: Guard, now: Now) -> None:
        self._files: RestorableFiles = snapshots.files.guarded_by(guard)
        self._blobs: Blobs = snapshots.blobs
        self._locks = locks
        self._now = now
        self._touched: set[str] = set()

    def carry_out(self, planned: Plan, *, force: bool) -> Reverted:
        left = set(planned.lost)
        for step in planned.steps:
            if step.path in left:
                continue
            with self._locks.hold(step.path):
                if not force:
                    self._require_the_same(step.path)
                self._touched.add(step.path)
                with self._opened_parent(step.path) as is_there:
                    if not (is_there and self._do(step)):
                        left.add(step.path)
        restored = sorted(display(path) for path in planned.changes if path not in left)
        return Reverted(restored=restored, left=sorted(map(display, left)) or None)

    def _do(self, step: Step) -> bool:
        """Whether it could be done."""
        path, wanted, files = step.path, step.wanted, self._files
        mode = wanted.mode or 0
        if step.do is Do.REMOVE:
            files.unlink(path)
        elif step.do is Do.REMOVE_FOLDER:
            return self._remove_folder(path)
        elif step.do is Do.MAKE_FOLDER:
            files.mkdir(path)
            files.chmod(path, mode | 0o700)
        elif step.do is Do.WRITE:
            data = self._blobs.read(wanted.digest or "")
            if data is None:
                return False
            files.restore(path, data, mode)
        elif step.do is Do.LINK:
            files.symlink(path, wanted.target or "")
        else:
            files.chmod(path, mode)
        return True

    def _remove_folder(self, path: str) -> bool:
        try:
            self._files.rmdir(path)
        except OSError as error:
            if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
                return False  # somebody else has put something there, which stays
            raise
        return True

    def _require_the_same(self, path: str) -> None:
        """Raise if it is no longer what it was when the plan was made."""
        if path in self._touched:
            return
        planned, found = self._now.looks[path], self._files.look(path)
        if _identity(planned) != _identity(found):
            raise Conflict(f"It changes while it is being restored: {display(path)}", hint="Try again.", paths=[path])

    @contextmanager
    def _opened_parent(self, path: str) -> Iterator[bool]:
        """The folder is made if need be (with `force` somebody may have removed it) and its owner may write to it
        meanwhile. False if something else stands in its place, which shall not lead elsewhere."""
        names = path.split("/")[:-1]
        for end in range(1, len(names) + 1):
            parent = "/".join(names[:end])
            look = self._files.look(parent)
            if look is None:
                self._files.mkdir(parent)
            elif look.kind is not Kind.FOLDER:
                yield False
                return
            elif end == len(names) and look.mode & 0o300 != 0o300:
                self._files.chmod(parent, look.mode | 0o700)
                try:
                    yield True
                finally:
                    self._files.chmod(parent, look.mode)
                return
        yield True


def _identity(look: Look | None) -> tuple[object, ...] | None:
    """What tells that nobody has changed it meanwhile. Not its ctime and mode: all names of a file share them, and
    another name may have been restored already. Nor what a folder tells of those in it."""
    if look is None:
        return None
    if look.kind is Kind.FOLDER:
        return (look.kind,)
    return look.kind, look.inode, look.size, look.mtime_ns, look.target


def _refuse(planned: Plan) -> None:
    if planned.conflicts:
        raise Conflict(
            f"Changed since the run: {_named(planned.conflicts)}.",
            hint="A revert would lose that; force it if it may.",
            paths=sorted(map(display, planned.conflicts)),
        )
    if planned.lost:
        raise Conflict(
            f"What was there before the run was not kept: {_named(planned.lost)}.",
            hint="With force the rest is reverted and these are left as they are.",
            paths=sorted(map(display, planned.lost)),
        )


def _named(paths: Sequence[str]) -> str:
    shown = [display(path) for path in sorted(paths)[:MAX_SHOWN]]
    more = len(paths) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")
