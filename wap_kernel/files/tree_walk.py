"""Going down a tree of folders by descriptors, with what a living workspace does to a walk taken in stride.

A folder that cannot be opened, has vanished or has become something else since its name was read is left out; that
is not an error of the walk. A lack of descriptors is one: leaving folders out then would falsify every total.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TypeVar

from wap_kernel.files.globs.sets import ExcludeSet
from wap_kernel.files.interface import DirEntry, Files, Folder
from wap_kernel.model.deadline import Deadline
from wap_kernel.model.errors import Conflict, InvalidArgument, PermissionDenied
from wap_kernel.model.paths import join_path

T = TypeVar("T")

MAX_OPEN_FOLDERS = 64
"""Folders kept open along one path; deeper ones are opened from the root, so that depth does not cost descriptors."""

DEADLINE_INTERVAL = 64
"""Entries between two looks at the deadline; a caller's patterns may take milliseconds for each."""

UNREADABLE = (PermissionDenied, InvalidArgument, Conflict)
"""What the primitives raise for something that is no longer, or never was, readable at its path."""

_GONE_ERRORS = {
    *(errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ELOOP, errno.EXDEV, errno.ENAMETOOLONG, errno.ESTALE),
    *(errno.EACCES, errno.EPERM, errno.EIO, errno.ENXIO, errno.ENODEV),
}


def is_unreadable(error: OSError) -> bool:
    """Whether a walk goes on without the file or folder that gave this error."""
    return error.errno in _GONE_ERRORS


@dataclass
class WalkLevel:
    """A folder on the way down. Whoever walks puts the names of the folders to go into in `pending`, last one first."""

    folder: Folder
    depth: int
    """Of what is in the folder; 1 for what is directly in the start."""
    pending: list[str] = field(default_factory=list)
    is_open: bool = True

    def close(self) -> None:
        if self.is_open:
            self.is_open = False
            self.folder.close()


def walk_tree(files: Files, start: Folder) -> Iterator[WalkLevel]:
    """Each folder from `start` down, depth first. Closes every folder that it hands out, `start` too."""
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


def iterate_entries(folder: Folder, deadline: Deadline) -> Iterator[DirEntry]:
    """The entries of the folder, with a look at the deadline every now and then."""
    deadline.check()
    for batch in folder.batches():
        for begin in range(0, len(batch), DEADLINE_INTERVAL):
            yield from batch[begin : begin + DEADLINE_INTERVAL]
            deadline.check()


def iterate_files(
    files: Files, start: Folder, exclusions: ExcludeSet, deadline: Deadline, *, recursive: bool
) -> Iterator[tuple[str, str]]:
    """Folder and name of each regular file below `start`, in no order, without what is excluded."""
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
    """The folder at the real path `path`, or None if it is gone. A link that took its place is not followed."""
    folder = try_open(files.open_folder, path)
    if folder is not None and folder.path != path:
        folder.close()
        return None
    return folder


def try_open(open_it: Callable[[str], T], name: str) -> T | None:
    """What `open_it(name)` gives, or None if a walk or a search has to do without it."""
    try:
        return open_it(name)
    except UNREADABLE:
        return None
    except OSError as error:
        if is_unreadable(error):
            return None
        raise


def _enter(files: Files, level: WalkLevel, name: str) -> Folder | None:
    """The folder `name` of `level`, or None if the walk has to do without it. A link is never followed."""
    if not level.is_open:
        return open_real_folder(files, join_path(level.folder.path, name))
    return try_open(level.folder.enter, name)
