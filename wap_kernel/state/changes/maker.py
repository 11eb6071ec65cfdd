"""Make one logged change, take it back, or find out after a crash whether it was made.

Each change is one rename or exchange. Whatever is displaced is compared with what was expected *after* that step: what
another program saved at any moment before is then in our hands, and goes back to its name. No save is ever lost.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from typing import Protocol

from wap_kernel.files.contained.atomic_write import change_mode
from wap_kernel.files.contained.component_walk import Location
from wap_kernel.files.contained.copies import made_movable, remove_entry
from wap_kernel.files.contained.renames import Exchange, rename_exclusive, spare_name, temporary_name
from wap_kernel.model.changes import ABSENT, ChangeKind, FileImage
from wap_kernel.state.changes.change_log import LoggedChange
from wap_kernel.state.changes.image_store import ImageStore
from wap_kernel.state.changes.tree_manifest import TreeManifest, take_image

Step = Callable[[str], None]


class Gate(Protocol):
    """The part of `SaveGate` that keeps a person's saves away from the last lstat and the rename."""

    def exclusive(self, *paths: str) -> AbstractContextManager[None]: ...


class ChangeConflict(Exception):
    """Another program has changed the paths meanwhile.

    The change was not made, except where `done` is given: then the other program has saved twice, its first version is
    in the store, and its second one is at the path.
    """

    def __init__(self, paths: Sequence[str], done: LoggedChange | None = None) -> None:
        super().__init__(*paths)
        self.paths = list(paths)
        self.done = done


class ChangeMaker:
    """Makes changes. A row's `before` is the image expected at its path; with `is_strict`, it has to be there."""

    def __init__(self, store: ImageStore, gate: Gate, exchange: Exchange, step: Step) -> None:
        self._store = store
        self.gate = gate
        self._exchange = exchange
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
                    self._rename(staged, target, row.path)
            case ChangeKind.CHANGED:
                assert staged is not None
                row = self._replace(row, target, staged, is_strict)
            case ChangeKind.DELETED:
                row = self._delete(row, target, is_strict)
            case ChangeKind.MOVED:
                assert source is not None
                row = self._move(row, target, source)
            case ChangeKind.MODE:
                change_mode(target, row.change.after.mode or 0)
            case _:
                _set_time(target, row.change.after)
        self._step("made")
        return row

    def _rename(self, source: Location, target: Location, path: str) -> None:
        try:
            with made_movable(source.fd, source.name):
                rename_exclusive(source.fd, source.name, target.fd, target.name)
        except (FileExistsError, FileNotFoundError):
            raise ChangeConflict([path]) from None

    def _move(self, row: LoggedChange, target: Location, source: Location) -> LoggedChange:
        with self.gate.exclusive(row.path, source.path):
            if row.change.before == ABSENT:
                self._rename(source, target, row.path)
                return row
            return self._replace(row, target, source, is_strict=False)

    def _replace(self, row: LoggedChange, target: Location, staged: Location, is_strict: bool) -> LoggedChange:
        with self.gate.exclusive(row.path):
            try:
                with made_movable(staged.fd, staged.name), made_movable(target.fd, target.name):
                    self._exchange(staged.fd, staged.name, target.fd, target.name)
            except FileNotFoundError:
                raise ChangeConflict([row.path]) from None
            self._step("exchanged")
            displaced = self._check_replace(row, target, staged, is_strict)
        return self._finish_replace(row, target, staged, displaced)

    def _check_replace(self, row: LoggedChange, target: Location, staged: Location, is_strict: bool) -> FileImage:
        """Return what an exchange displaced; put it back and raise if it was not expected."""
        displaced = take_image(staged.fd, staged.name)
        foreign = self._find_foreign(row, displaced, staged, is_strict)
        if foreign:
            self._refuse_replace(row, target, staged, displaced, foreign)
        return displaced

    def _finish_replace(
        self, row: LoggedChange, target: Location, staged: Location, displaced: FileImage
    ) -> LoggedChange:
        try:
            return self._store_displaced(row, displaced, staged)
        except OSError:
            if self._exchange_back(row, target, staged):
                self._remove_copy(row, target)
            raise
        except ChangeConflict as conflict:
            self._refuse_replace(row, target, staged, displaced, conflict.paths)
            raise

    def _remove_copy(self, row: LoggedChange, target: Location) -> None:
        """Remove a copy from the store whose original is at its path again."""
        if not self._store.is_near(target.fd):
            self._store.remove(row.token)

    def _refuse_replace(
        self, row: LoggedChange, target: Location, staged: Location, displaced: FileImage, foreign: list[str]
    ) -> None:
        if self._exchange_back(row, target, staged):
            raise ChangeConflict(foreign)
        raise ChangeConflict(foreign, self._store_displaced(row, displaced, staged, is_checked=False))

    def _exchange_back(self, row: LoggedChange, target: Location, displaced: Location) -> bool:
        """Put the displaced entry back; return False if another program has replaced the new one meanwhile."""
        try:
            self._exchange(displaced.fd, displaced.name, target.fd, target.name)
        except FileNotFoundError:  # the new one has been deleted meanwhile
            with suppress(FileExistsError):
                rename_exclusive(displaced.fd, displaced.name, target.fd, target.name)
                return True
            return False
        if is_stamped(take_image(displaced.fd, displaced.name), row.change.after):
            return True
        self._exchange(displaced.fd, displaced.name, target.fd, target.name)
        return False

    def _delete(self, row: LoggedChange, target: Location, is_strict: bool) -> LoggedChange:
        with self.gate.exclusive(row.path):
            try:
                displaced = self._take_away(row, target)
            except FileNotFoundError:
                raise ChangeConflict([row.path]) from None
            self._step("taken away")
            if displaced is None:
                return self._copy_away(row, target)
            image = self._check_delete(row, target, displaced, is_strict)
        return self._finish_delete(row, target, displaced, image)

    def _take_away(self, row: LoggedChange, target: Location) -> Location | None:
        """Rename an entry away, and return where it is; None where the filesystem renames no such folder."""
        near = self._store.is_near(target.fd)
        displaced = self._store.at(row.token) if near else _beside(row, target)
        try:
            with made_movable(target.fd, target.name):
                os.rename(target.name, displaced.name, src_dir_fd=target.fd, dst_dir_fd=displaced.fd)
        except OSError as error:
            if error.errno != errno.EXDEV or row.change.before.kind != "folder":
                raise
            return None
        return displaced

    def _copy_away(self, row: LoggedChange, target: Location) -> LoggedChange:
        """Copy a folder into the store and remove it, where overlayfs cannot rename it."""
        image = take_image(target.fd, target.name)
        if row.change.before.stored is not None:
            self._store.copy(target, row.token, row.run)
            if row.tree is not None:
                foreign = row.tree.find_foreign(TreeManifest.take(target.fd, target.name))
                if foreign:
                    self._store.remove(row.token)
                    raise ChangeConflict([f"{row.path}/{path}" for path in foreign])
        remove_entry(target.fd, target.name)
        return row.with_before(replace(image, stored=row.change.before.stored))

    def _check_delete(self, row: LoggedChange, target: Location, displaced: Location, is_strict: bool) -> FileImage:
        image = take_image(displaced.fd, displaced.name)
        foreign = self._find_foreign(row, image, displaced, is_strict)
        if foreign:
            self._refuse_delete(row, target, displaced, image, foreign)
        return image

    def _finish_delete(
        self, row: LoggedChange, target: Location, displaced: Location, image: FileImage
    ) -> LoggedChange:
        try:
            return self._store_displaced(row, image, displaced)
        except OSError:
            self._rename_back(displaced, target)
            self._remove_copy(row, target)
            raise
        except ChangeConflict as conflict:
            self._refuse_delete(row, target, displaced, image, conflict.paths)
            raise

    def _refuse_delete(
        self, row: LoggedChange, target: Location, displaced: Location, image: FileImage, foreign: list[str]
    ) -> None:
        try:
            self._rename_back(displaced, target)
        except FileExistsError:  # another program has saved the path anew
            done = self._store_displaced(row, image, displaced, is_checked=False)
            raise ChangeConflict(foreign, done) from None
        raise ChangeConflict(foreign)

    def _rename_back(self, displaced: Location, target: Location) -> None:
        with made_movable(displaced.fd, displaced.name):
            rename_exclusive(displaced.fd, displaced.name, target.fd, target.name)

    def _store_displaced(
        self, row: LoggedChange, image: FileImage, displaced: Location, *, is_checked: bool = True
    ) -> LoggedChange:
        """Move a displaced entry into the store; raise ChangeConflict if a program wrote to it while it was copied."""
        if row.change.before.stored is None:  # a person has approved that it is lost
            remove_entry(displaced.fd, displaced.name)
            return row.with_before(image)
        if (displaced.fd, displaced.name) != (self._store.fd, row.token):
            now = self._store.take(displaced, row.token, row.run)
            if (now.fd, now.name) == (displaced.fd, displaced.name):
                if is_checked and not image.is_like(take_image(displaced.fd, displaced.name)):
                    self._store.remove(row.token)
                    raise ChangeConflict([row.path])
                self._step("copied")
                remove_entry(displaced.fd, displaced.name)
        self._step("stored")
        return row.with_before(replace(image, stored=row.token))

    def _find_foreign(self, row: LoggedChange, displaced: FileImage, at: Location, is_strict: bool) -> list[str]:
        """Return the paths that another program has changed in what was displaced."""
        before = row.change.before
        if displaced.kind != before.kind:
            return [row.path]
        if not is_strict:
            return []
        if displaced.kind != "folder":
            is_expected = displaced.target == before.target and displaced.stamp == before.stamp
            return [] if is_expected else [row.path]
        expected = row.tree if row.change.after.kind != "folder" else row.displaced
        if expected is None:
            return []
        return [f"{row.path}/{path}" for path in expected.find_foreign(TreeManifest.take(at.fd, at.name))]

    def has_changed_since(self, row: LoggedChange) -> bool:
        """Return whether a program that had a displaced file open has written to it after the change."""
        before = row.change.before
        if before.kind != "file" or before.stored is None:
            return False
        now = take_image(self._store.fd, before.stored)
        return (
            now.kind == "file" and now.stamp != before.stamp and now.stamp is not None and _inode(now) == _inode(before)
        )

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
                        stored = self._store.put_beside(row.token, target, temporary_name(f"{row.token}-back"))
                        try:
                            self._rename_back(stored, target)
                        except FileExistsError:
                            raise ChangeConflict([row.path]) from None
                        self._forget_copy(stored, row)
                case ChangeKind.MOVED:
                    assert source is not None
                    if now != ABSENT:
                        self._rename(target, source, row.path)
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
            stored = self._store.put_beside(row.token, target, temporary_name(f"{row.token}-back"))
            if not self._exchange_back(row, target, stored):
                if stored.fd != self._store.fd:
                    remove_entry(stored.fd, stored.name)
                raise ChangeConflict([row.path])
            self._step("exchanged back")
            _rename_if_there(stored, staged)
            self._forget_copy(stored, row)
        else:
            _rename_if_there(self._store.at(row.token), staged)

    def _unmake_created(self, row: LoggedChange, target: Location, staged: Location) -> None:
        self._rename(target, staged, row.path)
        image = take_image(staged.fd, staged.name)
        foreign = [] if is_stamped(image, row.change.after) else [row.path]
        if not foreign and row.tree is not None:
            now = TreeManifest.take(staged.fd, staged.name)
            foreign = [f"{row.path}/{path}" for path in row.tree.find_foreign(now)]
        if foreign:
            with suppress(FileExistsError):
                self._rename_back(staged, target)
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
        displaced, is_stored = _beside(row, target), self._store.has(row.token)
        if is_stored and not self._store.is_near(target.fd):  # a copy, which is complete
            remove_entry(displaced.fd, displaced.name)
            return row
        if is_stored:
            displaced = self._store.at(row.token)
        if take_image(displaced.fd, displaced.name) == ABSENT:
            return None
        image = self._check_delete(row, target, displaced, is_strict)
        return self._finish_delete(row, target, displaced, image)

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
        displaced = self._check_replace(row, target, staged, is_strict)
        return self._finish_replace(row, target, staged, displaced)

    def _finish_spare(self, row: LoggedChange, target: Location, staged: Location) -> None:
        """Finish an exchange that took several steps."""
        inode = _inode(row.change.before)
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


def is_stamped(image: FileImage, other: FileImage) -> bool:
    """Return whether two images are of the same file, link or folder, whatever its mode."""
    return image.kind == other.kind and image.stamp == other.stamp


def _inode(image: FileImage) -> str:
    return (image.stamp or "").partition(":")[0]


def _beside(row: LoggedChange, target: Location) -> Location:
    return Location(target.fd, temporary_name(row.token), "")


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
    if now.kind != "file" or now.stamp == before.stamp or _inode(now) != _inode(before):
        return None
    return row.with_after(now)
