"""Open each folder once for all changes in it."""

from __future__ import annotations

import os

from wap_kernel.files.contained.component_walk import FOLDER_FLAGS, Location
from wap_kernel.files.contained.renames import temporary_name
from wap_kernel.files.contained.root import Root
from wap_kernel.state.changes.change_log import LoggedChange

_MAX_OPEN = 128


class FolderCache:
    """The open folders of a workspace and of trusted folders of the state; their locations need not be closed."""

    def __init__(self, root: Root) -> None:
        self._root = root
        self._folders: dict[tuple[bool, str], int] = {}

    def locate(self, path: str) -> Location:
        """Return the location of a real path of the workspace; raise OSError where a link or nothing is on the way."""
        if path == ".":
            return Location(self._root.fd, ".", ".")
        folder, _, name = path.rpartition("/")
        descriptor = self._folders.get((True, folder))
        if descriptor is None:
            descriptor = self._add((True, folder), self._root.locate(path).fd)
        return Location(descriptor, name, path)

    def open_staged(self, row: LoggedChange, target: Location) -> Location:
        """Return the location that the new entry of a change comes from."""
        if row.staged is None:
            return Location(target.fd, temporary_name(row.token), row.path)
        folder, name = os.path.split(row.staged)
        descriptor = self._folders.get((False, folder))
        if descriptor is None:
            descriptor = self._add((False, folder), os.open(folder, FOLDER_FLAGS))
        return Location(descriptor, name, row.path)

    def _add(self, key: tuple[bool, str], descriptor: int) -> int:
        if len(self._folders) >= _MAX_OPEN:
            oldest = next(iter(self._folders))
            os.close(self._folders.pop(oldest))
        self._folders[key] = descriptor
        return descriptor

    def clear(self) -> None:
        """Close all folders, for some have moved."""
        for descriptor in self._folders.values():
            os.close(descriptor)
        self._folders.clear()

    def __enter__(self) -> FolderCache:
        return self

    def __exit__(self, *_: object) -> None:
        self.clear()
