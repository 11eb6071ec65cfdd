"""Overlay: files whose changes stay in memory, for a dry run. What was not changed is read from the files below.

It resolves paths itself, one name at a time, since a folder on the way may have been made or removed only here. It asks
the guard where `Root` asks and fails as `Root` fails; only folders cannot be moved, and nothing is set to a new mode.
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
from wap_kernel.files.contained.handles import not_a_file
from wap_kernel.files.interface import Files, Guard, Kind, Look, OpenFile, Stat
from wap_kernel.files.overlay.handles import FILE_MODE, FOLDER_MODE, GONE, Layer, Node, OverlayFolder
from wap_kernel.files.unguarded import Unguarded
from wap_kernel.model.errors import InvalidArgument, PermissionDenied
from wap_kernel.model.path_access import Access
from wap_kernel.model.paths import join_path, outside, split_path


class Overlay:
    """`files` are those below. Under another guard (`guarded_by`) the changes are the same; until then it has none."""

    def __init__(self, files: Files) -> None:
        self._layer = Layer(files.guarded_by(Unguarded()))
        self._guard: Guard = Unguarded()

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
        found = self._layer.look(real)
        self._guard.check(real, Access.READ, folder=found is not None and found.kind is Kind.FOLDER)
        if found is None:
            raise _failure(errno.ENOENT)
        return _stat(real, found)

    def resolve(self, path: str, *, follow: bool = True) -> str:
        return self._resolve(path, follow=follow)

    def look(self, path: str) -> Look | None:
        try:
            real = self._resolve(path, follow=False)
        except (FileNotFoundError, NotADirectoryError):
            return None
        found = self._layer.look(real) if real == path else None
        if found is not None:
            self._guard.check(real, Access.READ, folder=found.kind is Kind.FOLDER)
        return found

    # -- writing

    def replace(self, path: str, data: bytes, *, exclusive: bool = False, mode: int | None = None) -> Stat:
        real = self._target(path)
        old = self._layer.look(real)
        if old is not None:
            if old.kind is Kind.SPECIAL:
                raise not_a_file(_stat(real, old))
            if old.kind is Kind.FOLDER:
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
        moved, standing = self._layer.look(old), self._layer.look(new)
        if moved is None:
            raise _failure(errno.ENOENT)
        if standing is not None and not overwrite:
            raise _failure(errno.EEXIST)
        if moved.kind is Kind.FOLDER:
            raise InvalidArgument(f"A dry run does not move folders: {source}", hint="Move its files one by one.")
        if standing is not None and standing.kind is Kind.FOLDER:
            raise _failure(errno.EISDIR)
        if old != new:
            self._layer.put(new, self._layer.node(old) or Node(moved, source=old))
            self._layer.put(old, GONE)
        return new

    def unlink(self, path: str) -> None:
        real = self._target(path, follow=False)
        found = self._layer.look(real)
        if found is None:
            raise _failure(errno.ENOENT)
        if found.kind is Kind.FOLDER:
            raise _failure(errno.EISDIR)
        self._layer.put(real, GONE)

    def remove_tree(self, path: str) -> None:
        real = self._target(path, follow=False)
        self._guard.check_tree(real)
        found = self._layer.look(real)
        if found is None:
            raise _failure(errno.ENOENT)
        if found.kind is not Kind.FOLDER:
            raise _failure(errno.ENOTDIR)
        for below, look in self._below(real):
            self._guard.check(below, Access.WRITE, folder=look.kind is Kind.FOLDER)
        self._layer.put(real, GONE)

    def mkdir(self, path: str, *, parents: bool = False) -> bool:
        parts = split_path(path)
        made = False
        for end in range(1 if parents else len(parts), len(parts) + 1):
            made = self._mkdir_one("/".join(parts[:end]), errno.EEXIST if end == len(parts) else errno.ENOTDIR)
        return made

    def _mkdir_one(self, path: str, not_a_folder: int) -> bool:
        real = self._resolve(path, follow=True)
        found = self._layer.look(real)
        if found is None:
            self._guard.check(real, Access.WRITE, folder=True)
            self._layer.put(real, Node(_new(Kind.FOLDER, 0, FOLDER_MODE)))
            return True
        if found.kind is not Kind.FOLDER:
            raise _failure(not_a_folder)
        return False

    def _put_file(self, real: str, data: bytes, mode: int) -> Stat:
        look = _new(Kind.FILE, len(data), FILE_MODE & ~0o777 | mode & 0o777)
        self._layer.put(real, Node(look, data))
        return _stat(real, look)

    def _below(self, folder: str) -> Iterator[tuple[str, Look]]:
        for name, look in self._layer.children(folder).items():
            path = join_path(folder, name)
            yield path, look
            if look.kind is Kind.FOLDER:
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
        """Where `path` is; its last name need not exist."""
        pending, here, links = deque(split_path(path)), ".", 0
        while pending:
            name = pending.popleft()
            if name == "..":
                if here == ".":
                    raise outside(path)
                here = posixpath.dirname(here) or "."
                continue
            place = join_path(here, name)
            found = self._layer.look(place)
            if found is not None and found.kind is Kind.LINK and (follow or pending):
                links += 1
                if links > MAX_LINKS:
                    raise _failure(errno.ELOOP)
                target = found.target or ""
                if target.startswith("/"):
                    target, here = self._from_top(place, path), "."
                pending.extendleft(reversed(split_path(target)))
                continue
            if pending and (found is None or found.kind is not Kind.FOLDER):
                raise _failure(errno.ENOENT if found is None else errno.ENOTDIR)
            here = place
        return here

    def _from_top(self, place: str, path: str) -> str:
        """Where an absolute link leads, relative to the root; only the files below know by which names it goes."""
        node = self._layer.node(place)
        try:
            return self._layer.files.resolve(place if node is None else node.source or place)
        except PermissionDenied:
            raise outside(path) from None


def _new(kind: Kind, size: int, mode: int) -> Look:
    now = time.time_ns()
    return Look(kind, 0, 0, size, now, now, mode)


def _stat(path: str, look: Look) -> Stat:
    return Stat(path, look.kind, look.size, look.mtime_ns, look.mode)


def _failure(number: int) -> OSError:
    return OSError(number, os.strerror(number))
