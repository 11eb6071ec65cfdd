"""Prepare the new entries of a command for the workspace: without the marks of the overlay and without setuid bits.

They stay in the upper folder where a rename can take them to the workspace from there; else they are copied into a
temporary folder of the workspace first, so that a full disk is noticed before anything is changed.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace

from wap_kernel.files.contained.component_walk import FOLDER_FLAGS
from wap_kernel.files.contained.copies import copy_entry, open_folder, remove_entry
from wap_kernel.files.contained.renames import temporary_name
from wap_kernel.files.contained.root import Root
from wap_kernel.model.changes import Change, FileImage
from wap_kernel.state.changes.apply_plan import ApplyUnit
from wap_kernel.state.changes.change_log import make_token
from wap_kernel.state.changes.image_store import ImageStore, read_mount
from wap_kernel.state.changes.tree_manifest import TreeManifest, make_image, take_image

_MARK = ".overlay."


class StagedEntries:
    """The new entries of one command. `upper` is a folder of our own in which nothing runs any more."""

    def __init__(self, upper: str, root: Root, store: ImageStore) -> None:
        self._upper = upper
        self._root = root
        self._store = store
        self._copies: str | None = None
        self.opened: dict[str, int] = {}
        """The modes of folders of the upper folder that were closed to their owner."""
        self._folder = os.open(upper, FOLDER_FLAGS)
        self._parent: tuple[str, int] | None = None
        """The folder of the entry that was staged last, and its descriptor."""
        try:
            found, top = os.fstat(self._folder), os.fstat(root.fd)
            self._is_near = found.st_dev == top.st_dev and read_mount(self._folder) == read_mount(root.fd)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        self._close_parent()
        os.close(self._folder)

    @property
    def descriptor(self) -> int:
        return self._folder

    def close_folders(self) -> None:
        """Give the folders that are left in the upper folder their modes again."""
        for path, mode in sorted(self.opened.items(), reverse=True):
            with suppress(OSError):
                os.chmod(path, mode)

    def rewrite(self, contents: Mapping[str, bytes]) -> None:
        """Replace the content of files, which policy has cleaned."""
        for path, data in contents.items():
            with self._open_parent(path) as (folder, name):
                mode = stat.S_IMODE(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
                remove_entry(folder, name)
                flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
                descriptor = os.open(name, flags, 0o600, dir_fd=folder)
                with os.fdopen(descriptor, "wb") as file:
                    file.write(data)
                    os.fchmod(descriptor, mode)

    def stage(self, unit: ApplyUnit) -> tuple[str, FileImage, TreeManifest | None]:
        """Prepare the entry of a unit; return its absolute path, its image, and the manifest of a folder."""
        if unit.is_bare:
            return self._stage_bare(unit)
        folder, name = self._locate(unit.path)
        path = f"{self._upper}/{unit.path}"
        image = _clean(folder, name, path)
        for change in unit.covered:
            self._clean_below(folder, name, unit.path, change)
        self._set_modes(unit)
        if self._is_near:
            return (path, image, None) if image.kind == "file" else self._describe(unit, path, folder, name)
        path = os.path.join(self._make_copies(), make_token())
        copies = os.open(os.path.dirname(path), FOLDER_FLAGS)
        try:
            copy_entry(folder, name, copies, os.path.basename(path))
            return self._describe(unit, path, copies, os.path.basename(path))
        finally:
            os.close(copies)

    def _describe(
        self, unit: ApplyUnit, path: str, folder: int, name: str
    ) -> tuple[str, FileImage, TreeManifest | None]:
        image = take_image(folder, name)
        if image.kind != "folder":
            return path, image, None
        tree = TreeManifest.take(folder, name)
        judged = {change.path[len(unit.path) + 1 :] for change in unit.covered}
        if not judged.issuperset(tree.images):
            for below in sorted(tree.images.keys() - judged, reverse=True):
                _remove_below(folder, name, below)
            tree = TreeManifest.take(folder, name)
        return path, image, tree

    def _stage_bare(self, unit: ApplyUnit) -> tuple[str, FileImage, TreeManifest | None]:
        near = self._store.is_near(self._root.fd)
        path = os.path.join(self._store.folder if near else self._make_copies(), f"{make_token()}.new")
        mode = unit.change.after.mode or 0o700
        os.mkdir(path, 0o700)
        if not unit.is_helper and os.geteuid() == 0:
            with self._open_parent(unit.path) as (folder, name):
                found = os.stat(name, dir_fd=folder, follow_symlinks=False)
                os.chown(path, found.st_uid, found.st_gid)
        os.chmod(path, (mode | 0o700) & 0o3777)
        return path, take_image(self._folder, path), TreeManifest({})

    def _make_copies(self) -> str:
        if self._copies is None:
            name = temporary_name(make_token())
            self._root.journal.note(name, name)
            os.mkdir(name, 0o700, dir_fd=self._root.fd)
            self._copies = os.path.join(self._root.path, name)
        return self._copies

    def forget_copies(self) -> None:
        """Remove the temporary folder of the workspace, with what was not used."""
        if self._copies is not None:
            name = os.path.basename(self._copies)
            remove_entry(self._root.fd, name)
            self._root.journal.forget(name)
            self._copies = None

    def hand_over(self) -> None:
        """Leave the copies to the log, which names them from now on."""
        if self._copies is not None:
            self._root.journal.forget(os.path.basename(self._copies))

    def _locate(self, path: str) -> tuple[int, str]:
        """Return the folder of an entry, open until another folder's entry is located, and the entry's name."""
        parent, _, name = path.rpartition("/")
        if self._parent is None or self._parent[0] != parent:
            self._close_parent()
            with self._open_parent(path) as (folder, _):
                self._parent = parent, os.dup(folder)
        return self._parent[1], name

    def _close_parent(self) -> None:
        if self._parent is not None:
            os.close(self._parent[1])
            self._parent = None

    @contextmanager
    def _open_parent(self, path: str) -> Iterator[tuple[int, str]]:
        """Yield the folder of an entry, open and writable for its owner from now on."""
        *folders, name = path.split("/")
        descriptor = os.dup(self._folder)
        try:
            for number, folder in enumerate(folders):
                with open_folder(descriptor, folder) as opened:
                    below = os.dup(opened)
                mode = stat.S_IMODE(os.fstat(below).st_mode)
                if mode & 0o700 != 0o700:
                    self.opened.setdefault(os.path.join(self._upper, *folders[: number + 1]), mode)
                    os.fchmod(below, mode | 0o700)
                os.close(descriptor)
                descriptor = below
            yield descriptor, name
        finally:
            os.close(descriptor)

    def _clean_below(self, folder: int, name: str, top: str, change: Change) -> None:
        if change.after.kind == "absent":
            return
        relative = change.path[len(top) + 1 :]
        *folders, last = [name, *relative.split("/")]
        try:
            below = os.open("/".join(folders), FOLDER_FLAGS, dir_fd=folder)
        except PermissionError:
            with self._open_parent(change.path) as (opened, _):
                _clean(opened, last, os.path.join(self._upper, change.path))
            return
        try:
            _clean(below, last, os.path.join(self._upper, change.path))
        finally:
            os.close(below)

    def _set_modes(self, unit: ApplyUnit) -> None:
        """Give folders the modes that the command gave them; they were open while they were read."""
        if os.geteuid() == 0:
            return
        for change in reversed(unit.covered):
            if change.after.kind == "folder" and change.after.mode is not None and change.after.mode & 0o700 != 0o700:
                os.chmod(os.path.join(self._upper, change.path), change.after.mode & 0o3777)
        after = unit.change.after
        if after.kind == "folder" and after.mode is not None and after.mode & 0o700 != 0o700:
            os.chmod(os.path.join(self._upper, unit.path), after.mode & 0o3777)


def list_staged_folders(paths: Iterable[str | None], root: Root) -> set[str]:
    """Return the temporary folders of the workspace that staged entries were copied to."""
    folders = {os.path.dirname(path) for path in paths if path is not None}
    return {os.path.basename(folder) for folder in folders if os.path.dirname(folder) == root.path}


def _remove_below(folder: int, name: str, path: str) -> None:
    """Remove what is no change: the mark of a deletion, in a folder that is gone from the workspace meanwhile."""
    with ExitStack() as stack:
        *folders, last = path.split("/")
        for each in (name, *folders):
            folder = stack.enter_context(open_folder(folder, each))
        remove_entry(folder, last)


def _clean(folder: int, name: str, path: str) -> FileImage:
    """Remove the attributes of the overlay and bits that new content has not earned; return the image of a file."""
    found = os.stat(name, dir_fd=folder, follow_symlinks=False)
    image = make_image(found)
    unearned = stat.S_ISUID if image.kind == "folder" else stat.S_ISUID | stat.S_ISGID
    mode = stat.S_IMODE(found.st_mode)
    is_link = image.kind == "link"
    marks = _list_marks(path)
    if marks and not is_link and not mode & 0o200 and os.geteuid() != 0:
        os.chmod(name, mode | 0o600, dir_fd=folder)
    for mark in marks:
        os.removexattr(path, mark, follow_symlinks=False)
    if not is_link and (mode & unearned or (marks and not mode & 0o200)):
        os.chmod(name, mode & ~unearned, dir_fd=folder)
        image = replace(image, mode=mode & ~unearned)
    return image


def _list_marks(path: str) -> list[str]:
    try:
        return [mark for mark in os.listxattr(path, follow_symlinks=False) if _MARK in mark]
    except OSError:
        return []  # the filesystem has no attributes
