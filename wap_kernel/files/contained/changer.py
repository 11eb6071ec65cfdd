"""The Changer of a `Root` changes what is at a location. `UnrecordedChanger` records nothing.

A caller that read the file passes `expected`: a file that another program has saved since is put back, and the change
is a Conflict. The comparison comes after the rename, so no save can slip in between.
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import Protocol

from wap_kernel.files.contained.atomic_write import (
    Journal,
    StagedFile,
    Step,
    append_all,
    change_mode,
    check_writable,
    write_all,
)
from wap_kernel.files.contained.component_walk import Location
from wap_kernel.files.contained.handles import LocalFolder, build_stat, special_file_error
from wap_kernel.files.contained.renames import Exchange, exchange, rename_exclusive
from wap_kernel.model.errors import Conflict, TooLarge
from wap_kernel.model.paths import render_path

MAX_SHARED_BYTES = 64 * 1024 * 1024
"""Bytes of a file with several names that is appended to: all of it is written anew."""


class Changer(Protocol):
    """Changes what is at a location, whose path the guard has passed. `expected` is the stamp of what was read."""

    def write(
        self, location: Location, data: bytes, *, exclusive: bool, mode: int | None, expected: str | None
    ) -> os.stat_result: ...
    def overwrite(self, location: Location, data: bytes, *, expected: str | None) -> os.stat_result:
        """Write to the file at a location in place."""

    def append(self, location: Location, data: bytes) -> os.stat_result: ...
    def unlink(self, location: Location, expected: str | None) -> None: ...
    def remove_tree(self, location: Location, folder: LocalFolder) -> None: ...
    def rename(self, old: Location, new: Location, *, overwrite: bool) -> None: ...
    def mkdir(self, location: Location) -> None: ...
    def chmod(self, location: Location, mode: int) -> None: ...


def make_stamp(found: os.stat_result) -> str:
    """Return inode, size and time of modification, by which a later change of a file is noticed."""
    return f"{found.st_ino}:{found.st_size}:{found.st_mtime_ns}"


def make_conflict(path: str) -> Conflict:
    return Conflict(
        f"The file has changed since it was read: {render_path(path)}",
        hint="Read it again and repeat the change on what it holds now.",
        path=render_path(path),
    )


class UnrecordedChanger:
    """Changes files without a record."""

    def __init__(self, journal: Journal, step: Step, exchange_names: Exchange = exchange) -> None:
        self._journal = journal
        self._step = step
        self._exchange = exchange_names

    def write(
        self, location: Location, data: bytes, *, exclusive: bool, mode: int | None, expected: str | None
    ) -> os.stat_result:
        old = check_writable(location)
        if old is not None and exclusive:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))
        staged = StagedFile(location, data, old, mode, journal=self._journal, step=self._step)
        if exclusive:
            staged.rename()
            return staged.stat
        try:
            if expected is None:
                os.rename(staged.name, location.name, src_dir_fd=location.fd, dst_dir_fd=location.fd)
            else:
                self._replace(staged, location, expected)
        except (OSError, Conflict):
            staged.discard()
            raise
        self._step("renamed")
        os.fsync(location.fd)
        self._step("folder synced")
        if expected is not None:
            staged.discard()
        staged.forget()
        self._step("forgotten")
        return staged.stat

    def _replace(self, staged: StagedFile, location: Location, expected: str) -> None:
        try:
            self._exchange(location.fd, staged.name, location.fd, location.name)
        except FileNotFoundError:
            raise make_conflict(location.path) from None
        displaced = os.stat(staged.name, dir_fd=location.fd, follow_symlinks=False)
        if make_stamp(displaced) != expected:
            put_back(self._exchange, Location(location.fd, staged.name, ""), location, staged.stat)
            raise make_conflict(location.path)

    def overwrite(self, location: Location, data: bytes, *, expected: str | None) -> os.stat_result:
        check_writable(location)
        return overwrite_file(location, data, expected)

    def append(self, location: Location, data: bytes) -> os.stat_result:
        shared = read_shared_file(location)
        if shared is not None:
            return self.write(location, shared[0] + data, exclusive=False, mode=None, expected=shared[1])
        return append_to_file(location, data)[1]

    def unlink(self, location: Location, expected: str | None) -> None:
        if expected is not None:
            check_stamp(location, expected)
        os.unlink(location.name, dir_fd=location.fd)
        os.fsync(location.fd)

    def remove_tree(self, location: Location, folder: LocalFolder) -> None:
        folder.clear()
        os.rmdir(location.name, dir_fd=location.fd)
        os.fsync(location.fd)

    def rename(self, old: Location, new: Location, *, overwrite: bool) -> None:
        if overwrite:
            os.rename(old.name, new.name, src_dir_fd=old.fd, dst_dir_fd=new.fd)
        else:
            rename_exclusive(old.fd, old.name, new.fd, new.name)
        os.fsync(new.fd)
        os.fsync(old.fd)

    def mkdir(self, location: Location) -> None:
        os.mkdir(location.name, dir_fd=location.fd)
        os.fsync(location.fd)

    def chmod(self, location: Location, mode: int) -> None:
        change_mode(location, mode)


def check_stamp(location: Location, expected: str) -> None:
    """Raise Conflict if another file than the expected one is at a location."""
    try:
        found = os.stat(location.name, dir_fd=location.fd, follow_symlinks=False)
    except FileNotFoundError:
        raise make_conflict(location.path) from None
    if make_stamp(found) != expected:
        raise make_conflict(location.path)


def put_back(exchange_names: Exchange, displaced: Location, target: Location, new: os.stat_result) -> bool:
    """Put what was displaced back to the target, and `new` back to where it came from.

    Return False if another program has replaced `new` meanwhile: then its file stays, and the displaced one too.
    """
    try:
        exchange_names(displaced.fd, displaced.name, target.fd, target.name)
    except FileNotFoundError:  # `new` has been deleted meanwhile
        with suppress(FileExistsError):
            rename_exclusive(displaced.fd, displaced.name, target.fd, target.name)
            return True
        return False
    found = os.stat(displaced.name, dir_fd=displaced.fd, follow_symlinks=False)
    if found.st_ino == new.st_ino and make_stamp(found) == make_stamp(new):
        return True
    exchange_names(displaced.fd, displaced.name, target.fd, target.name)
    return False


def read_shared_file(location: Location) -> tuple[bytes, str] | None:
    """Return the content and the stamp of a file that has other names too, None for any other.

    What is appended in place would change the file at those names as well, which no policy has judged.
    """
    found = os.stat(location.name, dir_fd=location.fd, follow_symlinks=False)
    if not stat.S_ISREG(found.st_mode) or found.st_nlink == 1:
        return None
    if found.st_size > MAX_SHARED_BYTES:
        raise TooLarge(
            f"The file has several names and more than {MAX_SHARED_BYTES} bytes, so nothing is appended to it.",
            hint="Append with a command.",
            path=render_path(location.path),
        )
    descriptor = os.open(location.name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=location.fd)
    with os.fdopen(descriptor, "rb") as file:
        return file.read(), make_stamp(os.fstat(descriptor))


def has_one_name(location: Location) -> bool:
    """Return whether a regular file is at a location that has no other name, at which a write would show too."""
    try:
        found = os.stat(location.name, dir_fd=location.fd, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return stat.S_ISREG(found.st_mode) and found.st_nlink == 1


def overwrite_file(
    location: Location, data: bytes, expected: str | None, section: AbstractContextManager[None] | None = None
) -> os.stat_result:
    """Write to a file in place, and return its stat; raise Conflict if another file than the expected one is there.

    The critical `section` keeps saves away. The file is shortened last, so that at no moment it is empty.
    """
    flags = os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    descriptor = os.open(location.name, flags, dir_fd=location.fd)
    try:
        with section or nullcontext():
            before = os.fstat(descriptor)
            if not stat.S_ISREG(before.st_mode):
                raise special_file_error(build_stat(before, location.path))
            if before.st_nlink != 1 or (expected is not None and make_stamp(before) != expected):
                raise make_conflict(location.path)
            write_all(descriptor, data)
            os.ftruncate(descriptor, len(data))
            if before.st_mode & 0o7000:
                os.fchmod(descriptor, before.st_mode & 0o777)  # new content has not earned a setuid bit
        os.fsync(descriptor)
        return os.fstat(descriptor)
    finally:
        os.close(descriptor)


def append_to_file(
    location: Location, data: bytes, section: AbstractContextManager[None] | None = None
) -> tuple[os.stat_result, os.stat_result]:
    """Append to a file in place, for a logger may have it open; return its stat before and after.

    The critical `section` keeps saves away: a save that truncates the file first would write into the appended data.
    """
    flags = os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    descriptor = os.open(location.name, flags, dir_fd=location.fd)
    try:
        with section or nullcontext():
            before = os.fstat(descriptor)
            if not stat.S_ISREG(before.st_mode):
                raise special_file_error(build_stat(before, location.path))
            append_all(descriptor, data, before.st_size)
            after = os.fstat(descriptor)
        os.fsync(descriptor)
        return before, after
    finally:
        os.close(descriptor)
