"""Make one logged change by a rename or an exchange, take it back, or find out after a crash whether it was made."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import replace

from wap_kernel.files.contained.atomic_write import change_mode
from wap_kernel.files.contained.component_walk import Location
from wap_kernel.files.contained.copies import made_movable, remove_entry
from wap_kernel.files.contained.renames import Exchange, rename_exclusive, spare_name, temporary_name
from wap_kernel.model.changes import ABSENT, ChangeKind, FileImage
from wap_kernel.state.changes.change_log import LoggedChange
from wap_kernel.state.changes.displacer import (
    ChangeConflict,
    Displacer,
    Gate,
    Step,
    is_stamped,
    locate_temporary,
    read_inode,
)
from wap_kernel.state.changes.image_store import ImageStore
from wap_kernel.state.changes.tree_manifest import TreeManifest, take_image


class ChangeMaker:
    """Makes changes, takes them back, and recovers them."""

    def __init__(self, store: ImageStore, gate: Gate, exchange: Exchange, step: Step) -> None:
        self._displacer = Displacer(store, gate, exchange, step)
        self._store = store
        self.gate = gate
        self._step = step

    def make(
        self,
        row: LoggedChange,
        target: Location,
        *,
        staged: Location | None = None,
        source: Location | None = None,
        is_strict: bool = True,
    ) -> LoggedChange:
        """Make a change, and return it with the images as they were found. `staged` has the new entry."""
        match row.change.kind:
            case ChangeKind.CREATED:
                assert staged is not None
                with self.gate.exclusive(row.path):
                    self._displacer.rename(staged, target, row.path)
            case ChangeKind.CHANGED:
                assert staged is not None
                row = self._displacer.replace(row, target, staged, is_strict)
            case ChangeKind.DELETED:
                row = self._displacer.delete(row, target, is_strict)
            case ChangeKind.MOVED:
                assert source is not None
                row = self._move(row, target, source)
            case ChangeKind.MODE:
                change_mode(target, row.change.after.mode or 0)
            case _:
                _set_time(target, row.change.after)
        self._step("made")
        return row

    def _move(self, row: LoggedChange, target: Location, source: Location) -> LoggedChange:
        with self.gate.exclusive(row.path, source.path):
            if row.change.before == ABSENT:
                self._displacer.rename(source, target, row.path)
                return row
            return self._displacer.replace(row, target, source, is_strict=False)

    def has_changed_since(self, row: LoggedChange) -> bool:
        """Return whether a program that had a displaced file open has written to it after the change."""
        return self._displacer.has_changed_since(row)

    # -- taking back

    def unmake(
        self,
        row: LoggedChange,
        target: Location,
        *,
        staged: Location | None = None,
        source: Location | None = None,
    ) -> None:
        """Take a change back that was made: the new entry goes back to `staged`, the displaced one to its path.

        Repeat what a crash interrupted, and do nothing where the change is taken back already.
        """
        before, after = row.change.before, row.change.after
        now = take_image(target.fd, target.name)
        with self.gate.exclusive(*{row.path, row.change.source or row.path}):
            match row.change.kind:
                case ChangeKind.CREATED:
                    assert staged is not None
                    if now != ABSENT:
                        self._unmake_created(row, target, staged)
                case ChangeKind.CHANGED:
                    assert staged is not None
                    self._unmake_changed(row, target, staged)
                case ChangeKind.DELETED:
                    if self._store.has(row.token):
                        stored = self._store.prepare(row.token, target, temporary_name(f"{row.token}-back"))
                        try:
                            self._displacer.rename_back(stored, target)
                        except FileExistsError:
                            raise ChangeConflict([row.path]) from None
                        self._forget_copy(stored, row)
                case ChangeKind.MOVED:
                    assert source is not None
                    if now != ABSENT:
                        self._displacer.rename(target, source, row.path)
                case ChangeKind.MODE:
                    if now.mode == after.mode:
                        change_mode(target, before.mode or 0)
                case _:
                    if is_stamped(now, after):
                        _set_time(target, before)
        self._step("unmade")

    def _unmake_changed(self, row: LoggedChange, target: Location, staged: Location) -> None:
        if not self._store.has(row.token):
            return
        if not is_stamped(take_image(self._store.fd, row.token), row.change.after):
            stored = self._store.prepare(row.token, target, temporary_name(f"{row.token}-back"))
            if not self._displacer.exchange_back(row, target, stored):
                if stored.fd != self._store.fd:
                    remove_entry(stored.fd, stored.name)
                raise ChangeConflict([row.path])
            self._step("exchanged back")
            _rename_if_there(stored, staged)
            self._forget_copy(stored, row)
        else:
            _rename_if_there(self._store.at(row.token), staged)

    def _unmake_created(self, row: LoggedChange, target: Location, staged: Location) -> None:
        self._displacer.rename(target, staged, row.path)
        image = take_image(staged.fd, staged.name)
        foreign = [] if is_stamped(image, row.change.after) else [row.path]
        if not foreign and row.tree is not None:
            now = TreeManifest.take(staged.fd, staged.name)
            foreign = [f"{row.path}/{path}" for path in row.tree.find_foreign(now)]
        if foreign:
            with suppress(FileExistsError):
                self._displacer.rename_back(staged, target)
            raise ChangeConflict(foreign)

    def _forget_copy(self, stored: Location, row: LoggedChange) -> None:
        if stored.fd != self._store.fd:
            self._store.remove(row.token)

    # -- recovery

    def recover(self, row: LoggedChange, target: Location, *, staged: Location, is_strict: bool) -> LoggedChange | None:
        """Return the change as it was made before a crash, with its last steps done; None if it was not made."""
        now, after = take_image(target.fd, target.name), row.change.after
        match row.change.kind:
            case ChangeKind.CREATED:
                is_made = is_stamped(now, after) or (after.stamp is None and now.kind == after.kind)
                return row.with_after(now) if is_made else None
            case ChangeKind.CHANGED:
                return self._recover_replace(row, target, staged, is_strict)
            case ChangeKind.DELETED:
                return self._recover_delete(row, target, is_strict)
            case ChangeKind.MOVED if row.change.before != ABSENT:
                return self._recover_replace(row, target, staged, is_strict=False)
            case ChangeKind.APPENDED:
                return _recover_append(row, now)
            case ChangeKind.MODE:
                return row if now.mode == after.mode else None
            case _:
                return row if is_stamped(now, after) else None

    def _recover_delete(self, row: LoggedChange, target: Location, is_strict: bool) -> LoggedChange | None:
        displaced, is_stored = locate_temporary(row, target), self._store.has(row.token)
        if is_stored and not self._store.is_near(target.fd):  # a copy, which is complete
            remove_entry(displaced.fd, displaced.name)
            return row
        if is_stored:
            displaced = self._store.at(row.token)
        if take_image(displaced.fd, displaced.name) == ABSENT:
            return None
        image = self._displacer.check_delete(row, target, displaced, is_strict)
        return self._displacer.finish_delete(row, target, displaced, image)

    def _recover_replace(
        self, row: LoggedChange, target: Location, staged: Location, is_strict: bool
    ) -> LoggedChange | None:
        if self._store.has(row.token):
            if not self._store.is_near(target.fd):  # a copy, which is complete
                remove_entry(staged.fd, staged.name)
                return row
            stored = take_image(self._store.fd, row.token)
            if not is_stamped(stored, row.change.after):
                return row.with_before(replace(stored, stored=row.token))
        self._finish_spare(row, target, staged)
        displaced = take_image(staged.fd, staged.name)
        if displaced == ABSENT or is_stamped(displaced, row.change.after):
            return None  # not exchanged yet, or exchanged back
        displaced = self._displacer.check_replace(row, target, staged, is_strict)
        return self._displacer.finish_replace(row, target, staged, displaced)

    def _finish_spare(self, row: LoggedChange, target: Location, staged: Location) -> None:
        """Finish an exchange that took several steps."""
        inode = read_inode(row.change.before)
        spare = spare_name(int(inode)) if inode else ""
        if not spare or take_image(target.fd, spare) == ABSENT:
            return
        now = take_image(target.fd, target.name)
        if now == ABSENT:
            rename_exclusive(target.fd, spare, target.fd, target.name)
        elif is_stamped(now, row.change.after):
            os.rename(spare, staged.name, src_dir_fd=target.fd, dst_dir_fd=staged.fd)
        else:
            os.unlink(spare, dir_fd=target.fd)


def _set_time(target: Location, image: FileImage) -> None:
    mtime = int((image.stamp or "0").rpartition(":")[2])
    atime = os.stat(target.name, dir_fd=target.fd, follow_symlinks=False).st_atime_ns
    os.utime(target.name, ns=(atime, mtime), dir_fd=target.fd, follow_symlinks=False)


def _rename_if_there(source: Location, target: Location) -> None:
    with suppress(FileNotFoundError), made_movable(source.fd, source.name):
        os.rename(source.name, target.name, src_dir_fd=source.fd, dst_dir_fd=target.fd)


def _recover_append(row: LoggedChange, now: FileImage) -> LoggedChange | None:
    """Return an append that a crash may have cut off as it is now; None if nothing was appended."""
    before = row.change.before
    if now.kind != "file" or now.stamp == before.stamp or read_inode(now) != read_inode(before):
        return None
    return row.with_after(now)
