"""Make the logged changes of a command one after the other; complete them after a crash, or roll them back."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

from wap_kernel.files.contained.copies import remove_entry
from wap_kernel.files.contained.renames import is_temporary, sync_filesystem
from wap_kernel.model.changes import ChangeKind
from wap_kernel.model.errors import NO_SPACE_ERRNOS, Conflict, NoSpace, WapError
from wap_kernel.state.changes.apply_plan import find_repository
from wap_kernel.state.changes.change_log import LoggedChange, PendingApply
from wap_kernel.state.changes.displacer import ChangeConflict
from wap_kernel.state.changes.folder_cache import FolderCache
from wap_kernel.state.changes.history import ChangeHistory
from wap_kernel.state.changes.staged_entries import list_staged_folders

LOCKED = 32
"""Changes up to which their paths are locked."""


class _RollBackNeeded(Exception):
    """A conflict after which nothing of the command may stay."""


class ApplyExecution:
    """The application of one command's changes, whose rows are in the log."""

    def __init__(self, history: ChangeHistory, pending: PendingApply, rows: Sequence[LoggedChange]) -> None:
        self._history = history
        self._pending = pending
        self._rows = rows
        self._done: dict[int, LoggedChange] = {row.id: row for row in rows if row.is_done}
        self._failed_groups: set[str] = set()
        self._interrupted: int | None = None
        """The change that met a full disk, which may have been made in part."""
        self.conflicts: list[str] = []
        # Folders that change places pass the same names several times, so each step has to be stored.
        self._is_crossing = any(row.change.kind is ChangeKind.MOVED and is_temporary_path(row.path) for row in rows)

    @property
    def done(self) -> list[LoggedChange]:
        return [self._done[row.id] for row in self._rows if row.id in self._done]

    def execute(self, *, is_recovery: bool = False) -> None:
        """Make all changes; raise NoSpace, with the workspace as before, where the disk is full."""
        try:
            if self._pending.is_rolled_back:
                raise _RollBackNeeded
            self._history.step("logged")
            with FolderCache(self._history.root) as folders:
                self._make_all(folders, is_recovery)
                sync_filesystem(self._history.root.fd)
                self._history.step("synced")
                self._check_late_writes(folders)
        except _RollBackNeeded:
            self._roll_back()
            return
        except OSError as error:
            self._roll_back()
            if error.errno in NO_SPACE_ERRNOS:
                raise NoSpace(
                    "No space left to apply what the command changed, so nothing was changed.",
                    hint="Free some space and try again.",
                ) from error
            raise
        self._remove_copies()
        self._history.log.end_apply(self._pending, self._altered(), self._not_done())
        self._history.step("finished")

    def _make_all(self, folders: FolderCache, is_recovery: bool) -> None:
        rows = [row for row in self._rows if row.id not in self._done]
        # A file operation on one of the paths shall wait instead of failing; for many paths the locks cost too much.
        locked = [row.path for row in rows] if len(rows) <= LOCKED else []
        try:
            with self._history.locks.hold(*locked):
                for row in rows:
                    self._make(row, folders, is_recovery)
        except Conflict:  # an operation does not release one of the paths
            for row in rows:
                if row.id not in self._done:
                    self._add_conflict(row, [row.path], folders)

    def _make(self, row: LoggedChange, folders: FolderCache, is_recovery: bool) -> None:
        group = find_repository(row.path)
        if group in self._failed_groups:
            return
        try:
            self._done[row.id] = self._make_row(row, folders, is_recovery)
        except ChangeConflict as conflict:
            if conflict.done is not None:
                self._done[row.id] = conflict.done
            self._add_conflict(row, conflict.paths, folders)
            return
        except Conflict:  # a save does not end
            self._add_conflict(row, [row.path], folders)
            return
        except OSError as error:
            if error.errno in NO_SPACE_ERRNOS:
                self._interrupted = row.id
                raise
            self._add_conflict(row, [row.path], folders)
            return
        if self._is_crossing:
            self._history.log.finish([self._done[row.id]], wait=True)
        if row.change.kind is ChangeKind.MOVED or "folder" in (row.change.before.kind, row.change.after.kind):
            folders.clear()

    def _make_row(self, row: LoggedChange, folders: FolderCache, is_recovery: bool) -> LoggedChange:
        maker = self._history.maker
        target = folders.locate(row.path)
        if row.change.kind is ChangeKind.MOVED:
            source = folders.locate(str(row.change.source))
            done = maker.recover(row, target, staged=source, is_strict=True) if is_recovery else None
            return done or maker.make(row, target, source=source)
        has_staged = row.change.kind in (ChangeKind.CREATED, ChangeKind.CHANGED)
        staged = folders.open_staged(row, target) if has_staged else target
        if is_recovery and row.change.kind not in (ChangeKind.MODE, ChangeKind.TOUCHED):
            done = maker.recover(row, target, staged=staged, is_strict=True)
            if done is not None:
                return done
        return maker.make(row, target, staged=staged)

    def _add_conflict(self, row: LoggedChange, paths: Sequence[str], folders: FolderCache) -> None:
        """Name a conflict, and take back what may not stay without the change that met it."""
        self.conflicts += [path for path in paths if not is_temporary_path(path)]
        if self._pending.is_atomic or row.change.kind is ChangeKind.MOVED or self._is_crossing:
            raise _RollBackNeeded
        group = find_repository(row.path)
        if group is not None:
            self._failed_groups.add(group)
            own = [each for each in self._rows if each.id in self._done and find_repository(each.path) == group]
            for each in reversed(own):
                self._unmake(each, folders)

    def _check_late_writes(self, folders: FolderCache) -> None:
        """Put files back that another program had open and wrote to after they were displaced."""
        for row in self.done:
            if self._history.maker.has_changed_since(row):
                self._unmake(row, folders)
                self._add_conflict(row, [row.path], folders)

    def _unmake(self, row: LoggedChange, folders: FolderCache) -> None:
        """Take a change back; one that another program has changed on top of stays and is named."""
        made = self._done[row.id]
        try:
            target = folders.locate(row.path)
            source = folders.locate(str(row.change.source)) if row.change.source is not None else None
            staged = folders.open_staged(row, target) if source is None and row.change.kind in _STAGED else None
            self._history.maker.unmake(made, target, staged=staged, source=source)
        except ChangeConflict as conflict:
            self.conflicts += conflict.paths
            return
        except OSError:
            self.conflicts.append(row.path)
            return
        del self._done[row.id]
        if self._is_crossing:
            self._history.log.finish([], [row], wait=True)
        if "folder" in (row.change.before.kind, row.change.after.kind):
            folders.clear()

    def _roll_back(self) -> None:
        """Take everything back, the last change first."""
        with suppress(WapError):  # a full disk: then a crash before the end would lead to all instead of nothing
            self._history.log.roll_back(self._pending)
        self._history.step("rolling back")
        with FolderCache(self._history.root) as folders:
            for row in reversed(self._rows):
                if row.id not in self._done and (made := self._find_made(row, folders)) is not None:
                    self._done[row.id] = made
                if row.id in self._done:
                    self._unmake(row, folders)
        with suppress(OSError):
            sync_filesystem(self._history.root.fd)
        self._remove_copies()
        with suppress(WapError):
            self._history.log.end_apply(self._pending, self._altered(), self._not_done())

    def _find_made(self, row: LoggedChange, folders: FolderCache) -> LoggedChange | None:
        """Return a change that was made before a crash, or before the disk was full."""
        if not self._pending.is_rolled_back and row.id != self._interrupted:
            return None
        if row.change.kind is ChangeKind.CHANGED and self._history.store.has(row.token):
            return row.with_before(replace(row.change.before, stored=row.token))
        try:
            target = folders.locate(row.path)
            staged = folders.open_staged(row, target) if row.change.kind in _STAGED else target
            return self._history.maker.recover(row, target, staged=staged, is_strict=False)
        except (OSError, ChangeConflict):
            return None

    def _altered(self) -> list[LoggedChange]:
        """Return the changes that were made otherwise than they are logged."""
        made = ((row, self._done[row.id]) for row in self._rows if row.id in self._done)
        return [done for row, done in made if done.change != row.change]

    def _not_done(self) -> list[LoggedChange]:
        return [row for row in self._rows if row.id not in self._done]

    def _remove_copies(self) -> None:
        root = self._history.root
        folders = list_staged_folders((row.staged for row in self._rows), root)
        if folders:  # a recovery that does not find them has to know that it need not
            with suppress(WapError):
                self._history.log.finish(self.done, wait=True)
        for name in folders:
            with suppress(OSError):
                remove_entry(root.fd, name)
                self._history.step("copies removed")
        for row in self._not_done():
            if row.staged is not None and row.staged.endswith(".new"):
                with suppress(OSError):
                    os.rmdir(row.staged)


_STAGED = (ChangeKind.CREATED, ChangeKind.CHANGED)


def is_temporary_path(path: str) -> bool:
    return any(is_temporary(name) for name in path.split("/"))
