"""Move away files that a command created at protected paths.

A mount can guard only what exists: there is no mount point for a `.bash_profile` that is not there. What a command on a
Layer creates there is refused when its changes are judged. A command that shares the workspace writes there directly,
so what appears is renamed, to a name that no program looks for. It is not deleted: it may be a person's own.

Everything is opened from the root without following links. A folder that the command has closed is opened for the
moment. Behind a link, what it leads to is renamed; a link that leads out of the workspace is renamed itself.
"""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import ExitStack, suppress
from functools import partial
from typing import TypeVar

from wap_kernel.files.interface import Files
from wap_kernel.model.errors import WapError
from wap_kernel.model.paths import join_path

MARK = "set-aside"
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_PASSAGE = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
T = TypeVar("T")


def find_missing(files: Files, paths: Iterable[str]) -> tuple[str, ...]:
    """Return those of `paths` that do not exist."""
    return tuple(path for path in paths if not _is_there(files, path))


def quarantine_files(root: int, paths: Collection[str]) -> list[tuple[str, str]]:
    """Rename those of `paths` that exist now below the open folder `root`; return the old and new paths."""
    moved = []
    for path in sorted(paths):  # a folder comes first, and takes along what is below
        with ExitStack() as opened:
            found = _locate(opened, root, path)
            if found is None:
                continue
            folder, parent, name = found
            with suppress(OSError):
                new = move_away(opened, folder, name)
                if new is not None:
                    moved.append((join_path(parent, name), join_path(parent, new)))
    return moved


def move_away(opened: ExitStack, folder: int, name: str) -> str | None:
    """Rename an entry of an open folder to a name that no program looks for; return it, None if nothing is there."""
    new = f"{name}.{MARK}-{secrets.token_hex(4)}"
    try:
        retry_opened(opened, folder, partial(os.rename, name, new, src_dir_fd=folder, dst_dir_fd=folder))
    except FileNotFoundError:
        return None
    return new


def open_parent(opened: ExitStack, root: int, path: str) -> int | None:
    """Return the open folder that holds `path`, reached without following links; None where there is none."""
    folder = root
    try:
        for name in path.split("/")[:-1]:
            folder = retry_opened(opened, folder, partial(os.open, name, _PASSAGE, dir_fd=folder))
            opened.callback(os.close, folder)
    except OSError:
        return None
    return folder


def open_ancestors(root: int, path: str) -> Iterator[int]:
    """Yield descriptors of the folders on the way to `path`, as far as they exist; each is closed after its turn."""
    descriptor = os.dup(root)
    for name in (*path.split("/")[:-1], None):
        try:
            yield descriptor
            if name is None:
                return
            below = os.open(name, _FOLDER, dir_fd=descriptor)
        except OSError:
            return
        finally:
            os.close(descriptor)
        descriptor = below


def _locate(opened: ExitStack, root: int, path: str, *, follow: bool = True) -> tuple[int, str, str] | None:
    """Return the open folder, its path and the name of what stands at `path`, or of the link that leads out."""
    folder, parent = root, "."
    *above, last = path.split("/")
    try:
        for position, name in enumerate(above):
            found = retry_opened(opened, folder, partial(_stat, folder, name))
            if stat.S_ISLNK(found.st_mode):
                real = _resolve(root, path) if follow else None
                if real is not None:
                    return _locate(opened, root, real, follow=False)
                os.stat("/".join((*above[position:], last)), dir_fd=folder)  # raises if it leads nowhere
                return folder, parent, name
            folder, parent = os.open(name, _PASSAGE, dir_fd=folder), join_path(parent, name)
            opened.callback(os.close, folder)
        retry_opened(opened, folder, partial(_stat, folder, last))
    except OSError:
        return None
    return folder, parent, last


def _resolve(root: int, path: str) -> str | None:
    """Return the path below the root that links lead to; None if they lead out."""
    top = os.readlink(f"/proc/self/fd/{root}")
    folder, name = os.path.split(os.path.join(top, path))
    real = os.path.join(os.path.realpath(folder), name)
    return real[len(top) + 1 :] if real.startswith(f"{top}/") else None


def _stat(folder: int, name: str) -> os.stat_result:
    return os.stat(name, dir_fd=folder, follow_symlinks=False)


def retry_opened(opened: ExitStack, folder: int, work: Callable[[], T]) -> T:
    """Do work in a folder; where the folder is closed to its owner, open it until `opened` ends."""
    try:
        return work()
    except PermissionError:
        path = f"/proc/self/fd/{folder}"
        mode = stat.S_IMODE(os.fstat(folder).st_mode)
        os.chmod(path, mode | 0o700)
        opened.callback(os.chmod, path, mode)
        return work()


def _is_there(files: Files, path: str) -> bool:
    try:
        files.stat(path, follow=False)
    except (OSError, WapError):
        return False
    return True
