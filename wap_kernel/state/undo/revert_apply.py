"""Carry out the steps of a revert plan, path by path.

A kill leaves each file old or new, and an interrupted revert can be done again. A path that cannot be restored is left,
and named; the others are restored.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from wap_kernel.files.interface import FileKind, FindFolders, Guard, LinkStat, Locks, RestorableFiles
from wap_kernel.model.errors import PermissionDenied, WapError
from wap_kernel.model.paths import Access
from wap_kernel.state.undo.blob_store import BlobStore
from wap_kernel.state.undo.change_recorder import ChangeRecorder
from wap_kernel.state.undo.revert_plan import RevertPlan, RevertStep, StepKind

Made = Callable[[str], None]
"""A function that gets each missing parent folder before it is made."""


def is_protected(error: PermissionDenied) -> bool:
    """Return whether protection refuses, and not policy."""
    return error.details.get("rule") == "protected"


@dataclass(frozen=True)
class RevertGuard:
    """The caller's guard, except that policy does not close the `own` paths.

    The paths are the real ones of the file primitives: a link that leads elsewhere is of no use.
    """

    guard: Guard
    own: Collection[str]
    folders: Collection[str]
    """Paths that the revert makes folders."""

    def check(self, path: str, access: Access, *, folder: bool = False) -> None:
        try:
            self.guard.check(path, access, folder=folder or path in self.folders)
        except PermissionDenied as error:
            if path not in self.own or is_protected(error):
                raise

    def check_tree(self, path: str) -> None:
        self.guard.check_tree(path)

    def may_hold(self, path: str) -> bool:
        return self.guard.may_hold(path)

    def hidden_among(self, folder: str, names: Sequence[str], folders: FindFolders = tuple) -> Collection[str]:
        return self.guard.hidden_among(folder, names, folders)

    def hidden_names(self, folder: str) -> frozenset[str]:
        return self.guard.hidden_names(folder)

    def names_leading_to_hidden(self, folder: str) -> frozenset[str]:
        return self.guard.names_leading_to_hidden(folder)


class RevertExecutor:
    """Carries out a plan. `stats` are the link stats at the time of the plan."""

    def __init__(
        self, snapshots: ChangeRecorder, locks: Locks, guard: Guard, stats: Mapping[str, LinkStat | None], made: Made
    ) -> None:
        self._snapshots = snapshots
        self._files: RestorableFiles = snapshots.files.guarded_by(guard)
        self._blobs: BlobStore = snapshots.blobs
        self._locks = locks
        self._stats = stats
        self._made = made
        self._changed: set[str] = set()

    def carry_out(self, planned: RevertPlan, *, force: bool) -> set[str]:
        """Carry out the steps, and return the paths that are not restored."""
        left = set(planned.lost)
        restored: set[str] = set()
        for step in planned.steps:
            if step.path in left or step.path in restored:
                continue
            try:
                with self._locks.hold(step.path):
                    if self._is_as_planned(step.path):
                        is_done = self._try(step)
                    elif self._is_as_wanted(step):
                        restored.add(step.path)
                        is_done = True
                    else:
                        is_done = force and self._try(step)
            except (OSError, WapError):
                is_done = False
            if not is_done:
                left.add(step.path)
        return left

    def _try(self, step: RevertStep) -> bool:
        self._changed.add(step.path)
        with self._opened_parent(step.path) as is_there:
            return is_there and self._do(step)

    def _do(self, step: RevertStep) -> bool:
        """Do a step, and return whether it could be done."""
        path, wanted, files = step.path, step.wanted, self._files
        mode = wanted.mode or 0
        if step.do is StepKind.REMOVE:
            files.unlink(path)
        elif step.do is StepKind.REMOVE_FOLDER:
            files.rmdir(path)  # a folder in which others put something stays
        elif step.do is StepKind.MAKE_FOLDER:
            files.mkdir(path)
            files.chmod(path, mode | 0o700)
        elif step.do is StepKind.WRITE:
            data = self._blobs.read(wanted.digest or "")
            if data is None:
                return False
            files.restore(path, data, mode)
        elif step.do is StepKind.LINK:
            files.symlink(path, wanted.target or "")
        else:
            files.chmod(path, mode)
        return True

    def _is_as_planned(self, path: str) -> bool:
        """Return whether the path is unchanged since the plan was made."""
        return path in self._changed or _identity(self._stats[path]) == _identity(self._link_stat(path))

    def _is_as_wanted(self, step: RevertStep) -> bool:
        """Return whether another process has restored the path meanwhile."""
        image = self._snapshots.imager.image(step.path, self._snapshots.hashed())
        return image.is_like(step.wanted)

    def _link_stat(self, path: str) -> LinkStat | None:
        """Return the link stat past policy; no caller sees it."""
        return self._snapshots.files.lstat(path)

    @contextmanager
    def _opened_parent(self, path: str) -> Iterator[bool]:
        """Make the parent folder if it is missing, and writable for its owner while the block runs.

        Yield False if the parent is something else than a folder, which might lead elsewhere.
        """
        names = path.split("/")[:-1]
        for end in range(1, len(names) + 1):
            parent = "/".join(names[:end])
            link_stat = self._link_stat(parent)
            if link_stat is None:
                self._made(parent)
                self._files.mkdir(parent)
            elif link_stat.kind is not FileKind.FOLDER:
                yield False
                return
            elif end == len(names) and link_stat.mode & 0o300 != 0o300:
                self._files.chmod(parent, link_stat.mode | 0o700)
                try:
                    yield True
                finally:
                    self._files.chmod(parent, link_stat.mode)
                return
        yield True


def _identity(link_stat: LinkStat | None) -> tuple[object, ...] | None:
    """Return the facts that are the same as long as nobody changes the path.

    Not ctime and mode: all names of a file share them, and another name may have been restored already. Not the times
    of a folder: they change with its entries.
    """
    if link_stat is None:
        return None
    if link_stat.kind is FileKind.FOLDER:
        return (link_stat.kind,)
    return link_stat.kind, link_stat.inode, link_stat.size, link_stat.mtime_ns, link_stat.target
