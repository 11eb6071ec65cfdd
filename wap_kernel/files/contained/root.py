"""The file primitives on the local filesystem, contained in one folder.

The folder's descriptor stays open, and every path is opened relative to it, by openat2 where there is no link on the
way and by the component walk otherwise. A path is never checked as text and then opened again: "realpath, then open"
loses a race against a rename. The guard checks the path that was really reached.
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
from wap_kernel.files.contained.changer import Changer, UnrecordedChanger, has_one_name
from wap_kernel.files.contained.component_walk import FOLDER_FLAGS, Location, RaceDetected, RootEscape, walk_components
from wap_kernel.files.contained.handles import (
    READ_FLAGS,
    LocalFile,
    LocalFolder,
    build_stat,
    special_file_error,
    stat_link,
)
from wap_kernel.files.contained.linkless import LinklessFiles
from wap_kernel.files.contained.renames import exchange, exchange_in_steps
from wap_kernel.files.interface import FileKind, Guard, LinkStat, Stat
from wap_kernel.model.errors import Conflict, InvalidArgument, WapError
from wap_kernel.model.paths import Access, outside, resolve_lexically, split_path

RETRIES = 64

T = TypeVar("T")


class Root:
    """A folder and everything below it, opened by its path, or as the open descriptor `fd`.

    `step`, `use_openat2` and `use_exchange` exist for tests of the protocols and of what old systems lack.
    """

    def __init__(
        self,
        path: str,
        *,
        guard: Guard,
        journal: atomic_write.Journal,
        step: atomic_write.Step = lambda _: None,
        use_openat2: bool = True,
        use_exchange: bool = True,
        fd: int | None = None,
    ) -> None:
        self.path = os.path.realpath(path)
        self.names = tuple(dict.fromkeys((self.path, os.path.abspath(path))))
        """Absolute names by which callers and links may call the root."""
        self.fd = os.open(self.path, FOLDER_FLAGS) if fd is None else fd
        self.journal = journal
        self.exchange = exchange if use_exchange else exchange_in_steps
        self._guard = guard
        self._step = step
        self._changer: Changer = UnrecordedChanger(journal, step, self.exchange)
        self._open_beneath = openat2.load() if use_openat2 else None

    def close(self) -> None:
        os.close(self.fd)

    def guarded_by(self, guard: Guard) -> Root:
        other = copy.copy(self)
        other._guard = guard
        return other

    def at_descriptor(self, fd: int) -> Root:
        """Return the same primitives on another folder that stands for the root: the merged folder of a Layer."""
        other = copy.copy(self)
        other.fd = fd
        return other

    def recording(self, recorder: Changer) -> Root:
        """Return the same files, whose changes `recorder` makes; closing either closes both."""
        other = copy.copy(self)
        other._changer = recorder
        return other

    def open_linkless(self, guard: Guard) -> LinklessFiles | None:
        """Return the files that no link leads to, or None if the kernel has no openat2."""
        if self._open_beneath is None:
            return None
        return LinklessFiles(self.fd, self._open_beneath, guard, self.journal, self._step)

    # -- reading

    def open(self, path: str) -> LocalFile:
        fd, real = self._open(path, READ_FLAGS)
        return LocalFile(fd, real)

    def open_folder(self, path: str) -> LocalFolder:
        fd, real = self._open(path, FOLDER_FLAGS)
        return LocalFolder(fd, real, self._guard)

    def stat(self, path: str, *, follow: bool = True) -> Stat:
        with self._locate(path, follow=follow) as location:
            found = self._stat_location(location)
            self._guard.check(location.path, Access.READ, folder=found is not None and found.kind is FileKind.FOLDER)
            if found is None:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
            return found

    def resolve(self, path: str, *, follow: bool = True) -> str:
        if self._open_beneath is not None:
            # Fast path: nearly every path exists and has no link in it, which one call confirms.
            with suppress(OSError):
                os.close(self._open_beneath(self.fd, path, os.O_PATH))
                return resolve_lexically(path)
        with self._locate(path, follow=follow) as location:
            return location.path

    def lstat(self, path: str) -> LinkStat | None:
        try:
            with self._locate(path, follow=False) as location:
                if location.path != path:
                    return None
                link_stat = stat_link(location.name, location.fd)
                self._guard.check(location.path, Access.READ, folder=link_stat.kind is FileKind.FOLDER)
                return link_stat
        except (FileNotFoundError, NotADirectoryError):
            return None

    # -- writing

    def replace(
        self,
        path: str,
        data: bytes,
        *,
        exclusive: bool = False,
        mode: int | None = None,
        expected: Stat | None = None,
        atomic: bool = True,
    ) -> Stat:
        with self._locate_target(path) as location:
            self._refuse_special(location)
            stamp = None if expected is None else expected.stamp
            if not atomic and not exclusive and has_one_name(location):
                written = self._changer.overwrite(location, data, expected=stamp)
            else:
                written = self._changer.write(location, data, exclusive=exclusive, mode=mode, expected=stamp)
            return build_stat(written, location.path)

    def append(self, path: str, data: bytes) -> Stat:
        """Append to the file itself, which a logger may have open; only a new file is created by the write protocol."""
        with suppress(FileExistsError):
            return self.replace(path, data, exclusive=True)
        with self._locate_target(path) as location:
            self._refuse_special(location)
            return build_stat(self._changer.append(location, data), location.path)

    def rename(self, source: str, destination: str, *, overwrite: bool = False) -> str:
        with self._locate_target(source, follow=False) as old, self._locate_target(destination, follow=False) as new:
            self._guard.check_tree(old.path)
            self._guard.check_tree(new.path)
            self._check_movable(old)
            self._changer.rename(old, new, overwrite=overwrite)
            return new.path

    def _check_movable(self, location: Location) -> None:
        if not self._guard.may_hold(location.path):
            return
        with suppress(NotADirectoryError), self._folder_at(location) as folder:
            folder.check_removable()

    def _folder_at(self, location: Location) -> LocalFolder:
        try:
            return LocalFolder(os.open(location.name, FOLDER_FLAGS, dir_fd=location.fd), location.path, self._guard)
        except OSError as error:
            if error.errno == errno.ELOOP:  # a link is not a folder
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR)) from None
            raise

    def unlink(self, path: str, *, expected: Stat | None = None) -> None:
        with self._locate_target(path, follow=False) as location:
            self._changer.unlink(location, None if expected is None else expected.stamp)

    def remove_tree(self, path: str) -> None:
        with self._locate_target(path, follow=False) as location:
            self._guard.check_tree(location.path)
            with self._folder_at(location) as folder:
                if os.fstat(folder.fd).st_dev != os.fstat(location.fd).st_dev:
                    raise OSError(errno.EBUSY, os.strerror(errno.EBUSY))  # a mount point cannot be removed
                folder.check_removable()
                self._changer.remove_tree(location, folder)

    def mkdir(self, path: str, *, parents: bool = False) -> bool:
        parts = split_path(path)
        made = False
        for end in range(1 if parents else len(parts), len(parts) + 1):
            made = self._mkdir_one("/".join(parts[:end]), errno.EEXIST if end == len(parts) else errno.ENOTDIR)
        return made

    def _mkdir_one(self, path: str, not_a_folder: int) -> bool:
        with self._locate(path, follow=True) as location:
            try:
                found = os.stat(location.name, dir_fd=location.fd, follow_symlinks=False)
            except FileNotFoundError:
                self._guard.check(location.path, Access.WRITE, folder=True)
                try:
                    self._changer.mkdir(location)
                except FileExistsError:
                    return False  # another writer created it first
                return True
            if not stat.S_ISDIR(found.st_mode):
                raise OSError(not_a_folder, os.strerror(not_a_folder))
            return False

    def locate(self, path: str) -> Location:
        """Return the location of the real path `path`; raise NotADirectoryError where a link is on the way."""
        if path == ".":
            return Location(os.dup(self.fd), ".", ".")
        location = self._locate(path, follow=False)
        if location.path != path:
            location.close()
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
        return location

    # -- resolution

    def _locate_target(self, path: str, *, follow: bool = True) -> Location:
        """Return the location of a path that will be changed."""
        location = self._locate(path, follow=follow)
        if location.name == "." and location.path != ".":  # the path ended in "..": name the folder from its parent
            location.close()
            return self._locate_target(location.path, follow=follow)
        try:
            if location.path == ".":
                raise InvalidArgument("The workspace root itself cannot be changed.", hint="Name something inside it.")
            self._guard.check(location.path, Access.WRITE)
        except WapError:
            location.close()
            raise
        return location

    def _open(self, path: str, flags: int) -> tuple[int, str]:
        is_folder = bool(flags & os.O_DIRECTORY)

        def fast(open_beneath: openat2.OpenBeneath) -> tuple[int, str]:
            real = resolve_lexically(path)
            self._guard.check(real, Access.READ, folder=is_folder)
            return open_beneath(self.fd, path, flags & ~os.O_NOFOLLOW), real

        def slow() -> tuple[int, str]:
            with walk_components(self.fd, self.names, path, follow=True) as location:
                self._guard.check(location.path, Access.READ, folder=is_folder)
                try:
                    return os.open(location.name, flags | os.O_NOFOLLOW, dir_fd=location.fd), location.path
                except OSError as error:
                    if error.errno in (errno.ELOOP, errno.ENOTDIR) and _is_link(location):
                        raise RaceDetected from None
                    raise

        return self._resolve(path, fast, slow)

    def _locate(self, path: str, *, follow: bool) -> Location:
        parts = split_path(path)

        def fast(open_beneath: openat2.OpenBeneath) -> Location:
            folder = "/".join(parts[:-1]) or "."
            real = resolve_lexically(path)
            location = Location(open_beneath(self.fd, folder, FOLDER_FLAGS & ~os.O_NOFOLLOW), parts[-1], real)
            try:
                if follow and _is_link(location):
                    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
            except OSError:
                location.close()
                raise
            return location

        def slow() -> Location:
            return walk_components(self.fd, self.names, path, follow=follow)

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
            except RootEscape:
                raise outside(path) from None
            except FileNotFoundError:
                if _leaves_lexically(path):  # through a missing folder: refused like any other escape
                    raise outside(path) from None
                raise
            except RaceDetected:
                continue
        raise Conflict(f"The path keeps changing while it is being opened: {path}", hint="Try again.", path=path)

    def _refuse_special(self, location: Location) -> None:
        found = self._stat_location(location)
        if found is not None and found.kind is FileKind.SPECIAL:
            raise special_file_error(found)

    def _stat_location(self, location: Location) -> Stat | None:
        try:
            return build_stat(os.stat(location.name, dir_fd=location.fd, follow_symlinks=False), location.path)
        except FileNotFoundError:
            return None


def _leaves_lexically(path: str) -> bool:
    try:
        resolve_lexically(path)
    except OSError:
        return True
    return False


def _is_link(location: Location) -> bool:
    try:
        return stat.S_ISLNK(os.stat(location.name, dir_fd=location.fd, follow_symlinks=False).st_mode)
    except FileNotFoundError:
        return False
