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

from wap_kernel.files.contained.component_walk import Place

_HAS_EFFECTIVE_IDS = os.access in os.supports_effective_ids

STEPS = ("noted", "created", "written", "synced", "renamed", "folder synced", "forgotten")
TEMPORARY_PREFIX = ".wap-"
TEMPORARY_SUFFIX = ".tmp"

Step = Callable[[str], None]
"""Called when a step is done; tests stop the protocol there."""


class Journal(Protocol):
    """Remembers temporary files across a crash."""

    def note(self, name: str, path: str) -> None: ...
    def forget(self, name: str) -> None: ...


class Unsettled:
    """Files that have their names already, and folders that are not synced yet: once for all that was put into one.

    None of it may be told before `settle` has returned."""

    def __init__(self) -> None:
        self._folders: dict[tuple[int, int], int] = {}
        self._temporary: list[tuple[Journal, str]] = []

    def hold(self, folder: int) -> None:
        """Before something is put into it, so that nothing can fail afterwards."""
        found = os.fstat(folder)
        if (found.st_dev, found.st_ino) not in self._folders:
            self._folders[found.st_dev, found.st_ino] = os.dup(folder)

    def add(self, temporary: str, journal: Journal) -> None:
        self._temporary.append((journal, temporary))

    def settle(self) -> None:
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


def replace(
    place: Place,
    data: bytes,
    *,
    exclusive: bool,
    mode: int | None,
    journal: Journal,
    step: Step,
    restoring: bool = False,
    unsettled: Unsettled | None = None,
) -> os.stat_result:
    """Put a file with `data` at `place`. An existing file's mode and owner are kept unless `mode` is given.

    With `unsettled` the last two steps are left to it.
    `restoring`: it is what stood there before, so it takes the place of a read-only file too and gets all of its mode.
    """
    old = _existing(place, even_read_only=restoring)
    if old is not None and exclusive:
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))
    if unsettled is not None:
        unsettled.hold(place.fd)
    temporary = _note_temporary(place, journal)
    step("noted")
    try:
        bits = 0o7777 if restoring else 0o777  # new content has not earned a setuid bit
        result = _write_temporary(place.fd, temporary, data, old, mode, bits, step)
        if exclusive:
            rename_exclusive(place.fd, temporary, place.fd, place.name)
        else:
            os.rename(temporary, place.name, src_dir_fd=place.fd, dst_dir_fd=place.fd)
    except OSError:
        _discard(place.fd, temporary)
        journal.forget(temporary)
        raise
    step("renamed")
    if unsettled is not None:
        unsettled.add(temporary, journal)
        return result
    os.fsync(place.fd)
    step("folder synced")
    journal.forget(temporary)
    step("forgotten")
    return result


def replace_by_link(place: Place, target: str, *, journal: Journal) -> None:
    """Put a link at `place`, by the same protocol."""
    temporary = _note_temporary(place, journal)
    try:
        os.symlink(target, temporary, dir_fd=place.fd)
        os.rename(temporary, place.name, src_dir_fd=place.fd, dst_dir_fd=place.fd)
    except OSError:
        _discard(place.fd, temporary)
        journal.forget(temporary)
        raise
    os.fsync(place.fd)
    journal.forget(temporary)


def _note_temporary(place: Place, journal: Journal) -> str:
    temporary = f"{TEMPORARY_PREFIX}{secrets.token_hex(12)}{TEMPORARY_SUFFIX}"
    journal.note(temporary, os.path.join(os.path.dirname(place.path), temporary))
    return temporary


def _existing(place: Place, *, even_read_only: bool) -> os.stat_result | None:
    try:
        old = os.stat(place.name, dir_fd=place.fd, follow_symlinks=False)
    except FileNotFoundError:
        return None
    if stat.S_ISDIR(old.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not even_read_only and not os.access(place.name, os.W_OK, dir_fd=place.fd, effective_ids=_HAS_EFFECTIVE_IDS):
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
