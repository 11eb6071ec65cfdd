"""The store of before-images: contents by their hash, in the state folder, shared by everything that keeps some.

`blobs/ab/cdef...`: a name is the SHA-256 of what it holds, so equal contents are stored once and a damaged one is told
when it is read. A new one is written under another name and renamed, so that no name ever stands for a part.
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
"""How exact the time of the last use is. Whoever collects what is unused waits much longer."""
CHUNK = 1024 * 1024
TEMPORARY = "tmp-"
_FICLONE = 0x40049409
_FULL = (errno.ENOSPC, errno.EDQUOT)


class Kept(NamedTuple):
    digest: str
    size: int


class Stored(NamedTuple):
    """A content or, with no digest, what a crash left of one. `used_at`: when it was last stored or asked for."""

    path: str
    digest: str | None
    size: int
    used_at: float


@dataclass
class _New:
    number: int
    """Of the descriptor."""
    kept: Kept | None = None


class Blobs:
    """Any thread and any process may use the same folder."""

    def __init__(self, state_dir: str) -> None:
        self.folder = os.path.join(state_dir, "blobs")
        os.makedirs(self.folder, mode=0o700, exist_ok=True)

    def keep(self, file: OpenFile, limit: int) -> Kept | None:
        """Store what the file holds; None if that is more than `limit` bytes.

        Like the state database it survives any crash of ours, and a power cut may take the last ones.
        """
        expected = min(file.stat.size, CHUNK, limit)
        data = file.read(expected + 1)
        if len(data) <= expected:
            return self.put(data)
        file.seek(0)
        return self._keep_large(file, limit)

    def put(self, data: bytes) -> Kept:
        kept = Kept(hashlib.sha256(data).hexdigest(), len(data))
        if not self.touch(*kept):
            with self._new() as new:
                write_all(new.number, data)
                new.kept = kept
        return kept

    def _keep_large(self, file: OpenFile, limit: int) -> Kept | None:
        with self._new() as new:
            new.kept = _cloned(file, new.number, limit) or _copied(file, new.number, limit)
        return new.kept

    @contextmanager
    def _new(self) -> Iterator[_New]:
        """A file under another name, which becomes a content when its hash is known in the end."""
        temporary = os.path.join(self.folder, f"{TEMPORARY}{secrets.token_hex(12)}")
        try:
            new = _New(os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
            try:
                try:
                    yield new
                finally:
                    os.close(new.number)
                if new.kept is not None:
                    self._name(temporary, new.kept.digest)
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

    def touch(self, digest: str, size: int) -> bool:
        """Whether it is there; if so it counts as used now, and nobody collects it for a while."""
        path = self._path(digest)
        try:
            found = os.stat(path)
            if found.st_mtime < time.time() - FRESH_SECONDS:  # not at each of a hundred commands a minute
                os.utime(path)
        except FileNotFoundError:
            return False
        return found.st_size == size

    def read(self, digest: str) -> bytes | None:
        """The content, or None if it is not there (any more) or damaged."""
        try:
            with open(self._path(digest), "rb") as stored:
                data = stored.read()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise _unusable(error) from error
        return data if hashlib.sha256(data).hexdigest() == digest else None

    # -- collecting what is no longer used

    def all(self) -> Iterator[Stored]:
        for folder in (self.folder, *sorted(_folders(self.folder))):
            with os.scandir(folder) as entries:
                for entry in entries:
                    with suppress(FileNotFoundError):
                        if entry.is_file(follow_symlinks=False):
                            found = entry.stat(follow_symlinks=False)
                            is_whole = folder != self.folder
                            digest = os.path.basename(folder) + entry.name if is_whole else None
                            yield Stored(entry.path, digest, found.st_size, found.st_mtime)

    def remove(self, stored: Stored, *, unused_for: float = 3600.0) -> int:
        """The bytes freed: none if somebody has used it meanwhile, for a process may be about to name it."""
        with suppress(FileNotFoundError):
            # Out of reach first: what somebody begins to use between a look and the removal would be lost.
            aside = os.path.join(self.folder, f"{TEMPORARY}{secrets.token_hex(12)}")
            os.rename(stored.path, aside)
            if os.stat(aside).st_mtime < time.time() - unused_for:
                os.unlink(aside)
                return stored.size
            os.rename(aside, stored.path)
        return 0

    def _path(self, digest: str) -> str:
        return os.path.join(self.folder, digest[:2], digest[2:])


def _folders(folder: str) -> list[str]:
    with os.scandir(folder) as entries:
        return [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)]


def _cloned(file: OpenFile, descriptor: int, limit: int) -> Kept | None:
    """By sharing the blocks, where the file system can. The clone is hashed: the file itself may go on changing."""
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
    return Kept(digest.hexdigest(), size) if size <= limit else None


def _copied(file: OpenFile, descriptor: int, limit: int) -> Kept | None:
    os.ftruncate(descriptor, 0)
    os.lseek(descriptor, 0, os.SEEK_SET)
    digest, size = hashlib.sha256(), 0
    while chunk := file.read(min(CHUNK, limit - size + 1)):
        size += len(chunk)
        if size > limit:
            return None
        digest.update(chunk)
        write_all(descriptor, chunk)
    return Kept(digest.hexdigest(), size)


def _unusable(error: OSError) -> WapError:
    if error.errno in _FULL:
        return NoSpace("No space left to keep what would be changed, so nothing was changed.", hint="Free some space.")
    return ProviderUnavailable(
        f"What would be changed cannot be kept for undo ({os.strerror(error.errno or 0)}), so nothing was changed.",
        hint="The workspace's state folder must be writable.",
    )
