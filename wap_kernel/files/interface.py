"""The file primitives that a provider offers; the engine reaches files through these and nothing else.

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

from wap_kernel.model.path_access import Access


class FileKind(Enum):
    FILE = "file"
    FOLDER = "folder"
    LINK = "link"
    SPECIAL = "special"
    """FIFO, device, socket: never opened."""

    @classmethod
    def of_mode(cls, mode: int) -> FileKind:
        return _KINDS.get(stat.S_IFMT(mode), cls.SPECIAL)


_KINDS = {stat.S_IFREG: FileKind.FILE, stat.S_IFDIR: FileKind.FOLDER, stat.S_IFLNK: FileKind.LINK}


@dataclass(frozen=True)
class Stat:
    path: str
    """Where it really is, relative to the root, with every link resolved."""
    kind: FileKind
    size: int
    mtime_ns: int
    mode: int


class LinkStat(NamedTuple):
    """A name as the file system has it, links not followed: what tells whether something has changed since."""

    kind: FileKind
    inode: int
    device: int
    size: int
    mtime_ns: int
    ctime_ns: int
    mode: int
    target: str | None = None
    """Of a link: what it says, as it says it."""


FindFolders = Callable[[], Collection[str]]
"""Which of the names that are asked about are folders; called only where that matters."""


class Guard(Protocol):
    """Asked by the primitives about the *resolved* path, before anything is opened or changed."""

    def check(self, path: str, access: Access, *, folder: bool = False) -> None:
        """Raise PermissionDenied when `access` to `path` is refused. `folder`: it is known to be one."""

    def check_tree(self, path: str) -> None:
        """Raise PermissionDenied when the folder `path` holds, or is, something that may not be moved or removed."""

    def may_hold(self, path: str) -> bool:
        """Whether something below the folder `path` may be refused that would not be elsewhere: moving the folder
        would then take it out of the rule's reach, so whoever moves it looks first."""

    def hidden_among(self, folder: str, names: Sequence[str], folders: FindFolders = tuple) -> Collection[str]:
        """Which of the entries of `folder` must not be listed or searched."""

    def hidden_names(self, folder: str) -> frozenset[str]:
        """Names in `folder`, casefolded, that no process that we start may read either."""

    def names_leading_to_hidden(self, folder: str) -> frozenset[str]:
        """Names in `folder`, casefolded, of folders that hold something hidden further down."""


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
    """Keeps writers of the same resolved path apart."""

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
        """What is in the folder, a few thousand at a time, without what is hidden or belongs to a write under way."""

    def enter(self, name: str) -> Folder: ...
    def open(self, name: str) -> OpenFile: ...
    def stat(self, name: str) -> Stat: ...
    def lstat(self, name: str) -> LinkStat:
        """At an entry, or at the folder itself by the name `.`."""

    def close(self) -> None: ...
    def __enter__(self) -> Folder: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class Files(Protocol):
    """What a provider can do with files."""

    def guarded_by(self, guard: Guard) -> Files:
        """The same files under another guard. Closing either closes both."""

    def open(self, path: str) -> OpenFile: ...
    def open_folder(self, path: str) -> Folder: ...
    def stat(self, path: str, *, follow: bool = True) -> Stat: ...
    def resolve(self, path: str, *, follow: bool = True) -> str:
        """Where `path` really is or would be made; its last name need not exist."""

    def lstat(self, path: str) -> LinkStat | None:
        """What stands at the real path `path`: nothing does if a folder on the way has become a link."""

    def replace(self, path: str, data: bytes, *, exclusive: bool = False, mode: int | None = None) -> Stat:
        """Make `path` hold `data`, atomically and durably. `exclusive`: fail with EEXIST if it exists."""

    def append(self, path: str, data: bytes) -> Stat: ...
    def rename(self, source: str, destination: str, *, overwrite: bool = False) -> str:
        """Returns the resolved destination."""

    def unlink(self, path: str) -> None: ...
    def remove_tree(self, path: str) -> None: ...
    def mkdir(self, path: str, *, parents: bool = False) -> bool:
        """Returns whether a folder was made; an existing folder is fine."""


class RestorableFiles(Files, Protocol):
    """Files that can be made what they were. No link is followed, and whatever is put in the place of something else is
    there at once or not at all."""

    def guarded_by(self, guard: Guard) -> RestorableFiles: ...
    def restore(self, path: str, data: bytes, mode: int) -> None:
        """Put a file with all of `mode` at `path`, also in the place of a link or of a file that is read-only."""

    def symlink(self, path: str, target: str) -> None:
        """Put a link at `path`, also in the place of a file or of another link."""

    def chmod(self, path: str, mode: int) -> None:
        """Of a file or a folder; a link has no mode."""

    def rmdir(self, path: str) -> None:
        """Remove a folder that is empty."""
