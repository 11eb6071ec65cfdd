"""Open files and folders on the local filesystem, as `Root` hands them out."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from functools import partial
from itertools import islice

from wap_kernel.files.contained.component_walk import FOLDER_FLAGS
from wap_kernel.files.contained.renames import TEMPORARY_PREFIX, is_temporary
from wap_kernel.files.interface import FileKind, Guard, LinkStat, Stat
from wap_kernel.model.errors import InvalidArgument, TooLarge
from wap_kernel.model.hints import LIST_FOLDER
from wap_kernel.model.paths import Access, join_path

# O_NONBLOCK: opening a FIFO must not wait for a writer; it is refused after fstat.
READ_FLAGS = os.O_RDONLY | sum(getattr(os, name, 0) for name in ("O_CLOEXEC", "O_NONBLOCK", "O_NOCTTY"))

_CHUNK = 1024 * 1024

BATCH = 4096
"""Entries of a folder in one batch."""

MAX_REMOVED_DEPTH = 200
"""Levels of a tree that can be removed, for each of which a descriptor stays open."""


def build_stat(found: os.stat_result, path: str) -> Stat:
    kind = FileKind.of_mode(found.st_mode)
    return Stat(path, kind, found.st_size, found.st_mtime_ns, found.st_mode, found.st_ino)


def build_link_stat(found: os.stat_result, target: str | None = None) -> LinkStat:
    return LinkStat(
        FileKind.of_mode(found.st_mode),
        found.st_ino,
        found.st_dev,
        found.st_size,
        found.st_mtime_ns,
        found.st_ctime_ns,
        found.st_mode,
        target,
    )


def stat_link(name: str, folder: int) -> LinkStat:
    while True:
        link_stat = build_link_stat(os.stat(name, dir_fd=folder, follow_symlinks=False))
        if link_stat.kind is not FileKind.LINK:
            return link_stat
        try:
            return link_stat._replace(target=os.readlink(name, dir_fd=folder))
        except OSError as error:
            if error.errno != errno.EINVAL:  # else something that is no link has replaced it
                raise


def special_file_error(stat: Stat) -> InvalidArgument:
    if stat.kind is FileKind.FOLDER:
        return InvalidArgument(f"Is a folder: {stat.path}", hint=LIST_FOLDER, path=stat.path)
    hint = "Pipes, devices and sockets are never opened."
    return InvalidArgument(f"Not a regular file: {stat.path}", hint=hint, path=stat.path)


def _is_temporary_file(entry: os.DirEntry[str]) -> bool:
    return is_temporary(entry.name) and not entry.is_dir(follow_symlinks=False)


def _get_folders(batch: list[os.DirEntry[str]]) -> set[str]:
    return {entry.name for entry in batch if entry.is_dir(follow_symlinks=False)}


class LocalFile:
    """A regular file. Owns its descriptor."""

    def __init__(self, fd: int, path: str) -> None:
        self.fd = fd
        self.stat = build_stat(os.fstat(fd), path)
        if self.stat.kind is not FileKind.FILE:
            os.close(fd)
            raise special_file_error(self.stat)

    def read(self, size: int = -1) -> bytes:
        """Read `size` bytes, fewer only at the end of the file; read all of it if `size` is negative."""
        data = os.read(self.fd, self.stat.size + 1 if size < 0 else size)
        if not data or len(data) == size or len(data) == self.stat.size:
            return data
        # Some network and FUSE file systems return fewer bytes than requested before the end.
        chunks, missing = [data], size - len(data)
        while (size < 0 or missing > 0) and (chunk := os.read(self.fd, _CHUNK if size < 0 else missing)):
            chunks.append(chunk)
            missing -= len(chunk)
        return b"".join(chunks)

    def seek(self, offset: int) -> None:
        os.lseek(self.fd, offset, os.SEEK_SET)

    def __enter__(self) -> LocalFile:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self.fd)


class LocalFolder:
    """A folder. Owns its descriptor; entries are reached by name, and a link is never followed."""

    def __init__(self, fd: int, path: str, guard: Guard) -> None:
        self.fd = fd
        self.path = path
        self._guard = guard

    def batches(self) -> Iterator[list[os.DirEntry[str]]]:
        with os.scandir(self.fd) as found:
            while batch := list(islice(found, BATCH)):
                names = [entry.name for entry in batch]
                hidden = self._guard.hidden_among(self.path, names, partial(_get_folders, batch))
                if hidden:
                    batch = [entry for entry in batch if entry.name not in hidden]
                # Temporary files are rare, so one search in all the names comes first.
                if TEMPORARY_PREFIX in "/".join(names):
                    batch = [entry for entry in batch if not _is_temporary_file(entry)]
                yield batch

    def enter(self, name: str) -> LocalFolder:
        path = join_path(self.path, name)
        self._guard.check(path, Access.READ, folder=True)
        return LocalFolder(os.open(name, FOLDER_FLAGS, dir_fd=self.fd), path, self._guard)

    def open(self, name: str) -> LocalFile:
        path = join_path(self.path, name)
        self._guard.check(path, Access.READ)
        return LocalFile(os.open(name, READ_FLAGS | os.O_NOFOLLOW, dir_fd=self.fd), path)

    def stat(self, name: str) -> Stat:
        return build_stat(os.stat(name, dir_fd=self.fd, follow_symlinks=False), join_path(self.path, name))

    def lstat(self, name: str) -> LinkStat:
        return stat_link(name, self.fd)

    def check_removable(self, depth: int = 1) -> None:
        """Raise, before anything is removed, if an entry below may not be removed."""
        if depth > MAX_REMOVED_DEPTH:
            raise TooLarge(
                f"The folder is nested deeper than {MAX_REMOVED_DEPTH} levels: {self.path[:100]}...",
                hint="Remove it with a command (rm -r).",
            )
        device = os.fstat(self.fd).st_dev
        with os.scandir(self.fd) as found:
            entries = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in found]
        for name, is_folder in entries:
            self._guard.check(join_path(self.path, name), Access.WRITE, folder=is_folder)
            if is_folder:
                with self.enter(name) as folder:
                    if os.fstat(folder.fd).st_dev != device:
                        raise OSError(errno.EBUSY, os.strerror(errno.EBUSY))  # another file system is mounted here
                    folder.check_removable(depth + 1)

    def clear(self) -> None:
        """Remove everything below, never through a link."""
        with os.scandir(self.fd) as found:
            entries = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in found]
        for name, is_folder in entries:
            self._guard.check(join_path(self.path, name), Access.WRITE, folder=is_folder)
            if is_folder:
                with self.enter(name) as folder:
                    folder.clear()
                os.rmdir(name, dir_fd=self.fd)
            else:
                os.unlink(name, dir_fd=self.fd)

    def close(self) -> None:
        os.close(self.fd)

    def __enter__(self) -> LocalFolder:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
