"""Read what a command changed from the upper folder of its Layer, as a ChangeSet.

The kernel puts every changed file, link and folder into the upper folder, a character device 0:0 for each deletion, and
attributes on folders: `opaque` (nothing of the folder below is left), `redirect` (the folder was elsewhere before). The
cost is that of the changes, not of the workspace. A deleted or created folder is listed with everything below it.

No process uses the layer meanwhile. The folders are opened without following links: a command may have made any.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Collection
from contextlib import ExitStack, suppress
from dataclasses import dataclass

from wap_kernel.model.changes import ABSENT, Change, ChangeKind, ChangeSet, FileImage
from wap_kernel.model.errors import PermissionDenied, TooLarge
from wap_kernel.model.limits import MAX_CHANGED_DEPTH, MAX_CHANGED_PATH_BYTES, MAX_CHANGED_PATHS
from wap_kernel.model.paths import join_path

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_CHUNK = 1024 * 1024


def read_changes(upper: str, root_fd: int, attribute_prefix: str) -> ChangeSet:
    """Return the changes in `upper` against the workspace at `root_fd`.

    `attribute_prefix` is `trusted.overlay.` or `user.overlay.`.
    """
    try:
        reader = _ChangeReader(root_fd, attribute_prefix)
        reader.read(upper)
        moved = {change.source for change in reader.changes if change.source is not None}
        if moved:  # what is at their old paths is new, which shows only when all moves are known
            reader = _ChangeReader(root_fd, attribute_prefix, moved)
            reader.read(upper)
        return ChangeSet(tuple(reader.changes))
    except PermissionError as error:
        raise PermissionDenied(
            f"The command changed something in a folder that its owner may not read or enter: {error.filename}. "
            "None of its changes was applied.",
            hint="Open the folder first, in a command of its own: chmod u+rwx.",
        ) from error


def image_of(found: os.stat_result | None, folder: int, name: str) -> FileImage:
    """Return the image of an entry of the open folder `folder`."""
    if found is None:
        return ABSENT
    if stat.S_ISREG(found.st_mode):
        stamp = f"{found.st_ino}:{found.st_size}:{found.st_mtime_ns}"
        return FileImage("file", stat.S_IMODE(found.st_mode), found.st_size, stamp=stamp)
    if stat.S_ISLNK(found.st_mode):
        return FileImage("link", target=os.readlink(name, dir_fd=folder))
    return FileImage("folder" if stat.S_ISDIR(found.st_mode) else "special", stat.S_IMODE(found.st_mode))


def is_whiteout(found: os.stat_result) -> bool:
    """Return whether an entry of an upper folder stands for a deletion."""
    return stat.S_ISCHR(found.st_mode) and found.st_rdev == 0


def open_upper_folder(name: str, folder: int | None = None) -> int:
    """Open a folder of an upper folder; open its permissions where the command has closed them for its owner."""
    try:
        return os.open(name, _FOLDER, dir_fd=folder)
    except PermissionError:
        mode = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
        handle = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=folder)
        try:
            os.chmod(f"/proc/self/fd/{handle}", stat.S_IMODE(mode) | 0o700)
        finally:
            os.close(handle)
        return os.open(name, _FOLDER, dir_fd=folder)


def read_upper_file(upper: str, path: str, limit: int) -> bytes | None:
    """Return the content of a file of an upper folder, None where there is none or it is larger than `limit`."""
    *folders, name = path.split("/")
    try:
        with ExitStack() as opened:
            descriptor = open_upper_folder(upper)
            opened.callback(os.close, descriptor)
            for folder in folders:
                descriptor = open_upper_folder(folder, descriptor)
                opened.callback(os.close, descriptor)
            file = os.open(name, _FILE, dir_fd=descriptor)
            opened.callback(os.close, file)
            found = os.fstat(file)
            if not stat.S_ISREG(found.st_mode) or found.st_size > limit:
                return None
            chunks = []
            while chunk := os.read(file, _CHUNK):
                chunks.append(chunk)
            return b"".join(chunks)
    except OSError:
        return None


@dataclass(frozen=True)
class _FolderPair:
    """A folder that is compared: its path, the open upper folder, and the open folder of the workspace."""

    path: str
    upper: int
    lower: int | None
    lower_path: str
    """The path of the workspace's folder, another one where the folder was moved."""
    is_opaque: bool = False


class _ChangeReader:
    def __init__(self, root_fd: int, attribute_prefix: str, moved: Collection[str] = ()) -> None:
        self._root = root_fd
        self._prefix = attribute_prefix
        self._moved = moved
        """Old paths of folders that have others now."""
        self.changes: list[Change] = []

    def read(self, upper: str) -> None:
        with ExitStack() as opened:
            descriptor = open_upper_folder(upper)
            opened.callback(os.close, descriptor)
            new, old = os.fstat(descriptor), os.fstat(self._root)
            if stat.S_IMODE(new.st_mode) != stat.S_IMODE(old.st_mode):
                self._add_mode(".", old, new)
            self._read_folder(_FolderPair(".", descriptor, self._root, "."))

    def _read_folder(self, pair: _FolderPair) -> None:
        _check_depth(pair.path)
        with os.scandir(pair.upper) as found:
            entries = sorted(found, key=lambda entry: entry.name)
        if pair.is_opaque and pair.lower is not None:
            names = {entry.name for entry in entries}
            for name in sorted(set(os.listdir(pair.lower)) - names):
                self._add_deleted(pair, name)
        for entry in entries:
            new = entry.stat(follow_symlinks=False)
            if is_whiteout(new):
                self._add_deleted(pair, entry.name)
            elif stat.S_ISDIR(new.st_mode):
                self._read_subfolder(pair, entry.name, new)
            else:
                self._compare_file(pair, entry.name, new)

    def _read_subfolder(self, pair: _FolderPair, name: str, new: os.stat_result) -> None:
        path, old = join_path(pair.path, name), self._lstat_lower(pair, name)
        with ExitStack() as opened:
            descriptor = open_upper_folder(name, pair.upper)
            opened.callback(os.close, descriptor)
            lower, lower_path = None, join_path(pair.lower_path, name)
            redirect = self._read_attribute(descriptor, "redirect")
            is_opaque = self._read_attribute(descriptor, "opaque") == b"y"
            source = None if redirect is None or is_opaque else _resolve_redirect(redirect, pair.lower_path)
            if source is not None and source != lower_path:
                lower_path = source
                lower = self._open_lower(lower_path)
                if lower is not None:
                    self._add_deleted(pair, name)  # the folder stands in its place
                    before = _folder_image(os.fstat(lower))
                    self._add(Change(path, ChangeKind.MOVED, before, _folder_image(new), lower_path))
            elif old is not None and stat.S_ISDIR(old.st_mode) and pair.lower is not None:
                if stat.S_IMODE(old.st_mode) != stat.S_IMODE(new.st_mode):
                    self._add_mode(path, old, new)
                if not is_opaque and not os.listdir(descriptor):
                    return  # it may be closed: `chmod u+rwx` opens it
                lower = os.open(name, _FOLDER, dir_fd=pair.lower)
            if lower is not None:
                opened.callback(os.close, lower)
            else:
                is_new = old is None or pair.lower is None
                before = ABSENT if is_new else image_of(old, pair.lower or 0, name)
                kind = ChangeKind.CREATED if is_new else ChangeKind.CHANGED
                self._add(Change(path, kind, before, _folder_image(new)))
            # A folder in an opaque one is not merged either, though the kernel does not mark it.
            is_opaque = is_opaque or (pair.is_opaque and redirect is None)
            self._read_folder(_FolderPair(path, descriptor, lower, lower_path, is_opaque))

    def _compare_file(self, pair: _FolderPair, name: str, new: os.stat_result) -> None:
        path, old = join_path(pair.path, name), self._lstat_lower(pair, name)
        after = image_of(new, pair.upper, name)
        if old is None or pair.lower is None:
            self._add(Change(path, ChangeKind.CREATED, ABSENT, after))
            return
        before = image_of(old, pair.lower, name)
        if before.kind == "folder":
            self._list_deleted(pair.lower, name, path, join_path(pair.lower_path, name))
        if (
            before.kind != after.kind
            or before.target != after.target
            or not self._has_same_content(pair, name, old, new)
        ):
            self._add(Change(path, ChangeKind.CHANGED, before, after))
        elif before.mode != after.mode:
            self._add(Change(path, ChangeKind.MODE, before, after))
        elif old.st_mtime_ns != new.st_mtime_ns and before.kind == "file":
            self._add(Change(path, ChangeKind.TOUCHED, before, after))

    def _has_same_content(self, pair: _FolderPair, name: str, old: os.stat_result, new: os.stat_result) -> bool:
        """Return whether both files hold the same; a file may have been opened for writing and left as it was."""
        if not stat.S_ISREG(new.st_mode):
            return True
        if old.st_size != new.st_size:
            return False
        try:
            upper = os.open(name, _FILE, dir_fd=pair.upper)
            try:
                lower = os.open(name, _FILE, dir_fd=pair.lower)
                try:
                    return _have_same_content(upper, lower, new.st_size)
                finally:
                    os.close(lower)
            finally:
                os.close(upper)
        except OSError:
            return False  # it cannot be read, so it counts as changed

    # -- deletions

    def _add_deleted(self, pair: _FolderPair, name: str) -> None:
        old = self._lstat_lower(pair, name)
        if old is None or pair.lower is None:
            return  # moved, or made and deleted by the command itself, or gone from the workspace meanwhile
        path = join_path(pair.path, name)
        self._add(Change(path, ChangeKind.DELETED, image_of(old, pair.lower, name)))
        if stat.S_ISDIR(old.st_mode):
            self._list_deleted(pair.lower, name, path, join_path(pair.lower_path, name))

    def _list_deleted(self, parent: int, name: str, path: str, lower_path: str) -> None:
        """List everything below a folder of the workspace as deleted."""
        _check_depth(path)
        try:
            descriptor = os.open(name, _FOLDER, dir_fd=parent)
        except FileNotFoundError:
            return
        try:
            for entry in sorted(os.listdir(descriptor)):
                found = _lstat(entry, descriptor)
                if found is None or join_path(lower_path, entry) in self._moved:
                    continue
                below = join_path(path, entry)
                self._add(Change(below, ChangeKind.DELETED, image_of(found, descriptor, entry)))
                if stat.S_ISDIR(found.st_mode):
                    self._list_deleted(descriptor, entry, below, join_path(lower_path, entry))
        finally:
            os.close(descriptor)

    # -- parts

    def _lstat_lower(self, pair: _FolderPair, name: str) -> os.stat_result | None:
        """Return the lstat of what was at a path; None also where that is a folder which was moved."""
        if self._moved and join_path(pair.lower_path, name) in self._moved:
            return None
        return _lstat(name, pair.lower)

    def _add(self, change: Change) -> None:
        if len(self.changes) >= MAX_CHANGED_PATHS:
            raise TooLarge(
                f"The command changed more than {MAX_CHANGED_PATHS} files, so none of its changes was applied.",
                hint="Do it in smaller steps.",
            )
        self.changes.append(change)

    def _add_mode(self, path: str, old: os.stat_result, new: os.stat_result) -> None:
        self._add(Change(path, ChangeKind.MODE, _folder_image(old), _folder_image(new)))

    def _read_attribute(self, descriptor: int, name: str) -> bytes | None:
        with suppress(OSError):
            return os.getxattr(descriptor, self._prefix + name)
        return None

    def _open_lower(self, path: str) -> int | None:
        descriptor = os.dup(self._root)
        for name in path.split("/"):
            if name in ("", "..", "."):  # the kernel never writes these
                os.close(descriptor)
                return None
            try:
                below = os.open(name, _FOLDER, dir_fd=descriptor)
            except OSError:
                return None
            finally:
                os.close(descriptor)
            descriptor = below
        return descriptor


def _have_same_content(file: int, other: int, size: int) -> bool:
    """Return whether two open files of one size hold the same."""
    while size > 0:
        chunk = os.read(file, min(size, _CHUNK))
        if not chunk or os.read(other, len(chunk)) != chunk:
            return False
        size -= len(chunk)
    return True


def _check_depth(path: str) -> None:
    if path.count("/") >= MAX_CHANGED_DEPTH or len(os.fsencode(path)) > MAX_CHANGED_PATH_BYTES:
        raise TooLarge(
            f"The command changed folders that are nested more than {MAX_CHANGED_DEPTH} deep, or a path of more than "
            f"{MAX_CHANGED_PATH_BYTES} bytes, so none of its changes was applied.",
            hint="Use fewer folders in one another.",
        )


def _resolve_redirect(value: bytes, parent: str) -> str:
    """Return the path that a folder had before: from the top with a slash, else beside its old parent."""
    text = os.fsdecode(value)
    return text.strip("/") if text.startswith("/") else join_path(parent, text)


def _folder_image(found: os.stat_result) -> FileImage:
    return FileImage("folder", stat.S_IMODE(found.st_mode))


def _lstat(name: str, folder: int | None) -> os.stat_result | None:
    if folder is None:
        return None
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False)
    except (FileNotFoundError, NotADirectoryError):
        return None
