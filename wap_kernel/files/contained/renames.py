"""Rename within and between open folders: exclusively, or as an exchange of two names; sync a whole filesystem.

An exchange is one step in the kernel, so whatever was at the target, saved by anybody at any moment, is afterwards at
the source. NFS and some FUSE filesystems cannot do that. There a second name keeps the old file while the new one is
renamed over it; a file that another program renames to the target between these two steps is lost.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import cache

TEMPORARY_PREFIX = ".wap-"
TEMPORARY_SUFFIX = ".tmp"
_NOREPLACE = 1
_EXCHANGE = 2
_UNSUPPORTED = (errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP)

Exchange = Callable[[int, str, int, str], None]
"""A function that exchanges two names: folder, name, other folder, other name."""


def temporary_name(token: str) -> str:
    return f"{TEMPORARY_PREFIX}{token}{TEMPORARY_SUFFIX}"


def is_temporary(name: str) -> bool:
    return name.startswith(TEMPORARY_PREFIX) and name.endswith(TEMPORARY_SUFFIX)


def spare_name(inode: int) -> str:
    """Return the second name that an exchange in several steps gives to the file with this inode."""
    return temporary_name(f"{inode:x}-old")


def rename_exclusive(source_fd: int, source: str, target_fd: int, target: str) -> None:
    """Rename, or fail with EEXIST if the target exists, in one step where the system can do that."""
    if _renameat2(source_fd, source, target_fd, target, _NOREPLACE):
        return
    try:  # a second name is exclusive everywhere, but folders and some file systems have none
        os.link(source, target, src_dir_fd=source_fd, dst_dir_fd=target_fd, follow_symlinks=False)
    except FileExistsError:
        raise
    except OSError:
        _rename_after_stat(source_fd, source, target_fd, target)
    else:
        os.unlink(source, dir_fd=source_fd)


def exchange(source_fd: int, source: str, target_fd: int, target: str) -> None:
    """Exchange two names, in one step where the system can do that."""
    if not _renameat2(source_fd, source, target_fd, target, _EXCHANGE):
        exchange_in_steps(source_fd, source, target_fd, target)


def exchange_in_steps(source_fd: int, source: str, target_fd: int, target: str) -> None:
    """Exchange two names with a third one in the target's folder, see `spare_name`."""
    old = os.stat(target, dir_fd=target_fd, follow_symlinks=False)
    spare = spare_name(old.st_ino)
    if stat.S_ISDIR(old.st_mode) or stat.S_ISDIR(os.stat(source, dir_fd=source_fd, follow_symlinks=False).st_mode):
        os.rename(target, spare, src_dir_fd=target_fd, dst_dir_fd=target_fd)
    else:
        with suppress(FileNotFoundError):  # of an exchange that a crash interrupted
            os.unlink(spare, dir_fd=target_fd)
        os.link(target, spare, src_dir_fd=target_fd, dst_dir_fd=target_fd, follow_symlinks=False)
    os.rename(source, target, src_dir_fd=source_fd, dst_dir_fd=target_fd)
    os.rename(spare, source, src_dir_fd=target_fd, dst_dir_fd=source_fd)


def sync_filesystem(descriptor: int) -> None:
    """Write everything to disk that is pending on the filesystem of an open file or folder."""
    if sys.platform.startswith("linux"):
        if _libc().syncfs(descriptor) != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
    else:
        os.sync()


@cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _renameat2(source_fd: int, source: str, target_fd: int, target: str, flags: int) -> bool:
    """Rename with flags, and return False where the system or the filesystem does not know them."""
    call = getattr(_libc(), "renameat2", None) if sys.platform.startswith("linux") else None
    if call is None:
        return False
    if call(source_fd, os.fsencode(source), target_fd, os.fsencode(target), flags) == 0:
        return True
    number = ctypes.get_errno()
    if number in _UNSUPPORTED:
        return False
    raise OSError(number, os.strerror(number))


def _rename_after_stat(source_fd: int, source: str, target_fd: int, target: str) -> None:
    """Rename after a stat of `target`, as a last resort: a file created between the two calls is lost."""
    try:
        os.stat(target, dir_fd=target_fd, follow_symlinks=False)
    except FileNotFoundError:
        os.rename(source, target, src_dir_fd=source_fd, dst_dir_fd=target_fd)
        return
    raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))
