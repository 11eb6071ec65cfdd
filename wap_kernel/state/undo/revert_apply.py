"""Carrying out the steps of a plan, path by path. Each file is old or new at any kill, and what was half done can be
done again.

One path that cannot be put back does not keep the others from it: it is left, and named.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from wap_kernel.files.interface import FindFolders, Guard, FileKind, Locks, LinkStat, RestorableFiles
from wap_kernel.model.errors import PermissionDenied, WapError
from wap_kernel.model.path_access import Access
from wap_kernel.state.undo.blob_store import Blobs
from wap_kernel.state.undo.change_recorder import Snapshots
from wap_kernel.state.undo.revert_plan import Do, Plan, Step

Made = Callable[[str], None]
"""Told of a folder before it is made on the way to something."""


def is_protected(error: PermissionDenied) -> bool:
    """Whether it is not policy that refuses, but what is protected always."""
    return error.details.get("rule") == "protected"


@dataclass(frozen=True)
class Undoer:
    """A `Guard` for what is put back: that of the caller, but for the `own` paths, which policy cannot keep from being
    undone. They are compared with where the primitives really are: a link that leads elsewhere is of no use."""

    guard: Guard
    own: Collection[str]
    folders: Collection[str]
    """The paths that are to be folders."""

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


class PuttingBack:
    """`looks`: what stood there when the plan was made."""

    def __init__(
        self, snapshots: Snapshots, locks: Locks, guard: Guard, looks: Mapping[str, LinkStat | None], made: Made
    ) -> None:
        self._snapshots = snapshots
        self._files: RestorableFiles = snapshots.files.guarded_by(guard)
        self._blobs: Blobs = snapshots.blobs
        self._locks = locks
        self._looks = looks
        self._made = made
        self._touched: set[str] = set()

    def carry_out(self, planned: Plan, *, force: bool) -> set[str]:
        """Returns what is not as it was."""
        left = set(planned.lost)
        as_it_was: set[str] = set()
        for step in planned.steps:
            if step.path in left or step.path in as_it_was:
                continue
            try:
                with self._locks.hold(step.path):
                    if self._is_as_planned(step.path):
                        is_done = self._try(step)
                    elif self._is_as_wanted(step):
                        as_it_was.add(step.path)
                        is_done = True
                    else:
                        is_done = force and self._try(step)
            except (OSError, WapError):
                is_done = False
            if not is_done:
                left.add(step.path)
        return left

    def _try(self, step: Step) -> bool:
        self._touched.add(step.path)
        with self._opened_parent(step.path) as is_there:
            return is_there and self._do(step)

    def _do(self, step: Step) -> bool:
        """Whether it could be done."""
        path, wanted, files = step.path, step.wanted, self._files
        mode = wanted.mode or 0
        if step.do is Do.REMOVE:
            files.unlink(path)
        elif step.do is Do.REMOVE_FOLDER:
            files.rmdir(path)  # if somebody else has put something there, it stays
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

    def _is_as_planned(self, path: str) -> bool:
        """Whether nobody has changed it since the plan was made."""
        return path in self._touched or _identity(self._looks[path]) == _identity(self._look(path))

    def _is_as_wanted(self, step: Step) -> bool:
        """Whether somebody else has put it back meanwhile."""
        image = self._snapshots.imager.image(step.path, self._snapshots.hashed())
        return image.is_like(step.wanted)

    def _look(self, path: str) -> LinkStat | None:
        """By what is protected always: nobody is told what is seen."""
        return self._snapshots.files.lstat(path)

    @contextmanager
    def _opened_parent(self, path: str) -> Iterator[bool]:
        """The folder is made if need be (somebody may have removed it) and its owner may write to it meanwhile. False
        if something else stands in its place, which shall not lead elsewhere."""
        names = path.split("/")[:-1]
        for end in range(1, len(names) + 1):
            parent = "/".join(names[:end])
            look = self._look(parent)
            if look is None:
                self._made(parent)
                self._files.mkdir(parent)
            elif look.kind is not FileKind.FOLDER:
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


def _identity(look: LinkStat | None) -> tuple[object, ...] | None:
    """What tells that nobody has changed it meanwhile. Not its ctime and mode: all names of a file share them, and
    another name may have been restored already. Nor what a folder tells of those in it."""
    if look is None:
        return None
    if look.kind is FileKind.FOLDER:
        return (look.kind,)
    return look.kind, look.inode, look.size, look.mtime_ns, look.target
