"""Compare the units of a command's changes with the workspace, and find conflicts before anything is changed."""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from wap_kernel.files.contained.component_walk import Location
from wap_kernel.model.changes import ABSENT, ChangeKind, FileImage
from wap_kernel.state.changes.apply_plan import ApplyUnit, is_within, list_parents, map_back
from wap_kernel.state.changes.folder_cache import FolderCache
from wap_kernel.state.changes.tree_manifest import TreeManifest, make_image, walk_tree


@dataclass(frozen=True)
class ComparedUnit:
    """A unit and what is at its path now, of a move: at its source; or the conflict there."""

    unit: ApplyUnit
    before: FileImage = ABSENT
    tree: TreeManifest | None = None
    """The manifest of a folder that is to be displaced."""
    conflicts: tuple[str, ...] = ()
    is_needless: bool = False
    """True if the workspace is as the command left it already, or the change is not worth a conflict."""


class Comparison:
    """Compares units. What changed after `began_ns` is a conflict, except below the paths in `overwrite`."""

    def __init__(
        self, folders: FolderCache, units: Sequence[ApplyUnit], began_ns: int, overwrite: Collection[str]
    ) -> None:
        self._folders = folders
        self._began_ns = began_ns
        self._overwrite = overwrite
        lifted = {unit.path: unit.change.source for unit in units if unit.is_helper and unit.change.source}
        self._moves = [
            replace(unit.change, source=lifted.get(str(unit.change.source), unit.change.source))
            for unit in units
            if unit.change.kind is ChangeKind.MOVED and not unit.is_helper
        ]
        self._sources = {str(move.source) for move in self._moves}

    def compare(self, unit: ApplyUnit) -> ComparedUnit:
        """Return what is at the unit's path now."""
        change = unit.change
        if change.kind is ChangeKind.MOVED:
            return self._compare_move(unit)
        if unit.is_helper and change.kind is ChangeKind.MODE:
            return ComparedUnit(unit, change.before)
        if unit.is_helper and change.kind is not ChangeKind.DELETED:
            return ComparedUnit(unit)
        if unit.is_helper and change.path.startswith(".wap-"):
            return ComparedUnit(unit, FileImage("folder", 0o700), TreeManifest({}))
        path = map_back(unit.path, self._moves)
        if path == unit.path and is_within(path, self._sources):  # what is there now is moved away first
            return self._compare_absent(unit)
        try:
            location = self._folders.locate(path)
            found = os.stat(location.name, dir_fd=location.fd, follow_symlinks=False)
        except OSError:
            return self._compare_absent(unit)
        target = os.readlink(location.name, dir_fd=location.fd) if stat.S_ISLNK(found.st_mode) else None
        return self._compare_found(unit, location, found, make_image(found, target))

    def _compare_absent(self, unit: ApplyUnit) -> ComparedUnit:
        change = unit.change
        if change.kind is ChangeKind.CREATED:
            return ComparedUnit(unit)
        if change.kind in (ChangeKind.DELETED, ChangeKind.TOUCHED):
            return ComparedUnit(unit, is_needless=True)
        if change.kind is ChangeKind.CHANGED and is_within(unit.path, self._overwrite):
            return ComparedUnit(replace(unit, change=replace(change, kind=ChangeKind.CREATED, before=ABSENT)))
        return ComparedUnit(unit, conflicts=(unit.path,))

    def _compare_found(
        self, unit: ApplyUnit, location: Location, found: os.stat_result, now: FileImage
    ) -> ComparedUnit:
        change = unit.change
        tree = None
        newer: list[str] = []
        if now.kind == "folder" and change.kind in (ChangeKind.CHANGED, ChangeKind.DELETED, ChangeKind.CREATED):
            tree, newer = self._read_tree(unit, location, found)
        if is_within(unit.path, self._overwrite):
            if change.kind is ChangeKind.CREATED:
                unit = replace(unit, change=replace(change, kind=ChangeKind.CHANGED))
            return ComparedUnit(unit, now, tree)
        match change.kind:
            case ChangeKind.CREATED:
                newer = [unit.path]
            case ChangeKind.MODE:
                newer = [] if (now.kind, now.mode) == (change.before.kind, change.before.mode) else [unit.path]
            case ChangeKind.TOUCHED:
                # All names of a file share its time.
                is_other = now.stamp != change.before.stamp or found.st_ctime_ns > self._began_ns
                is_needless = is_other or found.st_nlink > 1
                return ComparedUnit(unit, now, is_needless=is_needless)
            case _ if now.kind != "folder" or change.before.kind != "folder":
                is_old = _is_like(now, change.before) and found.st_ctime_ns <= self._began_ns
                newer = [] if is_old else [unit.path]
        return ComparedUnit(unit, now, tree, tuple(newer))

    def _compare_move(self, unit: ApplyUnit) -> ComparedUnit:
        source = str(next((move.source for move in self._moves if move.path == unit.path), unit.change.source))
        try:
            location = self._folders.locate(source)
            found = os.stat(location.name, dir_fd=location.fd, follow_symlinks=False)
        except OSError:
            return ComparedUnit(unit, conflicts=(source,))
        if not stat.S_ISDIR(found.st_mode):
            return ComparedUnit(unit, conflicts=(source,))
        return ComparedUnit(unit, make_image(found))

    def _read_tree(self, unit: ApplyUnit, location: Location, top: os.stat_result) -> tuple[TreeManifest, list[str]]:
        """Return the manifest of a folder, and what changed in it after the layer began.

        Folders count as well: one that was moved there since brings files that did not change.
        """
        images: dict[str, FileImage] = {}
        newer = {unit.path: True} if top.st_ctime_ns > self._began_ns else {}
        for path, found, target in walk_tree(location.fd, location.name):
            images[path] = make_image(found, target)
            if found.st_ctime_ns > self._began_ns:
                newer[f"{unit.path}/{path}"] = stat.S_ISDIR(found.st_mode)
        above = list_parents(path for path, is_folder in newer.items() if not is_folder)
        return TreeManifest(images), [path for path, is_folder in newer.items() if not (is_folder and path in above)]


def _is_like(now: FileImage, before: FileImage) -> bool:
    if now.kind != before.kind or now.target != before.target:
        return False
    return now.kind != "file" or now.stamp == before.stamp
