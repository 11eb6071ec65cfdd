"""Record the changes of a run's operations, and store the files before they are changed.

A file operation names the paths that it will change. A command does not, so a manifest of the whole workspace is taken
before and after it, and all files within the limits are stored before it. Every change that happens while a command
runs counts as the command's, but for those that other runs and single calls have recorded.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any

from wap_kernel.files import content_hash
from wap_kernel.files.interface import FileKind, LinkStat, RestorableFiles
from wap_kernel.model.command import Deadline
from wap_kernel.model.errors import WapError
from wap_kernel.model.git.operations import GitAction
from wap_kernel.model.limits import MAX_HASHED_BYTES
from wap_kernel.model.operations import Operation, RunCommand, WriteFile
from wap_kernel.model.paths import render_path
from wap_kernel.state.database import Database
from wap_kernel.state.undo import manifest
from wap_kernel.state.undo.blob_store import BlobStore
from wap_kernel.state.undo.change_store import NO_RUN, ChangeMark, ChangeStore, RecordedChange
from wap_kernel.state.undo.concurrent_calls import ConcurrentCalls
from wap_kernel.state.undo.file_image import ABSENT, FileImage
from wap_kernel.state.undo.imager import Budget, Imager
from wap_kernel.state.undo.manifest import REASONS, Difference, Manifest
from wap_kernel.state.undo.targets import find_targets

AFTER_SECONDS = 120.0
"""Seconds to find out what a command changed, even if the command itself was cancelled."""
MAX_CALL_HASHED_BYTES = 64 * 1024 * 1024
"""Bytes that a single call hashes; size and times must do for the rest."""
MAX_NAMED = 1000
"""Paths that a note names."""

Readable = Callable[[str], bool]
"""A function that returns whether the caller may read a path."""
Nameable = Callable[[str], bool]
"""A function that returns whether the caller may know that a path exists."""


@dataclass(frozen=True)
class SnapshotLimits:
    """The most that is stored for one operation; the rest is named before the operation is performed."""

    per_file: int = 16 * 1024 * 1024
    total: int = 512 * 1024 * 1024
    entries: int = 200_000
    """Files and folders that a manifest has at most."""


@dataclass(frozen=True)
class UnrecoverableFiles:
    """Files that could not be restored if they were changed."""

    files: Mapping[str, str] = field(default_factory=dict)
    """Reasons by path."""
    folders: Mapping[str, str] = field(default_factory=dict)
    """Reasons by folder (or `.git` file), for everything below."""

    def __bool__(self) -> bool:
        return bool(self.files or self.folders)

    def visible(self, nameable: Nameable) -> UnrecoverableFiles:
        """Return those that the caller may know of: a listing would not show the others either."""
        return UnrecoverableFiles(
            {path: reason for path, reason in self.files.items() if nameable(path)},
            {path: reason for path, reason in self.folders.items() if nameable(path)},
        )

    def to_dict(self) -> dict[str, Any]:
        named = [
            {"path": render_path(path), "reason": reason} for path, reason in {**self.folders, **self.files}.items()
        ]
        more = len(named) - MAX_NAMED
        return {"notKept": named[:MAX_NAMED], **({"more": more} if more > 0 else {})}


Notice = Callable[[UnrecoverableFiles], None]


class ChangeRecorder:
    """Records changes. `files` are guarded by protection only, not by policy.

    A command may change files that its caller may not read.
    """

    def __init__(
        self, files: RestorableFiles, database: Database, state_dir: str, caps: SnapshotLimits, log: logging.Logger
    ) -> None:
        self.files = files
        self.state_dir = state_dir
        self.blobs = BlobStore(state_dir)
        self.changes = ChangeStore(database)
        self.imager = Imager(files, self.blobs)
        self._concurrent_calls = ConcurrentCalls(state_dir)
        self._caps = caps
        self._log = log

    def announce(self, operation: Operation, deadline: Deadline) -> AbstractContextManager[None]:
        """Announce a command, before any lock on a path is taken.

        A single call may wait for such a lock, and the command waits for the call.
        """
        return (
            self._concurrent_calls.command(deadline) if isinstance(operation, RunCommand | GitAction) else nullcontext()
        )

    @contextmanager
    def around(
        self, operation: Operation, run: str, position: int, deadline: Deadline, notice: Notice
    ) -> Iterator[None]:
        """Store the files that the operation will change, run the block, and record the changes."""
        if isinstance(operation, RunCommand | GitAction):  # git names no more than a command what it will change
            with self._around_command(run, position, deadline, notice):
                yield
            return
        lost: dict[str, str] = {}
        before = self._before(operation, lost, deadline)
        if not before:
            yield
            return
        identifiers = self.changes.begin(run, position, before, UnrecoverableFiles(lost).to_dict() if lost else None)
        if lost:
            notice(UnrecoverableFiles(lost))
        with self._ending(operation, before, identifiers, self.hashed()):
            yield

    @contextmanager
    def around_call(self, operation: Operation, deadline: Deadline) -> Iterator[None]:
        """Run a file operation of a single call in the block, without storing files.

        Its changes are recorded if a command runs, for they would link_stat like the command's.
        """
        lock_fd = self._concurrent_calls.hold_off()
        is_recorded = lock_fd is None
        lock_fd = self._concurrent_calls.recording() if lock_fd is None else lock_fd
        try:
            stats = self._stat_targets(operation, {}, deadline) if is_recorded else {}
            before = {path: FileImage.of(link_stat) for path, link_stat in stats.items()}
            if not before:
                yield
                return
            identifiers = self.changes.begin(NO_RUN, 0, before)
            with self._ending(operation, before, identifiers, Budget(self._caps.per_file, MAX_CALL_HASHED_BYTES)):
                yield
        finally:
            os.close(lock_fd)

    @contextmanager
    def undoing(self, stats: Mapping[str, LinkStat | None]) -> Iterator[None]:
        """Revert an atomic run at these paths in the block.

        The changes are recorded as the run's in the end; until then no other run's command may claim them either.
        """
        before = {path: FileImage.of(link_stat) for path, link_stat in stats.items()}
        identifiers = self.changes.begin(NO_RUN, 0, before)
        try:
            yield
        finally:
            with self._unless_it_fails():
                budget = self.hashed()
                self.changes.end(before, identifiers, {path: self.imager.image(path, budget) for path in before})

    @contextmanager
    def _ending(
        self, operation: Operation, before: Mapping[str, FileImage], identifiers: Sequence[int], budget: Budget
    ) -> Iterator[None]:
        """Run the block, and record what is at the paths afterwards."""
        is_done = False
        try:
            yield
            is_done = True
        finally:
            with self._unless_it_fails():
                self.changes.end(before, identifiers, self._after(operation, before, is_done, budget))

    def preview_losses(self, deadline: Deadline) -> UnrecoverableFiles:
        """Return what could not be restored if a command changed it now; nothing is stored."""
        before = manifest.take_manifest(self.files, deadline, bound=self._caps.entries)
        budget = self.budget()
        lost: dict[str, str] = {}
        for size, path in sorted(
            (link_stat.size, path) for path, link_stat in before.entries.items() if link_stat.kind is FileKind.FILE
        ):
            if size > budget.limit:
                lost[path] = budget.refusal(size)
            else:
                budget.spend(size)
        return UnrecoverableFiles(lost, {path: REASONS[reason] for path, reason in before.excluded.items()})

    def budget(self) -> Budget:
        return Budget(self._caps.per_file, self._caps.total)

    def hashed(self) -> Budget:
        """Return the budget for hashing the present files, which is larger than that for storing them."""
        return Budget(MAX_HASHED_BYTES, 2 * self._caps.total)

    def keep(self, stats: Mapping[str, LinkStat | None], budget: Budget, lost: dict[str, str]) -> dict[str, FileImage]:
        """Return the images of these paths, with stored contents; add those that could not be stored to `lost`."""
        images: dict[str, FileImage] = {}
        for path, link_stat in stats.items():
            images[path], reason = (ABSENT, None) if link_stat is None else self.imager.keep(path, link_stat, budget)
            if reason is not None:
                lost[path] = reason
        return images

    # -- file operations

    def _before(self, operation: Operation, lost: dict[str, str], deadline: Deadline) -> dict[str, FileImage]:
        return self.keep(self._stat_targets(operation, lost, deadline), self.budget(), lost)

    def _stat_targets(
        self, operation: Operation, lost: dict[str, str], deadline: Deadline
    ) -> dict[str, LinkStat | None]:
        """Return the link stats of all paths that the operation will change."""
        where = find_targets(operation, self.files)
        stats: dict[str, LinkStat | None] = {path: self.files.lstat(path) for path in where.paths}
        if where.tree is not None:
            tree = self._tree(where.tree, deadline, lost)
            if where.moved_to is not None:
                new = (where.moved_to + path[len(where.tree) :] for path in tree)
                stats.update({path: self.files.lstat(path) for path in new})
            stats.update(tree)
        return stats

    def _tree(self, path: str, deadline: Deadline, lost: dict[str, str]) -> dict[str, LinkStat | None]:
        link_stat = self.files.lstat(path)
        if link_stat is None or link_stat.kind is not FileKind.FOLDER:
            return {path: link_stat}
        below, is_all = manifest.take_tree(self.files, path, deadline, bound=self._caps.entries)
        if not is_all:
            lost[path] = f"it holds more than {self._caps.entries} files"
        return {path: link_stat, **below}

    def _after(
        self, operation: Operation, before: Mapping[str, FileImage], is_done: bool, budget: Budget
    ) -> dict[str, FileImage]:
        if is_done and isinstance(operation, WriteFile) and operation.mode != "append":
            return {path: self._written(path, operation) for path in before}
        return {path: self.imager.image(path, budget) for path in before}

    def _written(self, path: str, operation: WriteFile) -> FileImage:
        """Return the image of a written file, whose content is known and not read back."""
        link_stat = self.files.lstat(path)
        if link_stat is not None and link_stat.kind is FileKind.FILE and link_stat.size == len(operation.content):
            return FileImage.of(link_stat, content_hash.hash_bytes(operation.content).removeprefix("sha256:"))
        return self.imager.image_of(path, link_stat, self.hashed())

    # -- commands

    @contextmanager
    def _around_command(self, run: str, position: int, deadline: Deadline, notice: Notice) -> Iterator[None]:
        mark = self.changes.mark(run)  # first: what others make and end while this stats and keeps is theirs
        before = manifest.take_manifest(self.files, deadline, bound=self._caps.entries)
        lost: dict[str, str] = {}
        digests = self._keep_all(before, lost, deadline)
        folders = {path: REASONS[reason] for path, reason in before.excluded.items()}
        losses = UnrecoverableFiles(lost, folders)
        # Until the command has ended the note says that what it changed is not known.
        self.changes.begin_command(run, position, {**losses.to_dict(), "isOver": False})
        if losses:
            notice(losses)
        try:
            yield
        finally:
            with self._unless_it_fails():
                self._after_command(run, position, before, digests, losses, mark)

    def _keep_all(self, before: Manifest, lost: dict[str, str], deadline: Deadline) -> dict[str, str]:
        """Store files, the small ones first so that most of them fit, and return their digests."""
        budget = self.budget()
        digests: dict[str, str] = {}
        files = [
            (link_stat.size, path) for path, link_stat in before.entries.items() if link_stat.kind is FileKind.FILE
        ]
        for count, (_, path) in enumerate(sorted(files)):
            if count % 64 == 0:
                deadline.check()
            image, reason = self.imager.keep(path, before.entries[path], budget)
            if image.digest is not None:
                digests[path] = image.digest
            elif reason is not None:
                lost[path] = reason
        return digests

    def _after_command(
        self,
        run: str,
        position: int,
        before: Manifest,
        digests: Mapping[str, str],
        losses: UnrecoverableFiles,
        mark: ChangeMark,
    ) -> None:
        deadline = Deadline(AFTER_SECONDS)
        after = manifest.take_manifest(self.files, deadline, bound=2 * self._caps.entries, known=before)
        others = self.changes.of_others_since(mark, run)
        budget = self.hashed()
        found: list[RecordedChange] = []
        for difference in manifest.iterate_differences(before, after):
            deadline.check()
            change = self._find_change(difference, digests.get(difference.path), budget)
            if change is not None and not _is_of(others.get(change.path, ()), change.after):
                found.append(change)
        for path in manifest.list_unreadable(before, after):
            found.append(RecordedChange(path, FileImage.of(before.entries[path], digests.get(path)), None))
        not_undone = [render_path(path) for path in manifest.list_changed_exclusions(before, after)]
        note = {**losses.to_dict(), "isOver": True, "notUndone": not_undone}
        self.changes.add(run, position, found, note)

    def _find_change(self, difference: Difference, digest: str | None, budget: Budget) -> RecordedChange | None:
        """Return the change at a path, or None if there is none."""
        old, new = FileImage.of(difference.before, digest), FileImage.of(difference.after)
        # Where nothing was kept, a hash of what is there now would have nothing to be compared with.
        if new.kind == "file" and (old.kind != "file" or digest is not None):
            new = self.imager.image_of(difference.path, difference.after, budget)
        return None if old.is_like(new) else RecordedChange(difference.path, old, new)

    @contextmanager
    def _unless_it_fails(self) -> Iterator[None]:
        """Log failures: the operation has ended, so they are not its own, and undo will report an unknown change."""
        try:
            yield
        except (OSError, WapError) as error:
            self._log.warning("wap: what a run changed could not be recorded: %s", error)


def _is_of(others: list[FileImage | None] | tuple[()], after: FileImage | None) -> bool:
    """Return whether another run or call has recorded this image, or is about to."""
    return any(other is None or (after is not None and other.is_like(after)) for other in others)
