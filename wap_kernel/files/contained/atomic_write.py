"""Write files atomically: after a kill at any step a file is old or new, never torn.

    noted -> created -> written -> synced -> renamed -> folder synced -> forgotten

The journal notes the temporary file before it exists, so that the next start can remove it after a crash.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

from wap_kernel.files.contained.component_walk import Location
from wap_kernel.files.contained.renames import TEMPORARY_PREFIX as TEMPORARY_PREFIX
from wap_kernel.files.contained.renames import TEMPORARY_SUFFIX as TEMPORARY_SUFFIX
from wap_kernel.files.contained.renames import is_temporary as is_temporary
from wap_kernel.files.contained.renames import rename_exclusive, temporary_name

_HAS_EFFECTIVE_IDS = os.access in os.supports_effective_ids
_CAN_CHMOD_LINKS = os.chmod in os.supports_follow_symlinks
_O_PATH = getattr(os, "O_PATH", 0)

STEPS = ("noted", "created", "written", "synced", "renamed", "folder synced", "forgotten")

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


class StagedFile:
    """A file with its final content and mode under a temporary name beside `location`, synced and noted.

    The file gets `mode`, or else the mode and owner of the file `old` that it shall replace.
    """

    def __init__(
        self,
        location: Location,
        data: bytes,
        old: os.stat_result | None,
        mode: int | None,
        *,
        journal: Journal,
        step: Step,
    ) -> None:
        self.location = location
        self.token = secrets.token_hex(12)
        self.name = temporary_name(self.token)
        self._journal = journal
        self._step = step
        journal.note(self.name, os.path.join(os.path.dirname(location.path), self.name))
        step("noted")
        try:
            self.stat = _write_temporary(location.fd, self.name, data, old, mode, step)
        except OSError:
            self.discard()
            raise

    def rename(self, pending_sync: PendingSync | None = None) -> None:
        """Give the file its name, which must be free; with `pending_sync`, its `sync` does the last two steps."""
        try:
            rename_exclusive(self.location.fd, self.name, self.location.fd, self.location.name)
        except OSError:
            self.discard()
            raise
        self._step("renamed")
        if pending_sync is not None:
            pending_sync.add(self.name, self._journal)
            return
        os.fsync(self.location.fd)
        self._step("folder synced")
        self.forget()
        self._step("forgotten")

    def forget(self) -> None:
        """Remove the note, for the temporary name is gone or the log of changes names it."""
        self._journal.forget(self.name)

    def discard(self) -> None:
        """Remove the temporary file."""
        with suppress(FileNotFoundError):
            os.unlink(self.name, dir_fd=self.location.fd)
        self.forget()


def check_writable(location: Location) -> os.stat_result | None:
    """Return the stat of the file that a write shall replace; raise where it is a folder or may not be written."""
    old = _lstat(location)
    if old is None:
        return None
    if stat.S_ISDIR(old.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not os.access(location.name, os.W_OK, dir_fd=location.fd, effective_ids=_HAS_EFFECTIVE_IDS):
        # A rename would succeed, but a person made the file read-only on purpose.
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    return old


def _lstat(location: Location) -> os.stat_result | None:
    try:
        return os.stat(location.name, dir_fd=location.fd, follow_symlinks=False)
    except FileNotFoundError:
        return None


def _write_temporary(
    folder: int, name: str, data: bytes, old: os.stat_result | None, mode: int | None, step: Step
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
            os.fchmod(descriptor, stat.S_IMODE(new_mode) & 0o777)  # new content has not earned a setuid bit
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
