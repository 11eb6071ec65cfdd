"""The history of a workspace's changes: the log, the store of before-images, and those who write them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from wap_kernel.files.contained.component_walk import FOLDER_FLAGS, Location
from wap_kernel.files.contained.copies import remove_entry
from wap_kernel.files.contained.renames import temporary_name
from wap_kernel.files.contained.root import Root
from wap_kernel.files.interface import Guard, Locks, NullGuard
from wap_kernel.model.changes import ChangeKind, ChangeSet
from wap_kernel.state.changes.change_log import ChangeLog, LoggedChange
from wap_kernel.state.changes.displacer import ChangeConflict, Gate
from wap_kernel.state.changes.image_store import ImageStore, select_unkept
from wap_kernel.state.changes.maker import ChangeMaker
from wap_kernel.state.changes.recorder import ChangeRecorder
from wap_kernel.state.changes.tree_manifest import TreeManifest, take_image
from wap_kernel.state.database import Database


@dataclass(frozen=True)
class RecoveredChanges:
    """The steps whose unfinished changes were completed or dropped after a crash, and the paths that were left."""

    positions: tuple[int, ...] = ()
    conflicts: tuple[str, ...] = ()
    """Paths that others have changed since; of an atomic application with one of them nothing stays applied."""


class ChangeHistory:
    """Opens the log and the store of one workspace. No guard applies: the callers' guards are checked elsewhere.

    `step` is called after each step that a crash could follow; tests stop there.
    """

    def __init__(
        self,
        root: Root,
        database: Database,
        state_dir: str,
        locks: Locks,
        gate: Gate,
        *,
        step: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.root = root.guarded_by(NullGuard())
        self.state_dir = state_dir
        self.locks = locks
        self.log = ChangeLog(database)
        self.store = ImageStore(state_dir, database)
        self.maker = ChangeMaker(self.store, gate, root.exchange, step)
        self.step = step

    def close(self) -> None:
        self.store.close()

    def record(self, run: str, position: int, *, allows_loss: bool = False, is_synced: bool = True) -> ChangeRecorder:
        """Return the recorder of one operation. `root.guarded_by(guard).recording(recorder)` are its files.

        With `allows_loss`, what is too large for the store is displaced all the same: a person has approved that.
        """
        return ChangeRecorder(
            self.log,
            self.store,
            self.maker,
            self.root.journal,
            self.step,
            run,
            position,
            allows_loss=allows_loss,
            is_synced=is_synced,
        )

    def open_files(self, guard: Guard, run: str, position: int, *, allows_loss: bool = False) -> Root:
        """Return the files of one operation, whose changes are recorded."""
        return self.root.guarded_by(guard).recording(self.record(run, position, allows_loss=allows_loss))

    def find_unkept(self, changes: ChangeSet) -> list[str]:
        """Return the files whose before-images would exceed the limits; none where the store takes them by a rename."""
        if self.store.is_near(self.root.fd):
            return []
        displaced = _group_displaced(changes)
        return [path for unkept in sorted(select_unkept(displaced)) for path in displaced[unkept]]

    def find_unkept_at(self, path: str) -> list[str]:
        """Return the files at a path and below it whose before-images would exceed the limits, if it is displaced."""
        if self.store.is_near(self.root.fd):
            return []
        try:
            with self.root.locate(path) as location:
                image, tree = take_image(location.fd, location.name), TreeManifest.take(location.fd, location.name)
        except OSError:
            return []
        files = {f"{path}/{below}": each.size or 0 for below, each in tree.images.items() if each.kind == "file"}
        if image.kind == "file":
            files = {path: image.size or 0}
        return list(files) if select_unkept({path: files}) else []

    def has_changes(self, run: str, position: int | None = None) -> bool:
        """Return whether anything of what a run, or its step at a position, changed is recorded."""
        return any(position in (None, row.position) for row in self.log.read(run))

    # -- recovery

    def recover(self, run: str) -> RecoveredChanges:
        """Complete or drop the unfinished changes of a run whose process died.

        A ChangeSet whose application had begun is applied to its end, or not at all where the run is atomic and meets a
        conflict.
        """
        from wap_kernel.state.changes.applier import ChangeApplier  # which needs the history

        applied = ChangeApplier(self).recover(run)
        return replace(applied, positions=tuple(sorted({*applied.positions, *self._recover_operations(run)})))

    def _recover_operations(self, run: str) -> list[int]:
        rows = self.log.read_unfinished(run)
        for row in rows:
            done = self.recover_row(replace(row, tree=self.log.read_tree(row)))
            self.log.finish([done] if done else [], [] if done else [row])
        return sorted({row.position for row in rows})

    def recover_row(self, row: LoggedChange) -> LoggedChange | None:
        """Return a change as it was made before a crash; None if it was not made, and then nothing is left of it."""
        try:
            target = self.root.locate(row.path)
        except (FileNotFoundError, NotADirectoryError):
            return None
        with target, self.open_staged(row, target) as staged:
            try:
                done = self.maker.recover(row, target, staged=staged, is_strict=True)
            except ChangeConflict as conflict:
                done = conflict.done
            if done is None and row.staged is None and row.change.source is None:
                remove_entry(target.fd, temporary_name(row.token))
            return done

    @contextmanager
    def open_staged(self, row: LoggedChange, target: Location) -> Iterator[Location]:
        """Yield the location that the new entry of a change comes from."""
        if row.change.source is not None:
            with self.root.locate(row.change.source) as source:
                yield source
        elif row.staged is None:
            yield Location(target.fd, temporary_name(row.token), row.path)
        else:
            folder, name = os.path.split(row.staged)
            descriptor = os.open(folder, FOLDER_FLAGS)
            try:
                yield Location(descriptor, name, row.path)
            finally:
                os.close(descriptor)


def _group_displaced(changes: ChangeSet) -> dict[str, dict[str, int]]:
    """Return the sizes of the files that are replaced or deleted, by the topmost folder that goes with them.

    A ChangeSet has folders before what lies below them.
    """
    found: dict[str, dict[str, int]] = {}
    folder: str | None = None
    for change in changes:
        if change.kind not in (ChangeKind.CHANGED, ChangeKind.DELETED):
            continue
        is_below = folder is not None and change.path.startswith(f"{folder}/")
        if change.before.kind == "folder" and not is_below:
            folder = change.path
        elif change.before.kind == "file":
            found.setdefault(folder if is_below and folder else change.path, {})[change.path] = change.before.size or 0
    return found
