"""Find out what a revert would do, by undoing the log of a run backwards on a virtual tree. Nothing is changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from wap_kernel.files.interface import Guard
from wap_kernel.model.changes import ABSENT, ChangeKind, FileImage
from wap_kernel.model.command import Deadline
from wap_kernel.model.errors import PermissionDenied
from wap_kernel.model.paths import Access, join_path
from wap_kernel.state.changes.change_log import LoggedChange
from wap_kernel.state.changes.history import ChangeHistory
from wap_kernel.state.changes.image_store import ImageStore
from wap_kernel.state.changes.tree_manifest import TreeManifest
from wap_kernel.state.undo.virtual_tree import NOTHING, Origin, VirtualEntry, VirtualTree

GIT = ".git"


@dataclass
class RevertSurvey:
    """The changes of a run that stand, and what a revert of them meets."""

    rows: Sequence[LoggedChange]
    """The changes that a revert undoes, the first one first."""
    tree: VirtualTree
    """The workspace as it would be after the revert."""
    conflicts: list[str] = field(default_factory=list)
    """Paths that others have changed since."""
    lost: list[str] = field(default_factory=list)
    """Paths whose content before the run is not stored any more."""
    refused: list[str] = field(default_factory=list)
    """Paths that the caller may not change."""
    undone: set[str] = field(default_factory=set)
    """Paths that the revert would change."""
    skipped: set[int] = field(default_factory=set)
    """Changes that a revert does not undo: lost, refused, or undone by others already."""


class Surveyor:
    """Surveys one revert."""

    def __init__(self, history: ChangeHistory, rows: Sequence[LoggedChange], deadline: Deadline) -> None:
        self._history = history
        self._store = history.store
        self._deadline = deadline
        self._tree = VirtualTree(history.root, history.store)
        self._survey = RevertSurvey(rows, self._tree)
        self._displaced: dict[str, Origin] = {}
        """Origins of what the revert displaces itself, by stamp."""

    def survey(self, guard: Guard | None, *, force: bool = False) -> RevertSurvey:
        """Return the survey. The caller's `guard` has a say in what the run did not create itself."""
        for row in reversed(self._survey.rows):
            self._deadline.check()
            known = len(self._survey.conflicts)
            is_undone = self._undo(row)
            # What the run itself made is removed whatever policy says: that shows nothing. A person may have all of it
            # put back, but nothing that others have changed since.
            is_own = (force or row.change.before == ABSENT) and len(self._survey.conflicts) == known
            if guard is not None and is_undone and self._is_refused(row, guard, is_own):
                self._survey.refused.append(row.path)
                is_undone = False
            if is_undone:
                self._survey.undone.add(row.path)
            else:
                self._survey.skipped.add(row.id)
        survey = self._survey
        survey.conflicts = sorted(set(survey.conflicts))
        survey.lost = sorted(set(survey.lost))
        survey.refused = sorted(set(survey.refused))
        return survey

    def _undo(self, row: LoggedChange) -> bool:
        """Undo a change on the virtual tree; return False if there is nothing to undo, or it cannot be."""
        change = row.change
        now = self._tree.find(change.path)
        match change.kind:
            case ChangeKind.CREATED:
                return self._undo_created(row, now)
            case ChangeKind.CHANGED | ChangeKind.DELETED:
                return self._undo_displaced(row, now)
            case ChangeKind.MOVED:
                return self._undo_moved(row, now)
            case ChangeKind.APPENDED:
                return self._undo_appended(row, now)
            case ChangeKind.MODE:
                return self._undo_mode(row, now)
            case _:
                if now.image.kind != "file" or not self._store.has_same_content(now.image, change.after):
                    return False
                self._tree.change(change.path, replace(now.image, stamp=change.before.stamp))
                return True

    def _undo_created(self, row: LoggedChange, now: VirtualEntry) -> bool:
        if now.image == ABSENT and not now.is_unknown:
            return False
        self._check_expected(row, now)
        self._displace(row.path, now)
        self._tree.put(row.path, NOTHING)
        return True

    def _undo_displaced(self, row: LoggedChange, now: VirtualEntry) -> bool:
        before = row.change.before
        if not now.is_unknown and is_restored(self._store, now.image, before):
            manifest = self._history.log.read_tree(row) if before.kind == "folder" else None
            if manifest is None or has_same_files(self._store, manifest, dict(self._tree.walk(row.path))):
                return False
        self._check_expected(row, now)
        return self._restore(row, now)

    def _restore(self, row: LoggedChange, now: VirtualEntry) -> bool:
        before = row.change.before
        origin = self._find_origin(before)
        if origin is None and before.kind != "link":
            self._survey.lost.append(row.path)
            return False
        self._displace(row.path, now)
        self._tree.put(row.path, VirtualEntry(replace(before, stored=None), origin))
        return True

    def _undo_moved(self, row: LoggedChange, now: VirtualEntry) -> bool:
        path, source, after = row.path, str(row.change.source), row.change.after
        old = self._tree.find(source)
        if now.image == ABSENT and old.image.kind == after.kind:
            return False  # others have moved it back
        is_same = now.image.kind == after.kind and (after.kind != "file" or self._store.is_same(now.image, after))
        if not is_same or old.image != ABSENT:
            self._survey.conflicts.append(path if not is_same else source)
            if now.image == ABSENT:
                return False
        self._tree.move(path, source)
        self._survey.undone.add(source)
        return row.change.before == ABSENT or self._restore(row, NOTHING)

    def _undo_appended(self, row: LoggedChange, now: VirtualEntry) -> bool:
        before, after = row.change.before, row.change.after
        if self._store.is_same(now.image, before):
            return False
        if after.stamp is None or not self._store.is_same(now.image, after):
            self._survey.conflicts.append(row.path)
            self._survey.lost.append(row.path)
            return False
        self._tree.change(row.path, before)
        return True

    def _undo_mode(self, row: LoggedChange, now: VirtualEntry) -> bool:
        before, after = row.change.before, row.change.after
        if now.image.kind == before.kind and now.image.mode == before.mode:
            return False
        if now.image.kind != after.kind or now.image.mode != after.mode:
            self._survey.conflicts.append(row.path)
            if now.image == ABSENT:
                return False
        self._tree.change(row.path, replace(now.image, mode=before.mode))
        return True

    # -- parts

    def _check_expected(self, row: LoggedChange, now: VirtualEntry) -> None:
        """Name the paths that are not as the change left them."""
        if now.is_unknown:
            return
        after = row.change.after
        if not self._store.is_same(now.image, after):
            self._survey.conflicts.append(row.path)
        elif now.image.kind == "folder":
            manifest = self._history.log.read_tree(row)
            if manifest is None:
                return
            for path, image in self._tree.walk(row.path):
                known = manifest.images.get(path)
                if image.kind != "folder" and (known is None or not self._store.is_same(image, known)):
                    self._survey.conflicts.append(join_path(row.path, path))

    def _displace(self, path: str, entry: VirtualEntry) -> None:
        if entry.image.stamp is not None and entry.origin is not None:
            self._displaced[entry.image.stamp] = entry.origin

    def _find_origin(self, image: FileImage) -> Origin | None:
        name = self._store.find(image)
        if name is not None:
            return Origin(name, is_stored=True)
        return None if image.stamp is None else self._displaced.get(image.stamp)

    # -- policy

    def _is_refused(self, row: LoggedChange, guard: Guard, is_own: bool) -> bool:
        paths = [row.path] if row.change.source is None else [row.path, row.change.source]
        if all(map(_lies_in_git, paths)):
            return False  # closed to the file tools: a command wrote it, and policy judged that when it was applied
        is_folder = row.change.before.kind == "folder"
        if any(is_refused(guard, path, folder=is_folder, is_own=is_own) for path in paths):
            return True
        if row.change.kind is ChangeKind.CREATED and row.change.after.kind == "folder":
            return _holds_protected(guard, row.path)
        if row.change.kind in (ChangeKind.DELETED, ChangeKind.CHANGED) and is_folder:
            manifest = self._history.log.read_tree(row)
            below = {} if manifest is None else manifest.images
            return any(
                is_refused(guard, join_path(row.path, path), folder=image.kind == "folder", is_own=is_own)
                for path, image in below.items()
            )
        return False


def is_restored(store: ImageStore, now: FileImage, before: FileImage) -> bool:
    """Return whether a path is as it was before a change already; another folder of the same name is not."""
    if now == ABSENT or not store.is_same(now, before):
        return False
    return now.kind != "folder" or now.stamp == before.stamp


def has_same_files(store: ImageStore, manifest: TreeManifest, images: Mapping[str, FileImage]) -> bool:
    """Return whether a folder has the files of a manifest: a new folder may have the inode of one that was deleted."""
    now, before = (
        {path: image for path, image in found.items() if image.kind != "folder"} for found in (images, manifest.images)
    )
    return now.keys() == before.keys() and all(store.is_same(image, before[path]) for path, image in now.items())


def is_refused(guard: Guard, path: str, *, folder: bool, is_own: bool) -> bool:
    """Return whether a guard refuses to change a path; of what is the run's own, only protection refuses."""
    try:
        guard.check(path, Access.WRITE, folder=folder)
    except PermissionDenied as error:
        return not is_own or error.details.get("rule") == "protected"
    return False


def _lies_in_git(path: str) -> bool:
    return GIT in path.casefold().split("/")


def _holds_protected(guard: Guard, path: str) -> bool:
    try:
        guard.check_tree(path)
    except PermissionDenied as error:
        return error.details.get("rule") == "protected"
    return False
