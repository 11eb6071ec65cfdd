"""Displace what is at a path, compare it with what was expected, and move it into the store or back.

Whatever is displaced is compared *after* the rename or exchange: what another program saved at any moment before is
then in our hands, and goes back to its name. No save is ever lost.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import replace
from typing import Protocol

from wap_kernel.files.contained.changer import make_stamp
from wap_kernel.files.contained.component_walk import Location
from wap_kernel.files.contained.copies import made_movable, remove_entry
from wap_kernel.files.contained.renames import Exchange, rename_exclusive, temporary_name
from wap_kernel.model.changes import FileImage
from wap_kernel.state.changes.change_log import LoggedChange
from wap_kernel.state.changes.image_store import ImageStore
from wap_kernel.state.changes.tree_manifest import TreeManifest, take_image

Step = Callable[[str], None]
_UNPREPARED = nullcontext()


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


class Displacer:
    """Displaces entries. A row's `before` is the image expected at its path; with `is_strict`, it has to be there."""

    def __init__(self, store: ImageStore, gate: Gate, exchange: Exchange, step: Step) -> None:
        self._store = store
        self.gate = gate
        self._exchange = exchange
        self._step = step

    def rename(self, source: Location, target: Location, path: str) -> None:
        try:
            with made_movable(source.fd, source.name):
                rename_exclusive(source.fd, source.name, target.fd, target.name)
        except (FileExistsError, FileNotFoundError):
            raise ChangeConflict([path]) from None

    def replace(self, row: LoggedChange, target: Location, staged: Location, is_strict: bool) -> LoggedChange:
        with self.gate.exclusive(row.path):
            try:
                with _make_movable(staged, row.change.after), _make_movable(target, row.change.before):
                    self._exchange(staged.fd, staged.name, target.fd, target.name)
            except FileNotFoundError:
                raise ChangeConflict([row.path]) from None
            self._step("exchanged")
            displaced = self.check_replace(row, target, staged, is_strict)
        return self.finish_replace(row, target, staged, displaced)

    def check_replace(self, row: LoggedChange, target: Location, staged: Location, is_strict: bool) -> FileImage:
        """Return what an exchange displaced; put it back and raise if it was not expected."""
        displaced = take_image(staged.fd, staged.name)
        foreign = self._find_foreign(row, displaced, staged, is_strict)
        if foreign:
            self._refuse_replace(row, target, staged, displaced, foreign)
        return displaced

    def finish_replace(
        self, row: LoggedChange, target: Location, staged: Location, displaced: FileImage
    ) -> LoggedChange:
        try:
            return self._store_displaced(row, displaced, staged)
        except OSError:
            with self.gate.exclusive(row.path):
                if self.exchange_back(row, target, staged):
                    self._remove_copy(row, target)
            raise
        except ChangeConflict as conflict:
            with self.gate.exclusive(row.path):
                self._refuse_replace(row, target, staged, displaced, conflict.paths)
            raise

    def _remove_copy(self, row: LoggedChange, target: Location) -> None:
        """Remove a copy from the store whose original is at its path again."""
        if not self._store.is_near(target.fd):
            self._store.remove(row.token)

    def _refuse_replace(
        self, row: LoggedChange, target: Location, staged: Location, displaced: FileImage, foreign: list[str]
    ) -> None:
        if self.exchange_back(row, target, staged):
            raise ChangeConflict(foreign)
        raise ChangeConflict(foreign, self._store_displaced(row, displaced, staged, is_checked=False))

    def exchange_back(self, row: LoggedChange, target: Location, displaced: Location) -> bool:
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

    def delete(self, row: LoggedChange, target: Location, is_strict: bool) -> LoggedChange:
        with self.gate.exclusive(row.path):
            try:
                displaced = self._take_away(row, target)
            except FileNotFoundError:
                raise ChangeConflict([row.path]) from None
            self._step("taken away")
            if displaced is None:
                return self._copy_away(row, target)
            image = self.check_delete(row, target, displaced, is_strict)
        return self.finish_delete(row, target, displaced, image)

    def _take_away(self, row: LoggedChange, target: Location) -> Location | None:
        """Rename an entry away, and return where it is; None where the filesystem renames no such folder."""
        near = self._store.is_near(target.fd)
        displaced = self._store.at(row.token) if near else locate_temporary(row, target)
        try:
            with _make_movable(target, row.change.before):
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

    def check_delete(self, row: LoggedChange, target: Location, displaced: Location, is_strict: bool) -> FileImage:
        image = take_image(displaced.fd, displaced.name)
        foreign = self._find_foreign(row, image, displaced, is_strict)
        if foreign:
            self._refuse_delete(row, target, displaced, image, foreign)
        return image

    def finish_delete(self, row: LoggedChange, target: Location, displaced: Location, image: FileImage) -> LoggedChange:
        try:
            return self._store_displaced(row, image, displaced)
        except OSError:
            self.rename_back(displaced, target)
            self._remove_copy(row, target)
            raise
        except ChangeConflict as conflict:
            self._refuse_delete(row, target, displaced, image, conflict.paths)
            raise

    def _refuse_delete(
        self, row: LoggedChange, target: Location, displaced: Location, image: FileImage, foreign: list[str]
    ) -> None:
        try:
            self.rename_back(displaced, target)
        except FileExistsError:  # another program has saved the path anew
            done = self._store_displaced(row, image, displaced, is_checked=False)
            raise ChangeConflict(foreign, done) from None
        raise ChangeConflict(foreign)

    def rename_back(self, displaced: Location, target: Location) -> None:
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
            now = self._store.take(displaced, row.token, row.run, image)
            if (now.fd, now.name) == (displaced.fd, displaced.name):
                if is_checked and not image.is_like(take_image(displaced.fd, displaced.name)):
                    self._store.remove(row.token)
                    raise ChangeConflict([row.path])
                self._step("copied")
                remove_entry(displaced.fd, displaced.name)
        self._step("stored")
        return row.with_before(image.with_stored(row.token))

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
        try:
            now = os.stat(before.stored, dir_fd=self._store.fd, follow_symlinks=False)
        except FileNotFoundError:
            return False
        is_same_file = stat.S_ISREG(now.st_mode) and str(now.st_ino) == read_inode(before)
        return is_same_file and make_stamp(now) != before.stamp


def _make_movable(location: Location, expected: FileImage) -> AbstractContextManager[None]:
    """Let the owner move a folder that is closed to him; other entries need no preparation."""
    return made_movable(location.fd, location.name) if expected.kind == "folder" else _UNPREPARED


def is_stamped(image: FileImage, other: FileImage) -> bool:
    """Return whether two images are of the same file, link or folder, whatever its mode."""
    return image.kind == other.kind and image.stamp == other.stamp


def read_inode(image: FileImage) -> str:
    return (image.stamp or "").partition(":")[0]


def locate_temporary(row: LoggedChange, target: Location) -> Location:
    return Location(target.fd, temporary_name(row.token), "")
