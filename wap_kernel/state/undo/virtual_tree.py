"""The workspace as it would be after some changes are undone, without changing it.

A path below a folder that the store has is looked up there, and a folder that would be moved is looked up where it is.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace

from wap_kernel.files.contained.component_walk import FOLDER_FLAGS
from wap_kernel.files.contained.root import Root
from wap_kernel.model.changes import ABSENT, FileImage
from wap_kernel.model.paths import join_path
from wap_kernel.state.changes.image_store import ImageStore
from wap_kernel.state.changes.tree_manifest import make_image, take_image, walk_tree


@dataclass(frozen=True)
class Origin:
    """The entry that has the content now: a path of the workspace, or a name in the store."""

    path: str
    is_stored: bool = False

    def below(self, path: str) -> Origin:
        return replace(self, path=join_path(self.path, path))


@dataclass(frozen=True)
class VirtualEntry:
    """An entry of the virtual tree."""

    image: FileImage
    origin: Origin | None = None
    is_unknown: bool = False
    """True if a folder on the way is closed at present, so that nothing is known of the entry."""


NOTHING = VirtualEntry(ABSENT)


class VirtualTree:
    """The workspace at `root` with overrides of some paths."""

    def __init__(self, root: Root, store: ImageStore) -> None:
        self._root = root
        self._store = store
        self._entries: dict[str, VirtualEntry] = {}

    def find(self, path: str) -> VirtualEntry:
        """Return the entry at a path."""
        if path in self._entries:
            return self._entries[path]
        above = path
        while above not in ("", "."):
            above = above.rpartition("/")[0]
            entry = self._entries.get(above)
            if entry is None:
                continue
            if entry.image.kind != "folder" or entry.origin is None:
                return NOTHING
            return self._read(entry.origin.below(path[len(above) + 1 :]))
        return self._read(Origin(path))

    def _read(self, origin: Origin) -> VirtualEntry:
        try:
            if origin.is_stored:
                image = take_image(self._store.fd, origin.path)
            else:
                with self._root.locate(origin.path) as location:
                    image = take_image(location.fd, location.name)
        except (FileNotFoundError, NotADirectoryError):
            return NOTHING
        except OSError:
            return VirtualEntry(ABSENT, None, is_unknown=True)
        return NOTHING if image == ABSENT else VirtualEntry(image, origin)

    def walk(self, path: str) -> Iterator[tuple[str, FileImage]]:
        """Yield everything below a folder, by its path relative to the folder."""
        prefix = f"{path}/"
        overrides = {each[len(prefix) :]: entry for each, entry in self._entries.items() if each.startswith(prefix)}
        origin = self.find(path).origin
        if origin is not None:
            for below, image in self._walk_origin(origin):
                if not _is_overridden(below, overrides):
                    yield below, image
        for below, entry in overrides.items():
            if entry.image != ABSENT:
                yield below, entry.image
                if entry.origin is not None and entry.image.kind == "folder":
                    for further, image in self._walk_origin(entry.origin):
                        if not _is_overridden(f"{below}/{further}", overrides, than=below):
                            yield f"{below}/{further}", image

    def _walk_origin(self, origin: Origin) -> Iterator[tuple[str, FileImage]]:
        try:
            if origin.is_stored:
                folder, _, name = origin.path.rpartition("/")
                descriptor = os.open(folder or ".", FOLDER_FLAGS, dir_fd=self._store.fd)
            else:
                location = self._root.locate(origin.path)
                descriptor, name = location.fd, location.name
        except OSError:
            return
        try:
            for path, found, target in walk_tree(descriptor, name):
                yield path, make_image(found, target)
        except OSError:
            return
        finally:
            os.close(descriptor)

    # -- changes

    def put(self, path: str, entry: VirtualEntry) -> None:
        """Put an entry at a path, in the place of everything that is there and below."""
        for below in [each for each in self._entries if each.startswith(f"{path}/")]:
            del self._entries[below]
        self._entries[path] = entry

    def change(self, path: str, image: FileImage) -> None:
        """Change the image of an entry; what is below stays."""
        self._entries[path] = replace(self.find(path), image=image)

    def move(self, old: str, new: str) -> None:
        moved = self.find(old)
        below = {each[len(old) :]: entry for each, entry in self._entries.items() if each.startswith(f"{old}/")}
        self.put(old, NOTHING)
        self.put(new, moved)
        for rest, entry in below.items():
            self._entries[new + rest] = entry


def _is_overridden(path: str, overrides: dict[str, VirtualEntry], than: str = "") -> bool:
    """Return whether an override is at a path or above it, below the override `than`."""
    while path and path != than:
        if path in overrides:
            return True
        path = path.rpartition("/")[0]
    return False
