"""Store before-images by their hash in the state folder, shared by all runs.

`blobs/ab/cdef...`: a name is the SHA-256 of the content, so equal contents are stored once and a damaged one shows when
it is read. A new one is written under another name and renamed, so that no name ever stands for a part.
"""

from __future__ import annotations

import errno
import hashlib
import os
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import NamedTuple

from wap_kernel.files.contained.atomic_write import write_all
from wap_kernel.files.contained.handles import LocalFile
from wap_kernel.files.interface import OpenFile
from wap_kernel.model.errors import NoSpace, ProviderUnavailable, WapError

FRESH_SECONDS = 600.0
"""Precision of the time of the last use, in seconds. Retention waits much longer before it removes a content."""
CHUNK = 1024 * 1024
TEMPORARY = "tmp-"
_FICLONE = 0x40049409
_FULL = (errno.ENOSPC, errno.EDQUOT)


class StoredContent(NamedTuple):
    """A content in the store."""

    digest: str
    size: int


class BlobFile(NamedTuple):
    """A file of the store; one without a digest is the rest of a crash. `used_at` is the time of its last use."""

    path: str
    digest: str | None
    size: int
    used_at: float


@dataclass
class _New:
    number: int
    """The number of the descriptor."""
    content: StoredContent | None = None


class BlobStore:
    """The store of one state folder; any thread and any process may use it."""

    def __init__(self, state_dir: str) -> None:
        self.folder = os.path.join(state_dir, "blobs")
        os.makedirs(self.folder, mode=0o700, exist_ok=True)

    def keep(self, file: OpenFile, limit: int) -> StoredContent | None:
        """Store the content of the file; return None if that is more than `limit` bytes.

        Like the state database the store survives any crash of the server, and a power cut may take the last contents.
        """
        expected = min(file.stat.size, CHUNK, limit)
        data = file.read(expected + 1)
        if len(data) <= expected:
            return self.put(data)
        file.seek(0)
        return self._keep_large(file, limit)

    def put(self, data: bytes) -> StoredContent:
        content = StoredContent(hashlib.sha256(data).hexdigest(), len(data))
        if not self.mark_used(*content):
            with self._new() as new:
                write_all(new.number, data)
                new.content = content
        return content

    def _keep_large(self, file: OpenFile, limit: int) -> StoredContent | None:
        with self._new() as new:
            new.content = _clone(file, new.number, limit) or _copy(file, new.number, limit)
        return new.content

    @contextmanager
    def _new(self) -> Iterator[_New]:
        """Open a temporary file, which becomes a content when the block ends and its hash is known."""
        temporary = os.path.join(self.folder, f"{TEMPORARY}{secrets.token_hex(12)}")
        try:
            new = _New(os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
            try:
                try:
                    yield new
                finally:
                    os.close(new.number)
                if new.content is not None:
                    self._name(temporary, new.content.digest)
            finally:
                with suppress(FileNotFoundError):
                    os.unlink(temporary)
        except OSError as error:
            raise _unusable(error) from error

    def _name(self, temporary: str, digest: str) -> None:
        path = self._path(digest)
        try:
            os.rename(temporary, path)
        except FileNotFoundError:
            os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
            os.rename(temporary, path)

    def mark_used(self, digest: str, size: int) -> bool:
        """Return whether a content is stored; if so it counts as used now, and retention keeps it for a while."""
        path = self._path(digest)
        try:
            found = os.stat(path)
            if found.st_mtime < time.time() - FRESH_SECONDS:  # not at each of a hundred commands a minute
                os.utime(path)
        except FileNotFoundError:
            return False
        return found.st_size == size

    def read(self, digest: str) -> bytes | None:
        """Return the content, or None if it is missing or damaged."""
        try:
            with open(self._path(digest), "rb") as stored:
                data = stored.read()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise _unusable(error) from error
        return data if hashlib.sha256(data).hexdigest() == digest else None

    # -- retention

    def all(self) -> Iterator[BlobFile]:
        for folder in (self.folder, *sorted(_folders(self.folder))):
            with os.scandir(folder) as entries:
                for entry in entries:
                    with suppress(FileNotFoundError):
                        if entry.is_file(follow_symlinks=False):
                            found = entry.stat(follow_symlinks=False)
                            is_whole = folder != self.folder
                            digest = os.path.basename(folder) + entry.name if is_whole else None
                            yield BlobFile(entry.path, digest, found.st_size, found.st_mtime)

    def remove(self, stored: BlobFile, *, unused_for: float = 3600.0) -> int:
        """Remove a file and return the bytes freed: 0 if it was used lately, for a process may be about to name it."""
        with suppress(FileNotFoundError):
            # Renamed first: a content that a process begins to use between the check and the removal would be lost.
            unreachable = os.path.join(self.folder, f"{TEMPORARY}{secrets.token_hex(12)}")
            os.rename(stored.path, unreachable)
            if os.stat(unreachable).st_mtime < time.time() - unused_for:
                os.unlink(unreachable)
                return stored.size
            os.rename(unreachable, stored.path)
        return 0

    def _path(self, digest: str) -> str:
        return os.path.join(self.folder, digest[:2], digest[2:])


def _folders(folder: str) -> list[str]:
    with os.scandir(folder) as entries:
        return [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)]


def _clone(file: OpenFile, descriptor: int, limit: int) -> StoredContent | None:
    """Clone the file by sharing its blocks, where the file system can.

    The clone is hashed: the file itself may go on changing.
    """
    if not isinstance(file, LocalFile) or file.stat.size > limit:
        return None
    try:
        import fcntl  # not on Windows, where this package must import, though it does not run

        fcntl.ioctl(descriptor, _FICLONE, file.fd)
    except (ImportError, OSError):
        return None
    digest, size = hashlib.sha256(), 0
    while chunk := os.read(descriptor, CHUNK):
        digest.update(chunk)
        size += len(chunk)
    return StoredContent(digest.hexdigest(), size) if size <= limit else None


def _copy(file: OpenFile, descriptor: int, limit: int) -> StoredContent | None:
    os.ftruncate(descriptor, 0)
    os.lseek(descriptor, 0, os.SEEK_SET)
    digest, size = hashlib.sha256(), 0
    while chunk := file.read(min(CHUNK, limit - size + 1)):
        size += len(chunk)
        if size > limit:
            return None
        digest.update(chunk)
        write_all(descriptor, chunk)
    return StoredContent(digest.hexdigest(), size)


def _unusable(error: OSError) -> WapError:
    if error.errno in _FULL:
        return NoSpace("No space left to keep what would be changed, so nothing was changed.", hint="Free some space.")
    return ProviderUnavailable(
        f"What would be changed cannot be kept for undo ({os.strerror(error.errno or 0)}), so nothing was changed.",
        hint="The workspace's state folder must be writable.",
    )
