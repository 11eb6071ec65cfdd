"""Walk a tree of folders by descriptors while others change it.

A walk skips a folder that cannot be opened, has vanished or has become something else since its name was read. A lack
of descriptors is an error: skipping folders then would falsify every total.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TypeVar

from wap_kernel.files.globs.sets import ExcludeSet
from wap_kernel.files.interface import DirEntry, Files, Folder
from wap_kernel.model.command import Deadline
from wap_kernel.model.errors import Conflict, InvalidArgument, PermissionDenied
from wap_kernel.model.paths import join_path

T = TypeVar("T")

MAX_OPEN_FOLDERS = 64
"""Folders that stay open along one path; deeper ones are opened from the root, so that depth costs no descriptors."""

DEADLINE_INTERVAL = 64
"""Entries between two checks of the deadline; a caller's patterns may take milliseconds for each."""

UNREADABLE = (PermissionDenied, InvalidArgument, Conflict)
"""The errors of the primitives for a path that is not, or no longer, readable."""

_GONE_ERRORS = {
    *(errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ELOOP, errno.EXDEV, errno.ENAMETOOLONG, errno.ESTALE),
    *(errno.EACCES, errno.EPERM, errno.EIO, errno.ENXIO, errno.ENODEV),
}


def is_unreadable(error: OSError) -> bool:
    """Return whether a walk skips the file or folder that raised `error`."""
    return error.errno in _GONE_ERRORS


@dataclass
class WalkLevel:
    """A folder of a walk. The caller puts the names of the subfolders to enter in `pending`, the last one first."""

    folder: Folder
    depth: int
    """The depth of the folder's entries; 1 for the entries of the start."""
    pending: list[str] = field(default_factory=list)
    is_open: bool = True

    def close(self) -> None:
        if self.is_open:
            self.is_open = False
            self.folder.close()


def walk_tree(files: Files, start: Folder) -> Iterator[WalkLevel]:
    """Yield each folder from `start` down, depth first, and close every one of them."""
    levels = [WalkLevel(start, 1)]
    try:
        yield levels[0]
        while levels:
            level = levels[-1]
            if not level.pending:
                levels.pop().close()
                continue
            folder = _enter(files, level, level.pending.pop())
            if folder is None:
                continue
            levels.append(WalkLevel(folder, level.depth + 1))
            yield levels[-1]
            if len(levels) > MAX_OPEN_FOLDERS:
                levels[-1].close()
    finally:
        for level in levels:
            level.close()


def count_files(files: Files, path: str, most: int) -> int:
    """Count what is no folder below the folder `path`, up to `most`; 1 for anything but a folder."""
    start = open_real_folder(files, path)
    if start is None:
        return 1
    count = 0
    for level in walk_tree(files, start):
        for batch in level.folder.batches():
            folders = [entry.name for entry in batch if entry.is_dir(follow_symlinks=False)]
            level.pending += folders
            count += len(batch) - len(folders)
        if count >= most:
            return most
    return count


def iterate_entries(folder: Folder, deadline: Deadline) -> Iterator[DirEntry]:
    """Yield the entries of the folder and check the deadline at intervals."""
    deadline.check()
    for batch in folder.batches():
        for begin in range(0, len(batch), DEADLINE_INTERVAL):
            yield from batch[begin : begin + DEADLINE_INTERVAL]
            deadline.check()


def iterate_files(
    files: Files, start: Folder, exclusions: ExcludeSet, deadline: Deadline, *, recursive: bool
) -> Iterator[tuple[str, str]]:
    """Yield folder and name of each regular file below `start` that is not excluded, in no order."""
    for level in walk_tree(files, start):
        path = level.folder.path
        for entry in iterate_entries(level.folder, deadline):
            name = entry.name
            if entry.is_file(follow_symlinks=False):
                is_folder = False
            elif recursive and entry.is_dir(follow_symlinks=False):
                is_folder = True
            else:
                continue  # links are not followed, pipes and devices not opened
            if exclusions.excludes(join_path(path, name), is_folder):
                continue
            if is_folder:
                level.pending.append(name)
            else:
                yield path, name


def open_real_folder(files: Files, path: str) -> Folder | None:
    """Open the folder at the real path `path`, or return None if it is gone or a link has replaced it."""
    folder = try_open(files.open_folder, path)
    if folder is not None and folder.path != path:
        folder.close()
        return None
    return folder


def try_open(open_name: Callable[[str], T], name: str) -> T | None:
    """Return `open_name(name)`, or None if a walk or a search skips it."""
    try:
        return open_name(name)
    except UNREADABLE:
        return None
    except OSError as error:
        if is_unreadable(error):
            return None
        raise


def _enter(files: Files, level: WalkLevel, name: str) -> Folder | None:
    """Open the subfolder `name` of `level`, never through a link, or return None if the walk skips it."""
    if not level.is_open:
        return open_real_folder(files, join_path(level.folder.path, name))
    return try_open(level.folder.enter, name)
