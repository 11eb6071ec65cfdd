"""The write protocol: a file is old or new, never torn, at any kill.

    noted -> created -> written -> synced -> renamed -> folder synced -> forgotten

The temporary file is noted in the journal before it exists, so that the next start can remove it after a crash.
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
"""Called when a step is done; tests stop the protocol there."""


class Journal(Protocol):
    """Remembers temporary files across a crash."""

    def note(self, name: str, path: str) -> None: ...
    def forget(self, name: str) -> None: ...


class PendingSync:
    """Files that have their names already, and folders that are not synced yet: once for all that was put into one.

    None of it may be told before `sync` has returned."""

    def __init__(self) -> None:
        self._folders: dict[tuple[int, int], int] = {}
        self._temporary: list[tuple[Journal, str]] = []

    def add_folder(self, folder: int) -> None:
        """Before something is put into it, so that nothing can fail afterwards."""
        found = os.fstat(folder)
        if (found.st_dev, found.st_ino) not in self._folders:
            self._folders[found.st_dev, found.st_ino] = os.dup(folder)

    def add(self, temporary: str, journal: Journal) -> None:
        self._temporary.append((journal, temporary))

    def sync(self) -> None:
        """Raises what `fsync` does; whatever happens, nothing is left open."""
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
    """Put a file with `data` at `location`. An existing file's mode and owner are kept unless `mode` is given.

    With `pending_sync` the last two steps are left to it.
    `restoring`: it is what stood there before, so it takes the location of a read-only file too and gets all of its mode.
    """
    old = _existing(location, even_read_only=restoring)
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
    """Put a link at `location`, by the same protocol."""
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


def _existing(location: Location, *, even_read_only: bool) -> os.stat_result | None:
    try:
        old = os.stat(location.name, dir_fd=location.fd, follow_symlinks=False)
    except FileNotFoundError:
        return None
    if stat.S_ISDIR(old.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not even_read_only and not os.access(
        location.name, os.W_OK, dir_fd=location.fd, effective_ids=_HAS_EFFECTIVE_IDS
    ):
        # A rename would not ask, but whoever made the file read-only meant it.
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    return old


def _write_temporary(
    folder: int, name: str, data: bytes, old: os.stat_result | None, mode: int | None, bits: int, step: Step
) -> os.stat_result:
    wanted = mode if mode is not None else old.st_mode if old is not None else None
    # A new file gets what the umask leaves, as from any editor. Otherwise nobody else reads it before it has the mode
    # of the file that it replaces.
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(name, flags, 0o666 if wanted is None else 0o600, dir_fd=folder)
    try:
        step("created")
        write_all(descriptor, data)
        if old is not None and (old.st_uid, old.st_gid) != (os.geteuid(), os.getegid()):
            _keep_owner(descriptor, old)
        if wanted is not None:
            os.fchmod(descriptor, stat.S_IMODE(wanted) & bits)
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
    """Add `data` at the end. After a failure a part is taken back, unless somebody else has appended since."""
    written = 0
    try:
        while written < len(data):
            written += os.write(descriptor, data[written:])
    except OSError:
        if written and os.fstat(descriptor).st_size == size_before + written:
            os.ftruncate(descriptor, size_before)
        raise


def _keep_owner(descriptor: int, old: os.stat_result) -> None:
    # Only root may give files away; otherwise the file belongs to who wrote it, as after any editor.
    with suppress(PermissionError):
        os.fchown(descriptor, old.st_uid, old.st_gid)


def _discard(folder: int, name: str) -> None:
    with suppress(FileNotFoundError):
        os.unlink(name, dir_fd=folder)


def change_mode(location: Location, mode: int) -> None:
    bits = stat.S_IMODE(mode)
    if _CAN_CHMOD_LINKS:
        os.chmod(location.name, bits, dir_fd=location.fd, follow_symlinks=False)
        return
    # Linux: no such call, and a file that may not be read cannot be opened for fchmod. A descriptor that stands for the
    # name alone is always to be had, and its own entry in /proc names nothing else.
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
    """Rename, failing with EEXIST when the target exists, in one step where the system can do that."""
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
        _rename_after_a_look(source_fd, source, target_fd, target)
    else:
        os.unlink(source, dir_fd=source_fd)


def _rename_after_a_look(source_fd: int, source: str, target_fd: int, target: str) -> None:
    """The last resort: what is made at `target` between the look and the rename is lost."""
    try:
        os.stat(target, dir_fd=target_fd, follow_symlinks=False)
    except FileNotFoundError:
        os.rename(source, target, src_dir_fd=source_fd, dst_dir_fd=target_fd)
        return
    raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))
