"""Fold the log of a run into one change for each path, from its first image to its last. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from wap_kernel.files.contained.renames import is_temporary
from wap_kernel.model.changes import ABSENT, ChangeKind, FileImage
from wap_kernel.model.paths import join_path
from wap_kernel.state.changes.change_log import LoggedChange
from wap_kernel.state.changes.tree_manifest import TreeManifest

ReadTree = Callable[[LoggedChange], TreeManifest | None]


@dataclass(frozen=True)
class NetChange:
    """A path before and after a run."""

    path: str
    before: FileImage
    after: FileImage
    source: str | None = None
    """The path that a moved file or folder had before."""

    @property
    def kind(self) -> str:
        """Return the kind of the change, as events name it."""
        before, after = self.before, self.after
        if self.source is not None:
            return "moved"
        if before.kind == "absent":
            return "folder created" if after.kind == "folder" else "created"
        if after.kind == "absent":
            return "folder deleted" if before.kind == "folder" else "deleted"
        if "link" in (before.kind, after.kind):
            return "link"
        if before.kind == after.kind and before.stamp == after.stamp and before.mode != after.mode:
            return "mode"
        return "modified"

    def turn_back(self, now: FileImage) -> NetChange:
        """Return the change that a revert makes of the path, which is `now`."""
        return NetChange(self.path, now, self.before)


def fold_changes(rows: Iterable[LoggedChange], read_tree: ReadTree) -> list[NetChange]:
    """Return one change for each path that differs, by path."""
    found: dict[str, NetChange] = {}
    for row in rows:
        change = row.change
        if change.kind is ChangeKind.TOUCHED:
            continue
        if change.kind is ChangeKind.MOVED:
            _fold_move(found, str(change.source), change.path, change.before, change.after)
            continue
        manifest = read_tree(row) if "folder" in (change.before.kind, change.after.kind) else None
        below = {} if manifest is None else manifest.images
        if change.before.kind == "folder" and change.after.kind != "folder":
            for path, image in below.items():
                stored = None if change.before.stored is None else join_path(change.before.stored, path)
                _add(found, join_path(change.path, path), replace(image, stored=stored), ABSENT)
        _add(found, change.path, change.before, change.after)
        if change.after.kind == "folder" and change.kind is not ChangeKind.MODE:
            for path, image in below.items():
                _add(found, join_path(change.path, path), ABSENT, image)
    return [found[path] for path in sorted(found) if not _is_temporary_path(path)]


def _add(found: dict[str, NetChange], path: str, before: FileImage, after: FileImage) -> None:
    first = found.get(path)
    new = NetChange(path, before, after) if first is None else replace(first, after=after)
    if new.source is None and new.before.is_like(new.after):
        found.pop(path, None)
    else:
        found[path] = new


def _fold_move(found: dict[str, NetChange], source: str, path: str, before: FileImage, after: FileImage) -> None:
    """Carry the changes at and below `source` over to `path`."""
    if before != ABSENT:
        _add(found, path, before, ABSENT)
    carried = {each: found.pop(each) for each in list(found) if each == source or each.startswith(f"{source}/")}
    for each, change in carried.items():
        new = path + each[len(source) :]
        if new not in found:
            found[new] = replace(change, path=new)
    own = carried.get(source)
    if own is None or own.before != ABSENT:
        origin = own.source if own is not None and own.source is not None else source
        overwritten = found.get(path)
        found[path] = NetChange(path, before, after, None if origin == path else origin)
        if overwritten is not None and overwritten.before != ABSENT:
            found[path] = replace(found[path], before=overwritten.before)
        if origin == path:
            del found[path]


def _is_temporary_path(path: str) -> bool:
    return any(is_temporary(name) for name in path.split("/"))
