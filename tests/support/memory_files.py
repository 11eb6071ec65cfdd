"""A filesystem in a dictionary that implements the engine's file primitives, and shares nothing with the host."""

from __future__ import annotations

import errno
import os
import stat as modes
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from wap_kernel.files.interface import DirEntry, FileKind, Files, Guard, LinkStat, Stat
from wap_kernel.model.errors import InvalidArgument
from wap_kernel.model.paths import Access, join_path, outside, resolve_lexically


def fail(number: int) -> OSError:
    return OSError(number, os.strerror(number))


@dataclass(frozen=True)
class Node:
    data: bytes | None
    """None: a folder."""
    mode: int
    mtime_ns: int = field(default_factory=time.time_ns)

    @property
    def kind(self) -> FileKind:
        return FileKind.FOLDER if self.data is None else FileKind.FILE


@dataclass(frozen=True)
class Entry:
    name: str
    kind: FileKind

    def is_dir(self, *, follow_symlinks: bool = True) -> bool:
        return self.kind is FileKind.FOLDER

    def is_file(self, *, follow_symlinks: bool = True) -> bool:
        return self.kind is FileKind.FILE

    def is_symlink(self) -> bool:
        return False


class MemoryFile:
    def __init__(self, stat: Stat, data: bytes) -> None:
        self.stat = stat
        self._data = data
        self._offset = 0

    def read(self, size: int = -1) -> bytes:
        end = len(self._data) if size < 0 else self._offset + size
        part = self._data[self._offset : end]
        self._offset += len(part)
        return part

    def seek(self, offset: int) -> None:
        self._offset = offset

    def __enter__(self) -> MemoryFile:
        return self

    def __exit__(self, *_: object) -> None: ...


class MemoryFolder:
    def __init__(self, files: MemoryFiles, path: str) -> None:
        self.path = path
        self._files = files

    def batches(self) -> Iterator[Sequence[DirEntry]]:
        names = self._files.names(self.path)
        entries = [Entry(name, self._files.stat(join_path(self.path, name)).kind) for name in names]
        hidden = self._files.guard.hidden_among(self.path, names)
        yield [entry for entry in entries if entry.name not in hidden]

    def enter(self, name: str) -> MemoryFolder:
        return self._files.open_folder(join_path(self.path, name))

    def open(self, name: str) -> MemoryFile:
        return self._files.open(join_path(self.path, name))

    def stat(self, name: str) -> Stat:
        return self._files.stat(join_path(self.path, name))

    def lstat(self, name: str) -> LinkStat:
        return _look(self.stat(name))

    def close(self) -> None: ...
    def __enter__(self) -> MemoryFolder:
        return self

    def __exit__(self, *_: object) -> None: ...


class MemoryFiles:
    """`ask` is called before anything else and raises when the place cannot be reached."""

    def __init__(self, guard: Guard, ask: Callable[[], None], nodes: dict[str, Node] | None = None) -> None:
        self.guard = guard
        self._ask = ask
        self._nodes = {".": Node(None, 0o755)} if nodes is None else nodes

    def guarded_by(self, guard: Guard) -> Files:
        return MemoryFiles(guard, self._ask, self._nodes)

    def resolve(self, path: str, *, follow: bool = True) -> str:
        self._ask()
        try:
            return resolve_lexically(path)
        except OSError:
            raise outside(path) from None

    def names(self, folder: str) -> list[str]:
        return sorted(path.rpartition("/")[2] for path in self._nodes if path != "." and _parent(path) == folder)

    def open(self, path: str) -> MemoryFile:
        found = self.stat(path)
        data = self._nodes[found.path].data
        if data is None:
            raise fail(errno.EISDIR)
        return MemoryFile(found, data)

    def open_folder(self, path: str) -> MemoryFolder:
        found = self.stat(path)
        if found.kind is not FileKind.FOLDER:
            raise fail(errno.ENOTDIR)
        return MemoryFolder(self, found.path)

    def stat(self, path: str, *, follow: bool = True) -> Stat:
        real = self.resolve(path)
        self.guard.check(real, Access.READ)
        node = self._nodes.get(real)
        if node is None:
            self._check_parent(real)
            raise fail(errno.ENOENT)
        kind = modes.S_IFDIR if node.data is None else modes.S_IFREG
        return Stat(real, node.kind, len(node.data or b""), node.mtime_ns, kind | node.mode)

    def lstat(self, path: str) -> LinkStat | None:
        try:
            return _look(self.stat(path))
        except (FileNotFoundError, NotADirectoryError):
            return None

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
        before = self._nodes.get(real)
        if before is not None and exclusive:
            raise fail(errno.EEXIST)
        if before is not None and before.data is None:
            raise fail(errno.EISDIR)
        self._nodes[real] = Node(data, mode if mode is not None else before.mode if before else 0o644)
        return self.stat(real)

    def append(self, path: str, data: bytes) -> Stat:
        before = self._nodes.get(self._target(path))
        return self.replace(path, (before.data or b"" if before else b"") + data)

    def rename(self, source: str, destination: str, *, overwrite: bool = False) -> str:
        old, new = self._target(source), self._target(destination)
        self.guard.check_tree(old)
        if old not in self._nodes:
            raise fail(errno.ENOENT)
        if new in self._nodes and not overwrite:
            raise fail(errno.EEXIST)
        for path in self._tree(old):
            self._nodes[new + path[len(old) :]] = self._nodes.pop(path)
        return new

    def unlink(self, path: str, *, expected: Stat | None = None) -> None:
        real = self._target(path)
        if self.stat(real).kind is FileKind.FOLDER:
            raise fail(errno.EISDIR)
        del self._nodes[real]

    def remove_tree(self, path: str) -> None:
        real = self._target(path)
        self.guard.check_tree(real)
        if self.stat(real).kind is not FileKind.FOLDER:
            raise fail(errno.ENOTDIR)
        for inner in self._tree(real):
            del self._nodes[inner]

    def mkdir(self, path: str, *, parents: bool = False) -> bool:
        real = self.resolve(path)
        if parents and _parent(real) not in self._nodes:
            self.mkdir(_parent(real), parents=True)
        if real in self._nodes:
            if self._nodes[real].data is not None:
                raise fail(errno.EEXIST)
            return False
        self._nodes[self._target(real)] = Node(None, 0o755)
        return True

    def _tree(self, path: str) -> list[str]:
        return [inner for inner in self._nodes if inner == path or inner.startswith(f"{path}/")]

    def _target(self, path: str) -> str:
        real = self.resolve(path)
        if real == ".":
            raise InvalidArgument("The workspace root itself cannot be changed.")
        self.guard.check(real, Access.WRITE)
        self._check_parent(real)
        return real

    def _check_parent(self, path: str) -> None:
        parent = self._nodes.get(_parent(path))
        if parent is None:
            raise fail(errno.ENOENT)
        if parent.data is not None:
            raise fail(errno.ENOTDIR)


def _look(found: Stat) -> LinkStat:
    return LinkStat(found.kind, 0, 0, found.size, found.mtime_ns, found.mtime_ns, found.mode)


def _parent(path: str) -> str:
    return path.rpartition("/")[0] or "."
