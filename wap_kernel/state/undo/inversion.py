"""Undo logged changes one by one. Each inversion is a logged change itself, so a revert can be reverted too."""

from __future__ import annotations

import os
import posixpath
from dataclasses import replace

from wap_kernel.files.contained.component_walk import Location
from wap_kernel.files.contained.copies import remove_entry
from wap_kernel.files.contained.renames import temporary_name
from wap_kernel.model.changes import ABSENT, ChangeKind, FileImage
from wap_kernel.state.changes.change_log import LoggedChange, make_token
from wap_kernel.state.changes.displacer import ChangeConflict
from wap_kernel.state.changes.history import ChangeHistory
from wap_kernel.state.changes.recorder import ChangeRecorder
from wap_kernel.state.changes.tree_manifest import TreeManifest, take_image
from wap_kernel.state.undo.survey import has_same_files, is_restored

_CHUNK = 1024 * 1024
_RESTORING = (ChangeKind.CHANGED, ChangeKind.DELETED)
"""Kinds of changes whose inversion puts something back."""


class Inverter:
    """Undoes changes as changes of another run. With `force`, whatever others have put there moves into the store."""

    def __init__(self, history: ChangeHistory, recorder: ChangeRecorder, *, force: bool) -> None:
        self._history = history
        self._store = history.store
        self._recorder = recorder
        self._force = force

    def invert(self, row: LoggedChange) -> bool:
        """Undo a change; return False if there is nothing to undo. Raise ChangeConflict if others have changed it."""
        if row.change.kind not in _RESTORING and not self._has_folder(row.path):
            return False
        with self._locate(row.path) as target, self._history.locks.hold(row.path):
            match row.change.kind:
                case ChangeKind.CREATED:
                    return self._remove(row, target)
                case ChangeKind.CHANGED | ChangeKind.DELETED:
                    return self._restore(row, target)
                case ChangeKind.MOVED:
                    return self._move_back(row, target)
                case ChangeKind.APPENDED:
                    return self._cut(row, target)
                case ChangeKind.MODE:
                    return self._set_mode(row, target)
                case _:
                    return self._set_time(row, target)

    def _locate(self, path: str) -> Location:
        """Return a location; make the folders on the way that others have removed."""
        try:
            return self._history.root.locate(path)
        except FileNotFoundError:
            self._history.root.recording(self._recorder).mkdir(path.rpartition("/")[0], parents=True)
            return self._history.root.locate(path)
        except NotADirectoryError:
            raise ChangeConflict([path]) from None

    def _has_folder(self, path: str) -> bool:
        try:
            self._history.root.locate(path).close()
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True

    def _remove(self, row: LoggedChange, target: Location) -> bool:
        now = take_image(target.fd, target.name)
        if now == ABSENT:
            return False
        tree = self._check(row, target, now)
        self._recorder.take_away(target, now, tree=tree, inverts=row.id)
        return True

    def _restore(self, row: LoggedChange, target: Location) -> bool:
        before, now = row.change.before, take_image(target.fd, target.name)
        if is_restored(self._store, now, before):
            manifest = self._history.log.read_tree(row) if before.kind == "folder" else None
            images = {} if manifest is None else TreeManifest.take(target.fd, target.name).images
            if manifest is None or has_same_files(self._store, manifest, images):
                return False
        tree = self._check(row, target, now)
        self._put(row, target, now, tree)
        return True

    def _put(self, row: LoggedChange, target: Location, now: FileImage, tree: TreeManifest | None) -> None:
        """Put the content before a change back to its path."""
        before, token = row.change.before, make_token()
        name = self._store.find(before)
        self._note(token, target)
        if name is None:
            staged, path = self._stage_anew(row, target, token), None
        else:
            staged = self._store.prepare(name, target, temporary_name(token))
            path = os.path.join(self._store.folder, name) if staged.fd == self._store.fd else None
        try:
            done = self._recorder.put(target, staged, path, now, token=token, tree=tree, inverts=row.id)
        except Exception:
            if staged.fd != self._store.fd:
                remove_entry(staged.fd, staged.name)
            raise
        if path is None and name is not None:
            self._equate_copies(row, name, done)

    def _note(self, token: str, target: Location) -> None:
        """Note a temporary file that a crash could leave before the log names it."""
        if not self._store.is_near(target.fd):
            name = temporary_name(token)
            self._history.root.journal.note(name, posixpath.join(posixpath.dirname(target.path), name))

    def _stage_anew(self, row: LoggedChange, target: Location, token: str) -> Location:
        """Make a link or an empty folder once more; the content of a file that is not stored is lost."""
        before, name = row.change.before, temporary_name(token)
        if before.kind == "link" and before.target is not None:
            os.symlink(before.target, name, dir_fd=target.fd)
        else:
            raise ChangeConflict([row.path])
        return Location(target.fd, name, row.path)

    def _equate_copies(self, row: LoggedChange, name: str, done: LoggedChange) -> None:
        """Store that the copies of stored files have their content."""
        if row.change.before.kind == "file":
            stamps = str(row.change.before.stamp), str(done.change.after.stamp)
            self._store.equate(self._recorder.run, [(name, *stamps)])
        originals = self._history.log.read_tree(row)
        if originals is not None and done.tree is not None:
            self._store.equate_trees(self._recorder.run, name, originals, done.tree)

    def _move_back(self, row: LoggedChange, target: Location) -> bool:
        now, after = take_image(target.fd, target.name), row.change.after
        with self._locate(str(row.change.source)) as source, self._history.locks.hold(source.path):
            old = take_image(source.fd, source.name)
            if now == ABSENT:
                return False
            is_same = now.kind == after.kind and (after.kind != "file" or self._store.is_same(now, after))
            if not (is_same and old == ABSENT):
                if not self._force:
                    raise ChangeConflict([row.path if not is_same else source.path])
                if old != ABSENT:
                    self._recorder.take_away(source, old, tree=_take_tree(source, old))
            self._recorder.move(target, source, now, inverts=row.id)
        if row.change.before != ABSENT:
            self._put(row, target, ABSENT, None)
        return True

    def _cut(self, row: LoggedChange, target: Location) -> bool:
        """Replace a file that was appended to by its beginning."""
        before, now = row.change.before, take_image(target.fd, target.name)
        if self._store.is_same(now, before):
            return False
        if row.change.after.stamp is None or not self._store.is_same(now, row.change.after):
            raise ChangeConflict([row.path])
        token = make_token()
        staged = Location(target.fd, temporary_name(token), row.path)
        self._note(token, target)
        try:
            _copy_beginning(target, staged, before)
            done = self._recorder.put(target, staged, None, now, token=token, inverts=row.id)
        except Exception:
            remove_entry(staged.fd, staged.name)
            raise
        self._store.equate(self._recorder.run, [(f"{token}.same", str(before.stamp), str(done.change.after.stamp))])
        return True

    def _set_mode(self, row: LoggedChange, target: Location) -> bool:
        now, before = take_image(target.fd, target.name), row.change.before
        if now.mode == before.mode:
            return False
        if now == ABSENT or now.kind == "link" or (now.mode != row.change.after.mode and not self._force):
            raise ChangeConflict([row.path])
        self._recorder.chmod(target, before.mode or 0, inverts=row.id)
        return True

    def _set_time(self, row: LoggedChange, target: Location) -> bool:
        now = take_image(target.fd, target.name)
        if now.kind != "file" or now.stamp != row.change.after.stamp:
            return False
        self._recorder.set_time(target, now, replace(now, stamp=row.change.before.stamp), inverts=row.id)
        return True

    def _check(self, row: LoggedChange, target: Location, now: FileImage) -> TreeManifest | None:
        """Raise ChangeConflict if the path differs from what the change left; return the manifest of a folder."""
        tree = _take_tree(target, now)
        if self._force:
            return tree
        if not self._store.is_same(now, row.change.after):
            raise ChangeConflict([row.path])
        known = self._history.log.read_tree(row) if tree is not None else None
        if tree is not None and known is not None:
            foreign = known.find_foreign(tree, self._store.is_same)
            if foreign:
                raise ChangeConflict([f"{row.path}/{path}" for path in foreign])
        return tree


def _take_tree(target: Location, now: FileImage) -> TreeManifest | None:
    return TreeManifest.take(target.fd, target.name) if now.kind == "folder" else None


def _copy_beginning(target: Location, staged: Location, before: FileImage) -> None:
    """Copy as many bytes as the file had before, with its mode and time."""
    old = os.open(target.name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=target.fd)
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        new = os.open(staged.name, flags, 0o600, dir_fd=staged.fd)
        try:
            found, left = os.fstat(old), before.size or 0
            while left and (data := os.read(old, min(_CHUNK, left))):
                left -= len(data)
                while data:
                    data = data[os.write(new, data) :]
            if os.geteuid() == 0:
                os.fchown(new, found.st_uid, found.st_gid)
            os.fchmod(new, before.mode or 0)
            mtime = int((before.stamp or "0").rpartition(":")[2])
            os.utime(new, ns=(mtime, mtime))
            os.fsync(new)
        finally:
            os.close(new)
    finally:
        os.close(old)
