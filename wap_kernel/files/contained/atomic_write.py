"""Write files atomically: after a kill at any step a file is old or new, never torn.

    noted -> created -> written -> synced -> renamed -> folder synced -> forgotten

The journal notes the temporary file before it exists, so that the next start can remove it after a crash.
"""

from __future__ import annotations

import ctypes
import errno
import os
import secrets
import stat
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from typing import Protocol

from wap_kernel.files.contained.component_walk import Location

_HAS_EFFECTIVE_IDS = os.access in os.supports_effective_ids
_CAN_CHMOD_LINKS = os.chmod in os.supports_follow_symlinks
_O_PATH = getattr(os, "O_PATH", 0)

STEPS = ("noted", "created", "written", "synced", "renamed", "folder synced", "forgotten")
TEMPORARY_PREFIX = ".wap-"
TEMPORARY_SUFFIX = ".tmp"

Step = Callable[[str], None]
"""A callback after each step of the protocol, at which tests stop it."""


class Journal(Protocol):
    """A record of temporary files that survives a crash."""

    def note(self, name: str, path: str) -> None: ...
    def forget(self, name: str) -> None: ...


class PendingSync:
    """Renamed files whose folders are not synced yet, so that one fsync serves all files of a folder.

    No caller may report such a file before `sync` has returned.
    """

    def __init__(self) -> None:
        self._folders: dict[tuple[int, int], int] = {}
        self._temporary: list[tuple[Journal, str]] = []

    def add_folder(self, folder: int) -> None:
        """Add a folder before a file is renamed into it, so that nothing can fail afterwards."""
        found = os.fstat(folder)
        if (found.st_dev, found.st_ino) not in self._folders:
            self._folders[found.st_dev, found.st_ino] = os.dup(folder)

    def add(self, temporary: str, journal: Journal) -> None:
        self._temporary.append((journal, temporary))

    def sync(self) -> None:
        """Sync the folders and forget the temporary files; errors of `fsync` leave no descriptor open."""
        try:
            for folder in self._folders.values():
                os.fsync(folder)
            for journal, temporary in self._temporary:
                journal.forget(temporary)
        finally:
            for folder in self._folders.values():
                os.close(folder)
            self._folders.clear()
            self._temporary.clear()


def is_temporary(name: str) -> bool:
    return name.startswith(TEMPORARY_PREFIX) and name.endswith(TEMPORARY_SUFFIX)


def write_file(
    location: Location,
    data: bytes,
    *,
    exclusive: bool,
    mode: int | None,
    journal: Journal,
    step: Step,
    restoring: bool = False,
    pending_sync: PendingSync | None = None,
) -> os.stat_result:
    """Write a file with `data` at `location`, with the mode and owner of an existing file unless `mode` is not None.

    With `pending_sync`, its `sync` does the last two steps.
    With `restoring`, the file also replaces a read-only file and gets all bits of `mode`.
    """
    old = _check_existing(location, allow_read_only=restoring)
    if old is not None and exclusive:
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))
    if pending_sync is not None:
        pending_sync.add_folder(location.fd)
    temporary = _note_temporary(location, journal)
    step("noted")
    try:
        bits = 0o7777 if restoring else 0o777  # new content has not earned a setuid bit
        result = _write_temporary(location.fd, temporary, data, old, mode, bits, step)
        if exclusive:
            rename_exclusive(location.fd, temporary, location.fd, location.name)
        else:
            os.rename(temporary, location.name, src_dir_fd=location.fd, dst_dir_fd=location.fd)
    except OSError:
        _discard(location.fd, temporary)
        journal.forget(temporary)
        raise
    step("renamed")
    if pending_sync is not None:
        pending_sync.add(temporary, journal)
        return result
    os.fsync(location.fd)
    step("folder synced")
    journal.forget(temporary)
    step("forgotten")
    return result


def write_link(location: Location, target: str, *, journal: Journal) -> None:
    """Create a link at `location` by the same protocol."""
    temporary = _note_temporary(location, journal)
    try:
        os.symlink(target, temporary, dir_fd=location.fd)
        os.rename(temporary, location.name, src_dir_fd=location.fd, dst_dir_fd=location.fd)
    except OSError:
        _discard(location.fd, temporary)
        journal.forget(temporary)
        raise
    os.fsync(location.fd)
    journal.forget(temporary)


def _note_temporary(location: Location, journal: Journal) -> str:
    temporary = f"{TEMPORARY_PREFIX}{secrets.token_hex(12)}{TEMPORARY_SUFFIX}"
    journal.note(temporary, os.path.join(os.path.dirname(location.path), temporary))
    return temporary


def _check_existing(location: Location, *, allow_read_only: bool) -> os.stat_result | None:
    try:
        old = os.stat(location.name, dir_fd=location.fd, follow_symlinks=False)
    except FileNotFoundError:
        return None
    if stat.S_ISDIR(old.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not allow_read_only and not os.access(
        location.name, os.W_OK, dir_fd=location.fd, effective_ids=_HAS_EFFECTIVE_IDS
    ):
        # A rename would succeed, but a person made the file read-only on purpose.
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    return old


def _write_temporary(
    folder: int, name: str, data: bytes, old: os.stat_result | None, mode: int | None, bits: int, step: Step
) -> os.stat_result:
    new_mode = mode if mode is not None else old.st_mode if old is not None else None
    # A new file gets the mode that the umask leaves, as from any editor. Otherwise no other user can read it before it
    # has the mode of the file that it replaces.
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(name, flags, 0o666 if new_mode is None else 0o600, dir_fd=folder)
    try:
        step("created")
        write_all(descriptor, data)
        if old is not None and (old.st_uid, old.st_gid) != (os.geteuid(), os.getegid()):
            _keep_owner(descriptor, old)
        if new_mode is not None:
            os.fchmod(descriptor, stat.S_IMODE(new_mode) & bits)
        step("written")
        os.fsync(descriptor)
        step("synced")
        return os.fstat(descriptor)
    finally:
        os.close(descriptor)


def write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def append_all(descriptor: int, data: bytes, size_before: int) -> None:
    """Append `data`; after a failure truncate the file again, unless another process has appended since."""
    written = 0
    try:
        while written < len(data):
            written += os.write(descriptor, data[written:])
    except OSError:
        if written and os.fstat(descriptor).st_size == size_before + written:
            os.ftruncate(descriptor, size_before)
        raise


def _keep_owner(descriptor: int, old: os.stat_result) -> None:
    # Only root may change owners; otherwise the file belongs to the user of the server, as after any editor.
    with suppress(PermissionError):
        os.fchown(descriptor, old.st_uid, old.st_gid)


def _discard(folder: int, name: str) -> None:
    with suppress(FileNotFoundError):
        os.unlink(name, dir_fd=folder)


def change_mode(location: Location, mode: int) -> None:
    """Change the mode of the file or folder at `location`, never of the target of a link."""
    bits = stat.S_IMODE(mode)
    if _CAN_CHMOD_LINKS:
        os.chmod(location.name, bits, dir_fd=location.fd, follow_symlinks=False)
        return
    # Linux has no such call, and a file without read permission cannot be opened for fchmod. An O_PATH descriptor needs
    # no permission on the file, and its entry in /proc names nothing else.
    descriptor = os.open(location.name, _O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=location.fd)
    try:
        if stat.S_ISLNK(os.fstat(descriptor).st_mode):
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
        os.chmod(f"/proc/self/fd/{descriptor}", bits)
    finally:
        os.close(descriptor)


_RENAME_NOREPLACE = 1


@cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def rename_exclusive(source_fd: int, source: str, target_fd: int, target: str) -> None:
    """Rename, or fail with EEXIST if the target exists, in one step where the system can do that."""
    if sys.platform.startswith("linux"):
        renameat2 = getattr(_libc(), "renameat2", None)
        if renameat2 is not None:
            if renameat2(source_fd, os.fsencode(source), target_fd, os.fsencode(target), _RENAME_NOREPLACE) == 0:
                return
            number = ctypes.get_errno()
            if number not in (errno.ENOSYS, errno.EINVAL):
                raise OSError(number, os.strerror(number))
    try:  # a second name is exclusive everywhere, but folders and some file systems have none
        os.link(source, target, src_dir_fd=source_fd, dst_dir_fd=target_fd, follow_symlinks=False)
    except FileExistsError:
        raise
    except OSError:
        _rename_after_stat(source_fd, source, target_fd, target)
    else:
        os.unlink(source, dir_fd=source_fd)


def _rename_after_stat(source_fd: int, source: str, target_fd: int, target: str) -> None:
    """Rename after a stat of `target`, as a last resort: a file created between the two calls is lost."""
    try:
        os.stat(target, dir_fd=target_fd, follow_symlinks=False)
    except FileNotFoundError:
        os.rename(source, target, src_dir_fd=source_fd, dst_dir_fd=target_fd)
        return
    raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))
