"""Record the changes of one operation: each is logged before it is made, and what it displaces moves into the store."""

from __future__ import annotations

import errno
import os
from dataclasses import replace

from wap_kernel.files.contained.atomic_write import Journal, StagedFile, Step, check_writable
from wap_kernel.files.contained.changer import append_to_file, make_conflict, overwrite_file, read_shared_file
from wap_kernel.files.contained.component_walk import Location
from wap_kernel.files.contained.handles import LocalFolder
from wap_kernel.model.changes import ABSENT, Change, ChangeKind, FileImage
from wap_kernel.model.errors import Conflict, WapError
from wap_kernel.model.limits import MAX_COPIED_BYTES
from wap_kernel.state.changes.change_log import ChangeLog, LoggedChange, make_token
from wap_kernel.state.changes.displacer import ChangeConflict
from wap_kernel.state.changes.image_store import ImageStore, make_not_storable, select_unkept
from wap_kernel.state.changes.maker import ChangeMaker
from wap_kernel.state.changes.tree_manifest import TreeManifest, make_image, take_image

_TRIES = 8


class ChangeRecorder:
    """A Changer (see `files/contained/changer.py`) that logs every change of one operation of a run.

    With `allows_loss`, what is too large for the store is displaced all the same, and lost.
    """

    def __init__(
        self,
        log: ChangeLog,
        store: ImageStore,
        maker: ChangeMaker,
        journal: Journal,
        step: Step,
        run: str,
        position: int,
        *,
        allows_loss: bool = False,
        is_synced: bool = True,
    ) -> None:
        self.run = run
        self.log = log
        self.store = store
        self.maker = maker
        self._journal = journal
        self._step = step
        self._position = position
        self._allows_loss = allows_loss
        self._is_synced = is_synced
        """False: the caller syncs the whole filesystem in the end."""
        self._copied = 0

    # -- a Changer

    def write(
        self, location: Location, data: bytes, *, exclusive: bool, mode: int | None, expected: str | None
    ) -> os.stat_result:
        old = check_writable(location)
        if old is not None and exclusive:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))
        staged = StagedFile(location, data, old, mode, journal=self._journal, step=self._step)
        try:
            for _ in range(_TRIES):
                if expected is not None and (old is None or make_image(old).stamp != expected):
                    raise make_conflict(location.path)
                try:
                    self._write_staged(location, staged, old, is_strict=expected is not None)
                    staged.forget()
                    return staged.stat
                except ChangeConflict:
                    if expected is not None:
                        raise make_conflict(location.path) from None
                    if exclusive:
                        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST)) from None
                old = check_writable(location)
            raise make_conflict(location.path)
        except Exception:
            staged.discard()
            raise

    def _write_staged(
        self, location: Location, staged: StagedFile, old: os.stat_result | None, *, is_strict: bool
    ) -> None:
        after, temporary = make_image(staged.stat), Location(location.fd, staged.name, location.path)
        if old is None:
            row = self._begin(ChangeKind.CREATED, location.path, ABSENT, after, token=staged.token)
        else:
            before = self._storable(location, make_image(old), None, staged.token)
            row = self._begin(ChangeKind.CHANGED, location.path, before, after, token=staged.token)
            staged.forget()  # the log names it from now on
        self._make(row, location, staged=temporary, is_strict=is_strict)

    def overwrite(self, location: Location, data: bytes, *, expected: str | None) -> os.stat_result:
        old = check_writable(location)
        if old is None or (expected is not None and make_image(old).stamp != expected):
            raise make_conflict(location.path)
        # The store gets a copy before the file is written to: the file itself stays where it is.
        image, token = make_image(old), make_token()
        if (image.size or 0) > MAX_COPIED_BYTES and not self._allows_loss:
            raise make_not_storable([location.path])
        before = self._storable(location, image, None, token)
        after = FileImage("file", image.mode, len(data))
        row = self._begin(ChangeKind.CHANGED, location.path, before, after, token=token)
        try:
            if before.stored is not None:
                self.store.copy(location, token, self.run)
                copied = str(take_image(self.store.fd, token).stamp)
                self.store.equate(self.run, [(token, str(image.stamp), copied)])
            self._step("copied")
            new = overwrite_file(location, data, image.stamp, self.maker.gate.exclusive(location.path))
        except Conflict:
            self.log.finish([], [row])
            self.store.remove(token)
            raise
        except Exception:
            # A part may have been written; what was there before stays in the store, for a revert.
            self.log.finish([row.with_after(take_image(location.fd, location.name))])
            raise
        self.log.finish([row.with_after(make_image(new))])
        return new

    def append(self, location: Location, data: bytes) -> os.stat_result:
        shared = read_shared_file(location)
        if shared is not None:
            return self.write(location, shared[0] + data, exclusive=False, mode=None, expected=shared[1])
        before = take_image(location.fd, location.name)
        expected = FileImage("file", before.mode, (before.size or 0) + len(data))
        row = self._begin(ChangeKind.APPENDED, location.path, before, expected)
        try:
            old, new = append_to_file(location, data, self.maker.gate.exclusive(location.path))
        except Exception:
            self.log.finish([], [row])
            raise
        after = make_image(new)
        if new.st_size != old.st_size + len(data):  # another program has appended too
            after = replace(after, stamp=None)
        self.log.finish([row.with_before(make_image(old)).with_after(after)])
        return new

    def unlink(self, location: Location, expected: str | None) -> None:
        image = take_image(location.fd, location.name)
        if image == ABSENT:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
        if image.kind == "folder":
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if expected is not None and image.stamp != expected:
            raise make_conflict(location.path)
        try:
            self.take_away(location, image, is_strict=expected is not None)
        except ChangeConflict:
            raise make_conflict(location.path) from None

    def remove_tree(self, location: Location, folder: LocalFolder) -> None:
        image = take_image(location.fd, location.name)
        tree = TreeManifest.take(location.fd, location.name)
        try:
            self.take_away(location, image, tree=tree)
        except ChangeConflict as conflict:
            raise make_conflict(conflict.paths[0]) from None

    def rename(self, old: Location, new: Location, *, overwrite: bool) -> None:
        if old.path == new.path:
            os.rename(old.name, new.name, src_dir_fd=old.fd, dst_dir_fd=new.fd)
            return
        image = take_image(old.fd, old.name)
        if image == ABSENT:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
        before = take_image(new.fd, new.name)
        if before != ABSENT and not overwrite:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))
        try:
            self.move(old, new, image, before)
        except ChangeConflict:
            if not overwrite:
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST)) from None
            raise make_conflict(new.path) from None

    def mkdir(self, location: Location) -> None:
        row = self._begin(ChangeKind.CREATED, location.path, ABSENT, FileImage("folder"), tree=TreeManifest({}))
        try:
            os.mkdir(location.name, dir_fd=location.fd)
        except OSError:
            self.log.finish([], [row])
            raise
        self._step("made")
        self._sync(location)
        self.log.finish([row.with_after(take_image(location.fd, location.name))])

    def chmod(self, location: Location, mode: int, inverts: int | None = None) -> None:
        before = take_image(location.fd, location.name)
        row = self._begin(ChangeKind.MODE, location.path, before, replace(before, mode=mode), inverts=inverts)
        self._make(row, location)

    # -- what a revert uses besides

    def put(
        self,
        location: Location,
        staged: Location,
        staged_path: str | None,
        before: FileImage,
        *,
        token: str,
        tree: TreeManifest | None = None,
        inverts: int | None = None,
    ) -> LoggedChange:
        """Move a staged entry to a location, where `before` is now."""
        after = take_image(staged.fd, staged.name)
        if before == ABSENT:
            kind = ChangeKind.CREATED
        else:
            kind, before = ChangeKind.CHANGED, self._storable(location, before, tree, token)
        displaced = tree
        if after.kind == "folder":
            tree = TreeManifest.take(staged.fd, staged.name)
        row = self._begin(
            kind, location.path, before, after, token=token, staged=staged_path, tree=tree, inverts=inverts
        )
        row = replace(row, displaced=displaced)
        if staged_path is None:
            self._journal.forget(staged.name)  # the log names it from now on
        return self._make(row, location, staged=staged)

    def take_away(
        self,
        location: Location,
        before: FileImage,
        *,
        tree: TreeManifest | None = None,
        is_strict: bool = True,
        inverts: int | None = None,
    ) -> LoggedChange:
        """Move what is at a location into the store."""
        token = make_token()
        before = self._storable(location, before, tree, token)
        row = self._begin(ChangeKind.DELETED, location.path, before, ABSENT, token=token, tree=tree, inverts=inverts)
        return self._make(row, location, is_strict=is_strict)

    def move(
        self, old: Location, new: Location, image: FileImage, before: FileImage = ABSENT, inverts: int | None = None
    ) -> LoggedChange:
        """Rename an entry; what is at its new name moves into the store."""
        token = make_token()
        if before != ABSENT:
            before = self._storable(new, before, None, token)
        row = self._begin(ChangeKind.MOVED, new.path, before, image, token=token, source=old.path, inverts=inverts)
        moved = self._make(row, new, source=old)
        self._sync(old)
        return moved

    def set_time(self, location: Location, before: FileImage, after: FileImage, inverts: int | None = None) -> None:
        row = self._begin(ChangeKind.TOUCHED, location.path, before, after, inverts=inverts)
        self._make(row, location)

    # -- parts

    def _begin(
        self,
        kind: ChangeKind,
        path: str,
        before: FileImage,
        after: FileImage,
        *,
        token: str | None = None,
        staged: str | None = None,
        source: str | None = None,
        tree: TreeManifest | None = None,
        inverts: int | None = None,
    ) -> LoggedChange:
        row = LoggedChange(
            self.run,
            self._position,
            Change(path, kind, before, after, source),
            token or make_token(),
            staged,
            inverts,
            tree=tree,
        )
        (begun,) = self.log.begin([row])
        self._step("logged")
        return begun

    def _make(
        self,
        row: LoggedChange,
        target: Location,
        *,
        staged: Location | None = None,
        source: Location | None = None,
        is_strict: bool = True,
    ) -> LoggedChange:
        """Make a logged change durable, and store how it ended."""
        try:
            done = self.maker.make(row, target, staged=staged, source=source, is_strict=is_strict)
            self._sync(target)
            self._step("folder synced")
            if self.maker.has_changed_since(done):
                done = self._end_late_write(done, target, staged, is_strict)
        except ChangeConflict as conflict:
            self.log.finish([conflict.done] if conflict.done else [], [] if conflict.done else [row], wait=True)
            raise
        except Exception:
            # The sync may fail when the change is made: what is made can be undone only as long as the log has it.
            made = self._find_made(row, target, staged or source or target, is_strict)
            self.log.finish([made] if made else [], [] if made else [row])
            raise
        self.log.finish([done])
        return done

    def _find_made(self, row: LoggedChange, target: Location, staged: Location, is_strict: bool) -> LoggedChange | None:
        """Return a change that met an error if it was made all the same."""
        try:
            return self.maker.recover(row, target, staged=staged, is_strict=is_strict)
        except ChangeConflict as conflict:
            return conflict.done
        except (OSError, WapError):
            return None

    def _end_late_write(
        self, row: LoggedChange, target: Location, staged: Location | None, is_strict: bool
    ) -> LoggedChange:
        """Decide on a file that another program wrote to after it was displaced: it goes back if it was expected."""
        assert row.change.before.stored is not None
        if not is_strict:
            now = take_image(self.store.fd, row.change.before.stored)
            return row.with_before(replace(now, stored=row.change.before.stored))
        self.maker.unmake(row, target, staged=staged)
        raise ChangeConflict([row.path])

    def _storable(self, target: Location, image: FileImage, tree: TreeManifest | None, token: str) -> FileImage:
        """Return an image that goes into the store under `token`; without a name where its loss is approved."""
        if self.store.is_near(target.fd):
            return replace(image, stored=token)
        size = tree.size if tree is not None else image.size or 0
        files = {target.path: size}
        if tree is not None:
            files = {f"{target.path}/{path}": each.size or 0 for path, each in tree.images.items()}
        if select_unkept({target.path: files}) or self._copied + size > MAX_COPIED_BYTES:
            if self._allows_loss:
                return image
            raise make_not_storable(files)
        self._copied += size
        return replace(image, stored=token)

    def _sync(self, location: Location) -> None:
        if self._is_synced:
            os.fsync(location.fd)
