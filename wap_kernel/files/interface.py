"""The protocols of the file primitives that a provider offers; the engine reaches files only through these.

`Root` implements them for the local filesystem. A provider with a filesystem of its own implements the same.
Paths are relative to the root. Failures are `OSError` with its errno, or a `WapError` for a refusal.
"""

from __future__ import annotations

import stat
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from enum import Enum
from types import TracebackType
from typing import NamedTuple, Protocol

from wap_kernel.model.paths import Access


class FileKind(Enum):
    """The kinds of entries in a folder."""

    FILE = "file"
    FOLDER = "folder"
    LINK = "link"
    SPECIAL = "special"
    """A FIFO, a device or a socket, which is never opened."""

    @classmethod
    def of_mode(cls, mode: int) -> FileKind:
        return _KINDS.get(stat.S_IFMT(mode), cls.SPECIAL)


_KINDS = {stat.S_IFREG: FileKind.FILE, stat.S_IFDIR: FileKind.FOLDER, stat.S_IFLNK: FileKind.LINK}


@dataclass(frozen=True)
class Stat:
    """The kind, size, times and identity of the entry that a path leads to."""

    path: str
    """The real path, relative to the root, with every link resolved."""
    kind: FileKind
    size: int
    mtime_ns: int
    mode: int
    inode: int = 0

    @property
    def stamp(self) -> str:
        """Return inode, size and time of modification, by which a later change of a file is noticed."""
        return f"{self.inode}:{self.size}:{self.mtime_ns}"


class LinkStat(NamedTuple):
    """The lstat of a name, by which a later change can be detected; links are not followed."""

    kind: FileKind
    inode: int
    device: int
    size: int
    mtime_ns: int
    ctime_ns: int
    mode: int
    target: str | None = None
    """The target of a link, as it is written."""


FindFolders = Callable[[], Collection[str]]
"""A callback that returns the folders among the names of a query; called only where that matters."""


class Guard(Protocol):
    """The check of every *resolved* path, which the primitives call before they open or change anything."""

    def check(self, path: str, access: Access, *, folder: bool = False) -> None:
        """Raise PermissionDenied if `access` to `path` is refused; with `folder`, the path is known to be a folder."""

    def check_tree(self, path: str) -> None:
        """Raise PermissionDenied if the folder `path` is or holds a path that may not be moved or removed."""

    def may_hold(self, path: str) -> bool:
        """Return whether a rule may refuse a path below the folder `path` because of where it is.

        Moving the folder would take such a path out of the rule's reach, so a move checks the whole tree first.
        """

    def hidden_among(self, folder: str, names: Sequence[str], folders: FindFolders = tuple) -> Collection[str]:
        """Return the entries of `folder` that must not be listed or searched."""

    def hidden_names(self, folder: str) -> frozenset[str]:
        """Return the names in `folder`, casefolded, that no process of the server may read either."""

    def names_leading_to_hidden(self, folder: str) -> frozenset[str]:
        """Return the names in `folder`, casefolded, of folders that hold a hidden path further down."""


class NullGuard:
    """A guard that refuses nothing and hides nothing, for code that checks the caller's own guard elsewhere."""

    def check(self, path: str, access: Access, *, folder: bool = False) -> None: ...
    def check_tree(self, path: str) -> None: ...
    def may_hold(self, path: str) -> bool:
        return False

    def hidden_among(self, folder: str, names: Sequence[str], folders: FindFolders = tuple) -> Collection[str]:
        return ()

    def hidden_names(self, folder: str) -> frozenset[str]:
        return frozenset()

    def names_leading_to_hidden(self, folder: str) -> frozenset[str]:
        return frozenset()


class Locks(Protocol):
    """Locks that keep writers of the same resolved path apart."""

    def hold(self, *paths: str) -> AbstractContextManager[None]: ...


class OpenFile(Protocol):
    """A regular file, open for reading."""

    @property
    def stat(self) -> Stat: ...
    def read(self, size: int = -1) -> bytes: ...
    def seek(self, offset: int) -> None: ...
    def __enter__(self) -> OpenFile: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class DirEntry(Protocol):
    """The part of `os.DirEntry` that the engine uses."""

    @property
    def name(self) -> str: ...
    def is_dir(self, *, follow_symlinks: bool = True) -> bool: ...
    def is_file(self, *, follow_symlinks: bool = True) -> bool: ...
    def is_symlink(self) -> bool: ...


class Folder(Protocol):
    """An open folder. Entries are reached by name below it, and links are never followed."""

    @property
    def path(self) -> str: ...
    def batches(self) -> Iterator[Sequence[DirEntry]]:
        """Yield the entries, a few thousand at a time, without hidden ones and temporary files of writes."""

    def enter(self, name: str) -> Folder: ...
    def open(self, name: str) -> OpenFile: ...
    def stat(self, name: str) -> Stat: ...
    def lstat(self, name: str) -> LinkStat:
        """Return the lstat of an entry, or of the folder itself by the name `.`."""

    def close(self) -> None: ...
    def __enter__(self) -> Folder: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class Files(Protocol):
    """The file primitives of a provider."""

    def guarded_by(self, guard: Guard) -> Files:
        """Return the same files under another guard; closing either closes both."""

    def open(self, path: str) -> OpenFile: ...
    def open_folder(self, path: str) -> Folder: ...
    def stat(self, path: str, *, follow: bool = True) -> Stat: ...
    def resolve(self, path: str, *, follow: bool = True) -> str:
        """Return the real path of `path`, whose last name need not exist."""

    def lstat(self, path: str) -> LinkStat | None:
        """Return the lstat of the real path `path`, or None also if a folder on the way has become a link."""

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
        """Write `data` to `path`, atomically and durably; with `exclusive`, fail with EEXIST if it exists.

        Raise Conflict if another file than `expected` is there, whenever it was saved. A write that is not `atomic`
        keeps the inode of the file that is there; a file with several names is replaced all the same.
        """

    def append(self, path: str, data: bytes) -> Stat: ...
    def rename(self, source: str, destination: str, *, overwrite: bool = False) -> str:
        """Rename and return the resolved destination."""

    def unlink(self, path: str, *, expected: Stat | None = None) -> None: ...
    def remove_tree(self, path: str) -> None: ...
    def mkdir(self, path: str, *, parents: bool = False) -> bool:
        """Create a folder and return whether it is new; an existing folder is no error."""
