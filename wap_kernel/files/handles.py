"""Open files and folders on the local filesystem, as `Root` hands them out."""

from __future__ import annotations

import os
from collections.abc import Iterator

from wap_kernel.errors import InvalidArgument, TooLarge
from wap_kernel.files.paths import join
from wap_kernel.files.primitives import Access, Guard, Kind, Stat
from wap_kernel.files.walk import FOLDER_FLAGS

# O_NONBLOCK: opening a FIFO must not wait for a writer; it is refused after fstat.
READ_FLAGS = os.O_RDONLY | os.O_CLOEXEC | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0)

MAX_REMOVED_DEPTH = 200
"""A descriptor is held for each level while a tree is removed."""


def stat_of(found: os.stat_result, path: str) -> Stat:
    return Stat(path, Kind.of_mode(found.st_mode), found.st_size, found.st_mtime_ns, found.st_mode)


def not_a_file(stat: Stat) -> InvalidArgument:
    if stat.kind is Kind.FOLDER:
        return InvalidArgument(f"Is a folder: {stat.path}", hint="List it with exploreFiles.", path=stat.path)
    hint = "Pipes, devices and sockets are never opened."
    return InvalidArgument(f"Not a regular file: {stat.path}", hint=hint, path=stat.path)


class LocalFile:
    """A regular file. Owns its descriptor."""

    def __init__(self, fd: int, path: str) -> None:
        self.fd = fd
        self.stat = stat_of(os.fstat(fd), path)
        if self.stat.kind is not Kind.FILE:
            os.close(fd)
            raise not_a_file(self.stat)

    def read(self, size: int = -1) -> bytes:
        """At most `size` bytes; everything when `size` is negative."""
        if size < 0:
            size = self.stat.size + 1
            chunks = []
            while chunk := os.read(self.fd, size):
                chunks.append(chunk)
            return b"".join(chunks)
        return os.read(self.fd, size)

    def seek(self, offset: int) -> None:
        os.lseek(self.fd, offset, os.SEEK_SET)

    def __enter__(self) -> LocalFile:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self.fd)


class LocalFolder:
    """A folder. Owns its descriptor; what is below is reached by name, and a link is never followed."""

    def __init__(self, fd: int, path: str, guard: Guard) -> None:
        self.fd = fd
        self.path = path
        self._guard = guard

    def entries(self) -> Iterator[os.DirEntry[str]]:
        hidden = self._guard.hidden_names(self.path)
        with os.scandir(self.fd) as found:
            if hidden:
                yield from (entry for entry in found if entry.name.casefold() not in hidden)
            else:
                yield from found

    def enter(self, name: str) -> LocalFolder:
        path = join(self.path, name)
        self._guard.check(path, Access.READ)
        return LocalFolder(os.open(name, FOLDER_FLAGS, dir_fd=self.fd), path, self._guard)

    def open(self, name: str) -> LocalFile:
        path = join(self.path, name)
        self._guard.check(path, Access.READ)
        return LocalFile(os.open(name, READ_FLAGS | os.O_NOFOLLOW, dir_fd=self.fd), path)

    def stat(self, name: str) -> Stat:
        return stat_of(os.stat(name, dir_fd=self.fd, follow_symlinks=False), join(self.path, name))

    def check_removable(self, depth: int = 1) -> None:
        """Raise before anything is removed if something below may not be."""
        if depth > MAX_REMOVED_DEPTH:
            raise TooLarge(
                f"The folder is nested deeper than {MAX_REMOVED_DEPTH} levels: {self.path[:100]}...",
                hint="Remove it with a command (rm -r).",
            )
        with os.scandir(self.fd) as found:
            entries = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in found]
        for name, is_folder in entries:
            self._guard.check(join(self.path, name), Access.WRITE)
            if is_folder:
                with self.enter(name) as folder:
                    folder.check_removable(depth + 1)

    def clear(self) -> None:
        """Remove everything below, never through a link."""
        with os.scandir(self.fd) as found:
            entries = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in found]
        for name, is_folder in entries:
            self._guard.check(join(self.path, name), Access.WRITE)
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
