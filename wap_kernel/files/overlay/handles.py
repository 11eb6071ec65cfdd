"""The changes of an `Overlay`, and its open files and folders."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from wap_kernel.files.contained.handles import special_file_error
from wap_kernel.files.interface import DirEntry, FileKind, Files, Guard, LinkStat, OpenFile, Stat
from wap_kernel.model.paths import Access, join_path

FILE_MODE = stat.S_IFREG | 0o644
FOLDER_MODE = stat.S_IFDIR | 0o755


@dataclass(frozen=True)
class OverlayNode:
    """The overlay's version of a path. A folder is new, so the files below its path in the workspace do not count."""

    link_stat: LinkStat | None
    """The lstat of the path. None: it was removed."""
    data: bytes | None = None
    source: str | None = None
    """The path in the workspace of a file or link that was moved here."""


REMOVED = OverlayNode(None)


class OverlayLayer:
    """The changes by real path, over the files of the workspace."""

    def __init__(self, files: Files) -> None:
        self.files = files
        self._nodes: dict[str, OverlayNode] = {}

    def node(self, path: str) -> OverlayNode | None:
        return self._nodes.get(path)

    def put(self, path: str, node: OverlayNode) -> None:
        if node.link_stat is None:  # with all that was below
            for below in [known for known in self._nodes if known.startswith(f"{path}/")]:
                del self._nodes[below]
        self._nodes[path] = node

    def lstat(self, path: str) -> LinkStat | None:
        """Return the lstat of the real path `path`, or None."""
        node = self._nodes.get(path)
        if node is not None:
            return node.link_stat
        return None if self._is_new(_parent(path)) else self.files.lstat(path)

    def open(self, path: str) -> OpenFile:
        node, link_stat = self._nodes.get(path), self.lstat(path)
        if link_stat is None:
            raise OSError(errno.ENOENT, os.strerror(errno.ENOENT))
        found = Stat(path, link_stat.kind, link_stat.size, link_stat.mtime_ns, link_stat.mode)
        if link_stat.kind is not FileKind.FILE:
            raise special_file_error(found)
        if node is None:
            return self.files.open(path)
        if node.data is not None:
            return VirtualFile(found, node.data)
        with self.files.open(node.source or path) as file:
            return VirtualFile(found, file.read())

    def children(self, folder: str) -> dict[str, LinkStat]:
        found: dict[str, LinkStat] = {}
        if not self._is_new(folder):
            with self.files.open_folder(folder) as opened:
                for batch in opened.batches():
                    found.update({entry.name: opened.lstat(entry.name) for entry in batch})
        for path, node in self._nodes.items():
            if _parent(path) == folder and path != ".":
                name = path.rpartition("/")[2]
                if node.link_stat is None:
                    found.pop(name, None)
                else:
                    found[name] = node.link_stat
        return found

    def _is_new(self, folder: str) -> bool:
        """Return whether the folder is new or in a new one, so that the workspace's files do not count."""
        while folder != ".":
            if folder in self._nodes:
                return True
            folder = _parent(folder)
        return False


class VirtualFile:
    """A file in memory, open for reading."""

    def __init__(self, found: Stat, data: bytes) -> None:
        self.stat = found
        self._data = data
        self._offset = 0

    def read(self, size: int = -1) -> bytes:
        part = self._data[self._offset : None if size < 0 else self._offset + size]
        self._offset += len(part)
        return part

    def seek(self, offset: int) -> None:
        self._offset = offset

    def __enter__(self) -> VirtualFile:
        return self

    def __exit__(self, *_: object) -> None: ...


@dataclass(frozen=True)
class _Entry:
    name: str
    kind: FileKind

    def is_dir(self, *, follow_symlinks: bool = True) -> bool:
        return self.kind is FileKind.FOLDER

    def is_file(self, *, follow_symlinks: bool = True) -> bool:
        return self.kind is FileKind.FILE

    def is_symlink(self) -> bool:
        return self.kind is FileKind.LINK


class OverlayFolder:
    """An open folder of an overlay."""

    def __init__(self, layer: OverlayLayer, path: str, guard: Guard) -> None:
        found = layer.lstat(path)
        if found is None or found.kind is not FileKind.FOLDER:
            number = errno.ENOENT if found is None else errno.ENOTDIR
            raise OSError(number, os.strerror(number))
        self.path = path
        self._layer = layer
        self._guard = guard

    def batches(self) -> Iterator[Sequence[DirEntry]]:
        entries = [_Entry(name, link_stat.kind) for name, link_stat in self._layer.children(self.path).items()]
        names = [entry.name for entry in entries]
        hidden = self._guard.hidden_among(
            self.path, names, lambda: {entry.name for entry in entries if entry.kind is FileKind.FOLDER}
        )
        yield [entry for entry in entries if entry.name not in hidden]

    def enter(self, name: str) -> OverlayFolder:
        path = join_path(self.path, name)
        self._guard.check(path, Access.READ, folder=True)
        return OverlayFolder(self._layer, path, self._guard)

    def open(self, name: str) -> OpenFile:
        path = join_path(self.path, name)
        self._guard.check(path, Access.READ)
        return self._layer.open(path)

    def stat(self, name: str) -> Stat:
        link_stat = self.lstat(name)
        return Stat(join_path(self.path, name), link_stat.kind, link_stat.size, link_stat.mtime_ns, link_stat.mode)

    def lstat(self, name: str) -> LinkStat:
        found = self._layer.lstat(self.path if name == "." else join_path(self.path, name))
        if found is None:
            raise OSError(errno.ENOENT, os.strerror(errno.ENOENT))
        return found

    def close(self) -> None: ...
    def __enter__(self) -> OverlayFolder:
        return self

    def __exit__(self, *_: object) -> None: ...


def _parent(path: str) -> str:
    return path.rpartition("/")[0] or "."
