"""Move away files that a command created at protected paths.

A mount can guard only what exists: there is no mount point for a `.bash_profile` that is not there. What a command on a
Layer creates there is refused when its changes are judged. A command that shares the workspace writes there directly,
so what appears is renamed, to a name that no program looks for. It is not deleted: it may be a person's own.

Everything is opened from the root without following links. A parent that the command has closed is opened again, and a
link on the way that leads to a protected name is itself renamed.
"""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Collection, Iterable, Iterator
from contextlib import ExitStack, suppress

from wap_kernel.files.interface import Files
from wap_kernel.model.errors import WapError
from wap_kernel.model.paths import join_path

MARK = "set-aside"
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


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
            new = f"{name}.{MARK}-{secrets.token_hex(4)}"
            if _rename(folder, name, new):
                moved.append((join_path(parent, name), join_path(parent, new)))
    return moved


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


def _locate(opened: ExitStack, root: int, path: str) -> tuple[int, str, str] | None:
    """Return the open folder, its path and the name of what stands at `path`, or of the first link that leads there."""
    folder, parent = root, "."
    *above, last = path.split("/")
    for position, name in enumerate(above):
        try:
            found = os.stat(name, dir_fd=folder, follow_symlinks=False)
        except OSError:
            return None
        if stat.S_ISLNK(found.st_mode):
            rest = "/".join(path.split("/")[position:])
            return (folder, parent, name) if _leads_somewhere(rest, folder) else None
        below = _open_folder(name, folder)
        if below is None:
            return None
        opened.callback(os.close, below)
        folder, parent = below, join_path(parent, name)
    try:
        os.stat(last, dir_fd=folder, follow_symlinks=False)
    except OSError:
        return None
    return folder, parent, last


def _leads_somewhere(path: str, folder: int) -> bool:
    try:
        os.stat(path, dir_fd=folder)
    except OSError:
        return False
    return True


def _open_folder(name: str, parent: int) -> int | None:
    """Open a folder, also one that its owner may not enter any more."""
    for attempt in range(2):
        try:
            return os.open(name, _FOLDER, dir_fd=parent)
        except PermissionError:
            if attempt or not _open_permissions(name, parent):
                return None
        except OSError:
            return None
    return None


def _open_permissions(name: str, parent: int) -> bool:
    with suppress(OSError):
        handle = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=parent)
        try:
            os.chmod(f"/proc/self/fd/{handle}", stat.S_IMODE(os.fstat(handle).st_mode) | 0o700)
            return True
        finally:
            os.close(handle)
    return False


def _rename(folder: int, name: str, new: str) -> bool:
    """Rename an entry; where the folder is not writable, make it so for the moment."""
    try:
        os.rename(name, new, src_dir_fd=folder, dst_dir_fd=folder)
        return True
    except PermissionError:
        pass
    except OSError:
        return False
    with suppress(OSError):
        mode = stat.S_IMODE(os.fstat(folder).st_mode)
        os.fchmod(folder, mode | 0o700)
        try:
            os.rename(name, new, src_dir_fd=folder, dst_dir_fd=folder)
            return True
        finally:
            os.fchmod(folder, mode)
    return False


def _is_there(files: Files, path: str) -> bool:
    try:
        files.stat(path, follow=False)
    except (OSError, WapError):
        return False
    return True
