"""The store of before-images: files, links and folders that a change displaced, in the state folder.

A displaced entry gets there by a rename where the state and the workspace are on one filesystem: nothing is hashed or
copied, and a rename brings it back as it was, with inode and times. From another filesystem it is copied, with limits.
The table `images` says which stamps a stored entry has had; two stamps of one name have the same content.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Mapping
from contextlib import nullcontext

from wap_kernel.files.contained.component_walk import FOLDER_FLAGS, Location
from wap_kernel.files.contained.copies import copy_entry, made_movable, remove_entry
from wap_kernel.model.changes import FileImage
from wap_kernel.model.errors import TooLarge
from wap_kernel.model.hints import tell_user
from wap_kernel.model.limits import MAX_COPIED_BYTES, MAX_COPIED_FILE_BYTES
from wap_kernel.model.paths import render_path
from wap_kernel.state.changes.tree_manifest import TreeManifest, take_image
from wap_kernel.state.database import Database
from wap_kernel.state.directory import make_unusable_error

FOLDER = "images"
_SAME = (
    "WITH RECURSIVE same(stamp) AS (SELECT ? UNION SELECT y.stamp FROM same"
    " JOIN images x ON x.stamp = same.stamp JOIN images y ON y.name = x.name WHERE y.stamp IS NOT NULL)"
)
"""All stamps of one content: a copy of a copy has it too."""
_MAX_FOLDERS = 10_000
"""Folders of which is known whether they are on the mount of the store."""


class NotStorable(TooLarge):
    """The content before a change exceeds what the store copies from another filesystem."""


def make_not_storable(paths: Iterable[str]) -> NotStorable:
    names = sorted(map(render_path, paths))
    return NotStorable(
        f"Too large to be stored for undo: {', '.join(names[:10])}",
        hint=tell_user("Put the state folder on the workspace's filesystem (WapExtension.state_dir)."),
        paths=names,
    )


class ImageStore:
    """The stored entries of one state folder."""

    def __init__(self, state_dir: str, database: Database) -> None:
        self.folder = os.path.join(state_dir, FOLDER)
        self._database = database
        try:
            os.makedirs(self.folder, mode=0o700, exist_ok=True)
            self.fd = os.open(self.folder, FOLDER_FLAGS)
        except OSError as error:
            raise make_unusable_error(error) from error
        self._device = os.fstat(self.fd).st_dev
        self._mount = read_mount(self.fd)
        self._near: dict[tuple[int, int], bool] = {}

    def close(self) -> None:
        os.close(self.fd)

    # -- entries

    def is_near(self, folder: int) -> bool:
        """Return whether an entry of an open folder can be renamed into the store."""
        found = os.fstat(folder)
        if found.st_dev != self._device:
            return False
        key = found.st_dev, found.st_ino
        if key not in self._near:
            if len(self._near) >= _MAX_FOLDERS:
                self._near.clear()
            self._near[key] = read_mount(folder) == self._mount
        return self._near[key]

    def at(self, name: str) -> Location:
        """Return the location of a stored entry; its descriptor is the store's own."""
        return Location(self.fd, name, name)

    def take(self, displaced: Location, token: str, run: str, image: FileImage) -> Location:
        """Move a displaced entry into the store, or copy it there; return where the entry itself is now."""
        stored = self.at(token)
        if self.is_near(displaced.fd):
            is_folder = image.kind == "folder"
            try:
                with made_movable(displaced.fd, displaced.name) if is_folder else nullcontext():
                    os.rename(displaced.name, token, src_dir_fd=displaced.fd, dst_dir_fd=self.fd)
                return stored
            except OSError as error:
                if error.errno != errno.EXDEV:
                    raise
        self.copy(displaced, token, run)
        return displaced

    def copy(self, displaced: Location, token: str, run: str) -> None:
        """Copy a displaced entry into the store; a crash leaves no part of it under its name."""
        part = f"{token}.part"
        copy_entry(displaced.fd, displaced.name, self.fd, part)
        if take_image(self.fd, part).kind == "folder":
            originals = TreeManifest.take(displaced.fd, displaced.name)
            self.equate_trees(run, token, originals, TreeManifest.take(self.fd, part))
        os.rename(part, token, src_dir_fd=self.fd, dst_dir_fd=self.fd)

    def prepare(self, name: str, target: Location, temporary: str) -> Location:
        """Return where a stored entry can be renamed to the target from: the store, or a copy beside the target."""
        if self.is_near(target.fd):
            return self.at(name)
        folder, _, last = name.rpartition("/")
        source = os.open(folder or ".", FOLDER_FLAGS, dir_fd=self.fd)
        try:
            copy_entry(source, last, target.fd, temporary)
        finally:
            os.close(source)
        return Location(target.fd, temporary, temporary)

    def has(self, name: str) -> bool:
        try:
            os.stat(name, dir_fd=self.fd, follow_symlinks=False)
        except OSError:
            return False
        return True

    def remove(self, name: str) -> None:
        remove_entry(self.fd, name)

    # -- lookups

    def find(self, image: FileImage) -> str | None:
        """Return the name of the entry with the content of an image; None if it is not stored any more."""
        if image.stored is not None and self.has(image.stored):
            return image.stored
        if image.stamp is None or image.kind == "absent":
            return None
        names = self._query(f"{_SAME} SELECT DISTINCT name FROM images JOIN same USING (stamp)", image.stamp)
        return next((name for (name,) in names if self._is_kind(name, image)), None)

    def _is_kind(self, name: str, image: FileImage) -> bool:
        return self.has(name) and take_image(self.fd, name).kind == image.kind

    def is_same(self, image: FileImage, other: FileImage) -> bool:
        """Return whether two images have the same kind, content and mode."""
        if (image.kind, image.mode, image.target) != (other.kind, other.mode, other.target):
            return False
        return image.kind != "file" or self.has_same_content(image, other)

    def has_same_content(self, image: FileImage, other: FileImage) -> bool:
        if image.stamp == other.stamp:
            return True
        if image.size != other.size or image.stamp is None or other.stamp is None:
            return False
        return bool(self._query(f"{_SAME} SELECT 1 FROM same WHERE stamp = ?", image.stamp, other.stamp))

    def _query(self, query: str, *values: str) -> list[tuple[str]]:
        # On the writing connection, so that enqueued changes are stored first.
        return self._database.write(lambda connection: connection.execute(query, values).fetchall())

    def equate(self, run: str, pairs: Iterable[tuple[str, str, str]]) -> None:
        """Store that copies have the content of their originals: the name, the stamp of the original, of the copy."""
        rows = [(name, stamp, run) for name, original, copy in pairs for stamp in (original, copy)]
        self._database.write(
            lambda connection: connection.executemany(
                "INSERT INTO images (name, stamp, run, size) VALUES (?, ?, ?, 0)", rows
            )
        )

    def equate_trees(self, run: str, name: str, originals: TreeManifest, copies: TreeManifest) -> None:
        """Store that the files of a copied folder have the content of their originals."""
        pairs = []
        for path, copy in copies.images.items():
            original = originals.images.get(path)
            if original is not None and original.kind == copy.kind == "file":
                pairs.append((f"{name}/{path}", str(original.stamp), str(copy.stamp)))
        self.equate(run, pairs)


def select_unkept(displaced: Mapping[str, Mapping[str, int]]) -> set[str]:
    """Return the paths whose entries are not stored, of those that one operation displaces from another filesystem.

    `displaced` has the sizes of the files of each entry. A folder is stored whole or not at all, so one file that is
    too large is the loss of all that are deleted with its folder.
    """
    total, found = 0, set[str]()
    for path in sorted(displaced):
        sizes = displaced[path].values()
        size = sum(sizes)
        if size and (max(sizes) > MAX_COPIED_FILE_BYTES or total + size > MAX_COPIED_BYTES):
            found.add(path)
        else:
            total += size
    return found


def read_mount(descriptor: int) -> str:
    """Return the id of the mount that an open file is on; a rename between two mounts fails."""
    try:
        with open(f"/proc/self/fdinfo/{descriptor}", encoding="ascii") as info:
            return next((line for line in info if line.startswith("mnt_id")), "")
    except OSError:
        return ""
