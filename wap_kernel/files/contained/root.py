"""Root: the file primitives on the local filesystem, contained in one folder.

The folder's descriptor is held for life and every path is opened relative to it, by openat2 where no link is in the
way and by the component walk otherwise. A path is never checked as text and then opened again: "realpath, then open"
loses against a rename. The guard is asked about the path that was really reached.
"""

from __future__ import annotations

import copy
import errno
import os
import stat
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from wap_kernel.files.contained import atomic_write, openat2
from wap_kernel.files.contained.component_walk import FOLDER_FLAGS, Escape, Place, Raced, walk
from wap_kernel.files.contained.handles import READ_FLAGS, LocalFile, LocalFolder, look_at, not_a_file, stat_of
from wap_kernel.files.contained.linkless import Direct
from wap_kernel.files.contained.modes import change_mode
from wap_kernel.files.interface import Guard, Kind, Look, Stat
from wap_kernel.model.errors import Conflict, InvalidArgument, WapError
from wap_kernel.model.path_access import Access
from wap_kernel.model.paths import resolve_lexically, outside, split_path

RETRIES = 64

T = TypeVar("T")


class Root:
    """A folder and everything below it. `step` and `use_openat2` exist for tests of the protocol and of the walk."""

    def __init__(
        self,
        path: str,
        *,
        guard: Guard,
        journal: atomic_write.Journal,
        step: atomic_write.Step = lambda _: None,
        use_openat2: bool = True,
    ) -> None:
        self.path = os.path.realpath(path)
        self.names = tuple(dict.fromkeys((self.path, os.path.abspath(path))))
        """Absolute names by which callers and links may call the root."""
        self.fd = os.open(self.path, FOLDER_FLAGS)
        self._guard = guard
        self._journal = journal
        self._step = step
        self._open_beneath = openat2.load() if use_openat2 else None

    def close(self) -> None:
        os.close(self.fd)

    def guarded_by(self, guard: Guard) -> Root:
        other = copy.copy(self)
        other._guard = guard
        return other

    def direct(self, guard: Guard) -> Direct | None:
        """The short way to files that no link leads to; None where the kernel has no openat2."""
        if self._open_beneath is None:
            return None
        return Direct(self.fd, self._open_beneath, guard, self._journal, self._step)

    # -- reading

    def open(self, path: str) -> LocalFile:
        fd, real = self._open(path, READ_FLAGS)
        return LocalFile(fd, real)

    def open_folder(self, path: str) -> LocalFolder:
        fd, real = self._open(path, FOLDER_FLAGS)
        return LocalFolder(fd, real, self._guard)

    def stat(self, path: str, *, follow: bool = True) -> Stat:
        with self._place(path, follow=follow) as place:
            found = self._found(place)
            self._guard.check(place.path, Access.READ, folder=found is not None and found.kind is Kind.FOLDER)
            if found is None:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
            return found

    def resolve(self, path: str, *, follow: bool = True) -> str:
        if self._open_beneath is not None:
            # Nearly every path exists and has no link in it, which one call tells.
            with suppress(OSError):
                os.close(self._open_beneath(self.fd, path, os.O_PATH))
                return resolve_lexically(path)
        with self._place(path, follow=follow) as place:
            return place.path

    def look(self, path: str) -> Look | None:
        try:
            with self._place(path, follow=False) as place:
                if place.path != path:
                    return None
                look = look_at(place.name, place.fd)
                self._guard.check(place.path, Access.READ, folder=look.kind is Kind.FOLDER)
                return look
        except (FileNotFoundError, NotADirectoryError):
            return None

    # -- writing

    def replace(self, path: str, data: bytes, *, exclusive: bool = False, mode: int | None = None) -> Stat:
        with self._target(path) as place:
            self._refuse_special(place)
            written = atomic_write.replace(
                place, data, exclusive=exclusive, mode=mode, journal=self._journal, step=self._step
            )
            return stat_of(written, place.path)

    def append(self, path: str, data: bytes) -> Stat:
        """Add to the file itself, which a live logger may hold open; only a new file is made by the write protocol."""
        with suppress(FileExistsError):
            return self.replace(path, data, exclusive=True)
        with self._target(path) as place:
            self._refuse_special(place)
            flags = os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            descriptor = os.open(place.name, flags, dir_fd=place.fd)
            try:
                before = os.fstat(descriptor)
                if not stat.S_ISREG(before.st_mode):
                    raise not_a_file(stat_of(before, place.path))
                atomic_write.append_all(descriptor, data, before.st_size)
                os.fsync(descriptor)
                return stat_of(os.fstat(descriptor), place.path)
            finally:
                os.close(descriptor)

    def rename(self, source: str, destination: str, *, overwrite: bool = False) -> str:
        with self._target(source, follow=False) as old, self._target(destination, follow=False) as new:
            self._guard.check_tree(old.path)
            self._guard.check_tree(new.path)
            self._check_movable(old)
            if overwrite:
                os.rename(old.name, new.name, src_dir_fd=old.fd, dst_dir_fd=new.fd)
            else:
                atomic_write.rename_exclusive(old.fd, old.name, new.fd, new.name)
            os.fsync(new.fd)
            os.fsync(old.fd)
            return new.path

    def _check_movable(self, place: Place) -> None:
        if not self._guard.may_hold(place.path):
            return
        with suppress(NotADirectoryError), self._folder_at(place) as folder:
            folder.check_removable()

    def _folder_at(self, place: Place) -> LocalFolder:
        try:
            return LocalFolder(os.open(place.name, FOLDER_FLAGS, dir_fd=place.fd), place.path, self._guard)
        except OSError as error:
            if error.errno == errno.ELOOP:  # a link is not a folder
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR)) from None
            raise

    def unlink(self, path: str) -> None:
        with self._target(path, follow=False) as place:
            os.unlink(place.name, dir_fd=place.fd)
            os.fsync(place.fd)

    def remove_tree(self, path: str) -> None:
        with self._target(path, follow=False) as place:
            self._guard.check_tree(place.path)
            with self._folder_at(place) as folder:
                if os.fstat(folder.fd).st_dev != os.fstat(place.fd).st_dev:
                    raise OSError(errno.EBUSY, os.strerror(errno.EBUSY))  # a mount point cannot be removed
                folder.check_removable()
                folder.clear()
            os.rmdir(place.name, dir_fd=place.fd)
            os.fsync(place.fd)

    def mkdir(self, path: str, *, parents: bool = False) -> bool:
        parts = split_path(path)
        made = False
        for end in range(1 if parents else len(parts), len(parts) + 1):
            made = self._mkdir_one("/".join(parts[:end]), errno.EEXIST if end == len(parts) else errno.ENOTDIR)
        return made

    def _mkdir_one(self, path: str, not_a_folder: int) -> bool:
        with self._place(path, follow=True) as place:
            try:
                found = os.stat(place.name, dir_fd=place.fd, follow_symlinks=False)
            except FileNotFoundError:
                self._guard.check(place.path, Access.WRITE, folder=True)
                try:
                    os.mkdir(place.name, dir_fd=place.fd)
                except FileExistsError:
                    return False  # another writer made it first, which is what was wanted
                os.fsync(place.fd)
                return True
            if not stat.S_ISDIR(found.st_mode):
                raise OSError(not_a_folder, os.strerror(not_a_folder))
            return False

    # -- putting back

    def restore(self, path: str, data: bytes, mode: int) -> None:
        with self._target(path, follow=False) as place:
            atomic_write.replace(
                place, data, exclusive=False, mode=mode, journal=self._journal, step=self._step, restoring=True
            )

    def symlink(self, path: str, target: str) -> None:
        with self._target(path, follow=False) as place:
            self._guard.check_tree(place.path)
            atomic_write.replace_by_link(place, target, journal=self._journal)

    def chmod(self, path: str, mode: int) -> None:
        with self._target(path, follow=False) as place:
            change_mode(place, mode)

    def rmdir(self, path: str) -> None:
        with self._target(path, follow=False) as place:
            os.rmdir(place.name, dir_fd=place.fd)
            os.fsync(place.fd)

    # -- resolution

    def _target(self, path: str, *, follow: bool = True) -> Place:
        """The place of something that will be changed."""
        place = self._place(path, follow=follow)
        if place.name == "." and place.path != ".":  # the path ended in "..": name the folder from its parent
            place.close()
            return self._target(place.path, follow=follow)
        try:
            if place.path == ".":
                raise InvalidArgument("The workspace root itself cannot be changed.", hint="Name something inside it.")
            self._guard.check(place.path, Access.WRITE)
        except WapError:
            place.close()
            raise
        return place

    def _open(self, path: str, flags: int) -> tuple[int, str]:
        is_folder = bool(flags & os.O_DIRECTORY)

        def fast(open_beneath: openat2.OpenBeneath) -> tuple[int, str]:
            real = resolve_lexically(path)
            self._guard.check(real, Access.READ, folder=is_folder)
            return open_beneath(self.fd, path, flags & ~os.O_NOFOLLOW), real

        def slow() -> tuple[int, str]:
            with walk(self.fd, self.names, path, follow=True) as place:
                self._guard.check(place.path, Access.READ, folder=is_folder)
                try:
                    return os.open(place.name, flags | os.O_NOFOLLOW, dir_fd=place.fd), place.path
                except OSError as error:
                    if error.errno in (errno.ELOOP, errno.ENOTDIR) and _is_link(place):
                        raise Raced from None
                    raise

        return self._resolve(path, fast, slow)

    def _place(self, path: str, *, follow: bool) -> Place:
        parts = split_path(path)

        def fast(open_beneath: openat2.OpenBeneath) -> Place:
            folder = "/".join(parts[:-1]) or "."
            real = resolve_lexically(path)
            place = Place(open_beneath(self.fd, folder, FOLDER_FLAGS & ~os.O_NOFOLLOW), parts[-1], real)
            try:
                if follow and _is_link(place):
                    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
            except OSError:
                place.close()
                raise
            return place

        def slow() -> Place:
            return walk(self.fd, self.names, path, follow=follow)

        if not parts or parts[-1] == "..":
            return self._resolve(path, None, slow)
        return self._resolve(path, fast, slow)

    def _resolve(self, path: str, fast: Callable[[openat2.OpenBeneath], T] | None, slow: Callable[[], T]) -> T:
        for _ in range(RETRIES):
            if self._open_beneath is not None and fast is not None:
                try:
                    return fast(self._open_beneath)
                except OSError as error:
                    if error.errno == errno.EAGAIN:  # a rename went by while the kernel resolved `..`
                        continue
                    if error.errno not in (errno.ELOOP, errno.EXDEV, errno.ENOENT):
                        raise
                    if error.errno == errno.ENOENT and ".." not in path:
                        raise
            try:
                return slow()
            except Escape:
                raise outside(path) from None
            except FileNotFoundError:
                if _leaves_lexically(path):  # through a folder that is not there: refused like any other way out
                    raise outside(path) from None
                raise
            except Raced:
                continue
        raise Conflict(f"The path keeps changing while it is being opened: {path}", hint="Try again.", path=path)

    def _refuse_special(self, place: Place) -> None:
        found = self._found(place)
        if found is not None and found.kind is Kind.SPECIAL:
            raise not_a_file(found)

    def _found(self, place: Place) -> Stat | None:
        try:
            return stat_of(os.stat(place.name, dir_fd=place.fd, follow_symlinks=False), place.path)
        except FileNotFoundError:
            return None


def _leaves_lexically(path: str) -> bool:
    try:
        resolve_lexically(path)
    except OSError:
        return True
    return False


def _is_link(place: Place) -> bool:
    try:
        return stat.S_ISLNK(os.stat(place.name, dir_fd=place.fd, follow_symlinks=False).st_mode)
    except FileNotFoundError:
        return False
