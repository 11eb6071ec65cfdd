"""Copy and remove files, links and whole folders between open folders; no link is followed."""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress

from wap_kernel.files.contained.component_walk import FOLDER_FLAGS

_MILLISECOND_NS = 1_000_000
_CHUNK = 16 * 1024 * 1024
_SAFE = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)  # not on Windows, where this package must import
_READ = os.O_RDONLY | _SAFE | getattr(os, "O_NONBLOCK", 0)
_WRITE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _SAFE


@contextmanager
def open_folder(folder: int, name: str) -> Iterator[int]:
    """Open a folder, without following a link; one that is closed to its owner is open to him in the block."""
    with ExitStack() as stack:
        try:
            descriptor = os.open(name, FOLDER_FLAGS, dir_fd=folder)
            stack.callback(os.close, descriptor)
        except PermissionError:
            handle = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=folder)
            stack.callback(os.close, handle)
            mode = stat.S_IMODE(os.fstat(handle).st_mode)
            os.chmod(f"/proc/self/fd/{handle}", mode | 0o700)
            stack.callback(_restore_mode, f"/proc/self/fd/{handle}", mode)
            descriptor = os.open(f"/proc/self/fd/{handle}", FOLDER_FLAGS & ~os.O_NOFOLLOW)
            stack.callback(os.close, descriptor)
        else:
            mode = stat.S_IMODE(os.fstat(descriptor).st_mode)
            if mode & 0o300 != 0o300 and os.geteuid() == os.fstat(descriptor).st_uid != 0:
                os.fchmod(descriptor, mode | 0o700)
                stack.callback(_restore_mode, descriptor, mode)
        yield descriptor


def _restore_mode(target: int | str, mode: int) -> None:
    with suppress(FileNotFoundError):
        os.chmod(target, mode)


@contextmanager
def made_movable(folder: int, name: str) -> Iterator[None]:
    """Let the owner move a folder that is closed to him in the block: its entry `..` has to be written."""
    if os.geteuid() == 0:
        yield
        return
    found = os.stat(name, dir_fd=folder, follow_symlinks=False)
    if not stat.S_ISDIR(found.st_mode) or found.st_mode & 0o200:
        yield
        return
    handle = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    try:
        os.chmod(f"/proc/self/fd/{handle}", stat.S_IMODE(found.st_mode) | 0o700)
        try:
            yield
        finally:
            os.chmod(f"/proc/self/fd/{handle}", stat.S_IMODE(found.st_mode))
    finally:
        os.close(handle)


def copy_entry(source: int, name: str, target: int, new_name: str) -> None:
    """Copy a file, link or folder with modes, times, attributes and, as root, owners; remove a copy that fails."""
    try:
        _copy(source, name, target, new_name)
    except BaseException:
        with suppress(OSError):
            remove_entry(target, new_name)
        raise


def _copy(source: int, name: str, target: int, new_name: str) -> None:
    found = os.stat(name, dir_fd=source, follow_symlinks=False)
    if stat.S_ISREG(found.st_mode):
        _copy_file(source, name, target, new_name)
    elif stat.S_ISLNK(found.st_mode):
        os.symlink(os.readlink(name, dir_fd=source), new_name, dir_fd=target)
        _copy_owner(target, new_name, found)
        os.utime(new_name, ns=(found.st_atime_ns, found.st_mtime_ns), dir_fd=target, follow_symlinks=False)
    elif stat.S_ISDIR(found.st_mode):
        _copy_folder(source, name, target, new_name, found)
    elif stat.S_ISFIFO(found.st_mode):
        os.mkfifo(new_name, stat.S_IMODE(found.st_mode), dir_fd=target)
    # Sockets and devices have no content; a copy would be of no use.


def _copy_file(source: int, name: str, target: int, new_name: str) -> None:
    with ExitStack() as stack:
        old = _open_readable(source, name, stack)
        new = os.open(new_name, _WRITE, 0o600, dir_fd=target)
        stack.callback(os.close, new)
        found = os.fstat(old)
        while _copy_chunk(old, new):
            pass
        if os.geteuid() == 0:
            os.fchown(new, found.st_uid, found.st_gid)
        _copy_attributes(old, new)
        os.fchmod(new, stat.S_IMODE(found.st_mode))
        os.utime(new, ns=(found.st_atime_ns, _make_distinct_time(found.st_mtime_ns)))
        os.fsync(new)


def _make_distinct_time(mtime_ns: int) -> int:
    """Return the time with another fraction of its millisecond, so that no two copies have the same stamp.

    A copy may get the inode of a file that was removed. With the same size and time, it would count as that file.
    """
    return mtime_ns - mtime_ns % _MILLISECOND_NS + secrets.randbelow(_MILLISECOND_NS)


def _open_readable(folder: int, name: str, stack: ExitStack) -> int:
    try:
        descriptor = os.open(name, _READ, dir_fd=folder)
    except PermissionError:  # its owner may not read it
        handle = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
        stack.callback(os.close, handle)
        mode = stat.S_IMODE(os.fstat(handle).st_mode)
        os.chmod(f"/proc/self/fd/{handle}", mode | 0o400)
        stack.callback(os.chmod, f"/proc/self/fd/{handle}", mode)
        descriptor = os.open(f"/proc/self/fd/{handle}", _READ & ~os.O_NOFOLLOW)
    stack.callback(os.close, descriptor)
    return descriptor


def _copy_chunk(old: int, new: int) -> int:
    try:
        return os.copy_file_range(old, new, _CHUNK)
    except OSError as error:
        if error.errno not in (errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.EPERM):
            raise
    data = os.read(old, 1024 * 1024)
    written = 0
    while written < len(data):
        written += os.write(new, data[written:])
    return written


def _copy_folder(source: int, name: str, target: int, new_name: str, found: os.stat_result) -> None:
    os.mkdir(new_name, 0o700, dir_fd=target)
    with open_folder(source, name) as old, open_folder(target, new_name) as new:
        for entry in os.listdir(old):
            _copy(old, entry, new, entry)
        if os.geteuid() == 0:
            os.fchown(new, found.st_uid, found.st_gid)
        _copy_attributes(old, new)
        os.fchmod(new, stat.S_IMODE(found.st_mode))
        os.utime(new, ns=(found.st_atime_ns, found.st_mtime_ns))
        os.fsync(new)


def _copy_owner(folder: int, name: str, found: os.stat_result) -> None:
    if os.geteuid() == 0:
        os.chown(name, found.st_uid, found.st_gid, dir_fd=folder, follow_symlinks=False)


def _copy_attributes(old: int, new: int) -> None:
    if not hasattr(os, "listxattr"):
        return
    with suppress(OSError):
        for attribute in os.listxattr(old):
            if ".overlay." not in attribute:
                with suppress(OSError):  # the other filesystem may have none
                    os.setxattr(new, attribute, os.getxattr(old, attribute))


def remove_entry(folder: int, name: str) -> None:
    """Remove a file, link or folder with everything below, also where a folder is closed to its owner."""
    try:
        os.unlink(name, dir_fd=folder)
        return
    except FileNotFoundError:
        return
    except (IsADirectoryError, PermissionError):
        if not stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
            raise
    with open_folder(folder, name) as opened:
        for entry in os.listdir(opened):
            remove_entry(opened, entry)
    os.rmdir(name, dir_fd=folder)
