"""Files whose changes stay in memory, for a dry run; unchanged files are read from the workspace.

An overlay resolves paths itself, one name at a time, since a folder on the way may exist, or be removed, only in the
overlay. It calls the guard and fails as `Root` does, except that it moves no folders and sets no mode.
"""

from __future__ import annotations

import errno
import os
import posixpath
import time
from collections import deque
from collections.abc import Iterator
from contextlib import suppress

from wap_kernel.files.contained.component_walk import MAX_LINKS
from wap_kernel.files.contained.handles import special_file_error
from wap_kernel.files.interface import FileKind, Files, Guard, LinkStat, NullGuard, OpenFile, Stat
from wap_kernel.files.overlay.handles import FILE_MODE, FOLDER_MODE, REMOVED, OverlayFolder, OverlayLayer, OverlayNode
from wap_kernel.model.errors import InvalidArgument, PermissionDenied
from wap_kernel.model.paths import Access, join_path, outside, split_path


class Overlay:
    """An overlay of `files`, without a guard until `guarded_by`, which shares the changes."""

    def __init__(self, files: Files) -> None:
        self._layer = OverlayLayer(files.guarded_by(NullGuard()))
        self._guard: Guard = NullGuard()

    def guarded_by(self, guard: Guard) -> Overlay:
        other = object.__new__(Overlay)
        other._layer, other._guard = self._layer, guard
        return other

    # -- reading

    def open(self, path: str) -> OpenFile:
        real = self._resolve(path, follow=True)
        self._guard.check(real, Access.READ)
        return self._layer.open(real)

    def open_folder(self, path: str) -> OverlayFolder:
        real = self._resolve(path, follow=True)
        self._guard.check(real, Access.READ, folder=True)
        return OverlayFolder(self._layer, real, self._guard)

    def stat(self, path: str, *, follow: bool = True) -> Stat:
        real = self._resolve(path, follow=follow)
        found = self._layer.lstat(real)
        self._guard.check(real, Access.READ, folder=found is not None and found.kind is FileKind.FOLDER)
        if found is None:
            raise _failure(errno.ENOENT)
        return _stat(real, found)

    def resolve(self, path: str, *, follow: bool = True) -> str:
        return self._resolve(path, follow=follow)

    def lstat(self, path: str) -> LinkStat | None:
        try:
            real = self._resolve(path, follow=False)
        except (FileNotFoundError, NotADirectoryError):
            return None
        found = self._layer.lstat(real) if real == path else None
        if found is not None:
            self._guard.check(real, Access.READ, folder=found.kind is FileKind.FOLDER)
        return found

    # -- writing

    def replace(
        self,
        path: str,
        data: bytes,
        *,
        exclusive: bool = False,
        mode: int | None = None,
        expected: Stat | None = None,
        atomic: bool = True,
    ) -> Stat:
        real = self._target(path)
        old = self._layer.lstat(real)
        if old is not None:
            if old.kind is FileKind.SPECIAL:
                raise special_file_error(_stat(real, old))
            if old.kind is FileKind.FOLDER:
                raise _failure(errno.EISDIR)
            if not old.mode & 0o200 and os.geteuid() != 0:
                raise _failure(errno.EACCES)
            if exclusive:
                raise _failure(errno.EEXIST)
        bits = mode if mode is not None else old.mode if old is not None else FILE_MODE
        return self._put_file(real, data, bits)

    def append(self, path: str, data: bytes) -> Stat:
        with suppress(FileExistsError):
            return self.replace(path, data, exclusive=True)
        real = self._target(path)
        with self._layer.open(real) as file:
            return self._put_file(real, file.read() + data, file.stat.mode)

    def rename(self, source: str, destination: str, *, overwrite: bool = False) -> str:
        old, new = self._target(source, follow=False), self._target(destination, follow=False)
        self._guard.check_tree(old)
        self._guard.check_tree(new)
        moved, standing = self._layer.lstat(old), self._layer.lstat(new)
        if moved is None:
            raise _failure(errno.ENOENT)
        if standing is not None and not overwrite:
            raise _failure(errno.EEXIST)
        if moved.kind is FileKind.FOLDER:
            raise InvalidArgument(f"A dry run does not move folders: {source}", hint="Move its files one by one.")
        if standing is not None and standing.kind is FileKind.FOLDER:
            raise _failure(errno.EISDIR)
        if old != new:
            self._layer.put(new, self._layer.node(old) or OverlayNode(moved, source=old))
            self._layer.put(old, REMOVED)
        return new

    def unlink(self, path: str, *, expected: Stat | None = None) -> None:
        real = self._target(path, follow=False)
        found = self._layer.lstat(real)
        if found is None:
            raise _failure(errno.ENOENT)
        if found.kind is FileKind.FOLDER:
            raise _failure(errno.EISDIR)
        self._layer.put(real, REMOVED)

    def remove_tree(self, path: str) -> None:
        real = self._target(path, follow=False)
        self._guard.check_tree(real)
        found = self._layer.lstat(real)
        if found is None:
            raise _failure(errno.ENOENT)
        if found.kind is not FileKind.FOLDER:
            raise _failure(errno.ENOTDIR)
        for below, link_stat in self._below(real):
            self._guard.check(below, Access.WRITE, folder=link_stat.kind is FileKind.FOLDER)
        self._layer.put(real, REMOVED)

    def mkdir(self, path: str, *, parents: bool = False) -> bool:
        parts = split_path(path)
        made = False
        for end in range(1 if parents else len(parts), len(parts) + 1):
            made = self._mkdir_one("/".join(parts[:end]), errno.EEXIST if end == len(parts) else errno.ENOTDIR)
        return made

    def _mkdir_one(self, path: str, not_a_folder: int) -> bool:
        real = self._resolve(path, follow=True)
        found = self._layer.lstat(real)
        if found is None:
            self._guard.check(real, Access.WRITE, folder=True)
            self._layer.put(real, OverlayNode(_new(FileKind.FOLDER, 0, FOLDER_MODE)))
            return True
        if found.kind is not FileKind.FOLDER:
            raise _failure(not_a_folder)
        return False

    def _put_file(self, real: str, data: bytes, mode: int) -> Stat:
        link_stat = _new(FileKind.FILE, len(data), FILE_MODE & ~0o777 | mode & 0o777)
        self._layer.put(real, OverlayNode(link_stat, data))
        return _stat(real, link_stat)

    def _below(self, folder: str) -> Iterator[tuple[str, LinkStat]]:
        for name, link_stat in self._layer.children(folder).items():
            path = join_path(folder, name)
            yield path, link_stat
            if link_stat.kind is FileKind.FOLDER:
                yield from self._below(path)

    # -- resolution

    def _target(self, path: str, *, follow: bool = True) -> str:
        real = self._resolve(path, follow=follow)
        if real == ".":
            raise InvalidArgument("The workspace root itself cannot be changed.", hint="Name something inside it.")
        self._guard.check(real, Access.WRITE)
        return real

    def _resolve(self, path: str, *, follow: bool) -> str:
        try:
            return self._walk(path, follow=follow)
        except FileNotFoundError:
            if posixpath.normpath(path).startswith(".."):
                raise outside(path) from None
            raise

    def _walk(self, path: str, *, follow: bool) -> str:
        """Return the real path of `path`, whose last name need not exist."""
        pending, here, links = deque(split_path(path)), ".", 0
        while pending:
            name = pending.popleft()
            if name == "..":
                if here == ".":
                    raise outside(path)
                here = posixpath.dirname(here) or "."
                continue
            location = join_path(here, name)
            found = self._layer.lstat(location)
            if found is not None and found.kind is FileKind.LINK and (follow or pending):
                links += 1
                if links > MAX_LINKS:
                    raise _failure(errno.ELOOP)
                target = found.target or ""
                if target.startswith("/"):
                    target, here = self._resolve_absolute(location, path), "."
                pending.extendleft(reversed(split_path(target)))
                continue
            if pending and (found is None or found.kind is not FileKind.FOLDER):
                raise _failure(errno.ENOENT if found is None else errno.ENOTDIR)
            here = location
        return here

    def _resolve_absolute(self, location: str, path: str) -> str:
        """Return the target of an absolute link, relative to the root, whose names only the workspace's files know."""
        node = self._layer.node(location)
        try:
            return self._layer.files.resolve(location if node is None else node.source or location)
        except PermissionDenied:
            raise outside(path) from None


def _new(kind: FileKind, size: int, mode: int) -> LinkStat:
    now = time.time_ns()
    return LinkStat(kind, 0, 0, size, now, now, mode)


def _stat(path: str, link_stat: LinkStat) -> Stat:
    return Stat(path, link_stat.kind, link_stat.size, link_stat.mtime_ns, link_stat.mode)


def _failure(number: int) -> OSError:
    return OSError(number, os.strerror(number))
