"""Resolve a path below a descriptor component by component, reading links here and not in the kernel.

Every step opens the next folder relative to the one before with O_NOFOLLOW, so a folder that is swapped for a link
between two steps is detected and never followed. `..` goes back along the open descriptors, never through the
filesystem. Only this module interprets links; openat2 hands over to it when it meets one.
"""

from __future__ import annotations

import errno
import os
import stat
from collections import deque
from dataclasses import dataclass

from wap_kernel.model.paths import relative_to, split_path

MAX_LINKS = 40
MAX_FOLDERS = 256
"""Folders on the way to a file, for each of which a descriptor stays open."""
FOLDER_FLAGS = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)


class RootEscape(Exception):
    """The path leaves the root."""


class RaceDetected(Exception):
    """A component was renamed during the walk; resolve the path again."""


@dataclass(frozen=True)
class Location:
    """A name in an open folder, `.` for the folder itself; close it after use."""

    fd: int
    name: str
    path: str

    def close(self) -> None:
        os.close(self.fd)

    def __enter__(self) -> Location:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def walk_components(root: int, names_of_root: tuple[str, ...], path: str, *, follow: bool) -> Location:
    """Return the location of `path`, whose last name need not exist; with `follow`, resolve a link there too."""
    pending = deque(split_path(path))
    folders: list[int] = []
    names: list[str] = []
    links = 0
    try:
        while pending:
            name = pending.popleft()
            here = folders[-1] if folders else root
            if name == "..":
                if not folders:
                    raise RootEscape
                os.close(folders.pop())
                names.pop()
                continue
            last = not pending
            try:
                mode = os.stat(name, dir_fd=here, follow_symlinks=False).st_mode
            except FileNotFoundError:
                if not last:
                    raise
                return Location(os.dup(here), name, "/".join([*names, name]))
            if stat.S_ISLNK(mode) and (follow or not last):
                links += 1
                if links > MAX_LINKS:
                    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
                target = _read_link(name, here)
                if target.startswith("/"):
                    target = _into_root(target, names_of_root)
                    while folders:
                        os.close(folders.pop())
                    names.clear()
                pending.extendleft(reversed(split_path(target)))
            elif last:
                return Location(os.dup(here), name, "/".join([*names, name]))
            elif len(folders) >= MAX_FOLDERS:
                raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG))
            else:
                folders.append(_open_folder(name, here, mode))
                names.append(name)
        return Location(os.dup(folders[-1] if folders else root), ".", "/".join(names) or ".")
    finally:
        for folder in folders:
            os.close(folder)


def _read_link(name: str, folder: int) -> str:
    try:
        return os.readlink(name, dir_fd=folder)
    except OSError as error:
        if error.errno in (errno.EINVAL, errno.ENOENT):
            raise RaceDetected from None
        raise


def _into_root(target: str, names_of_root: tuple[str, ...]) -> str:
    for name in names_of_root:
        relative = relative_to(target, name)
        if relative is not None:
            return relative
    raise RootEscape


def _open_folder(name: str, folder: int, mode: int) -> int:
    try:
        return os.open(name, FOLDER_FLAGS, dir_fd=folder)
    except OSError as error:
        # A link with O_DIRECTORY | O_NOFOLLOW is ENOTDIR on Linux and ELOOP elsewhere.
        if stat.S_ISDIR(mode) and error.errno in (errno.ENOTDIR, errno.ELOOP, errno.ENOENT):
            raise RaceDetected from None
        raise
