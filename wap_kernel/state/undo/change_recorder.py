"""Undo: before an operation of a run changes something, what stands there is kept.

A file operation tells what it will change. A command does not, so a manifest of the whole workspace is taken before and
after it, and all that is within the caps is kept before it. Whatever somebody else changes while a command runs counts
as the command's, but for what other runs and single calls have recorded.
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
from wap_kernel.model.deadline import Deadline
from wap_kernel.model.errors import WapError
from wap_kernel.model.limits import MAX_HASHED_BYTES
from wap_kernel.model.operations import GitAction, Operation, RunCommand, WriteFile
from wap_kernel.model.paths import render_path
from wap_kernel.state.database import Database
from wap_kernel.state.undo import manifest
from wap_kernel.state.undo.blob_store import Blobs
from wap_kernel.state.undo.change_store import NO_RUN, Change, Changes, Mark
from wap_kernel.state.undo.concurrent_calls import Beside
from wap_kernel.state.undo.file_image import ABSENT, Image
from wap_kernel.state.undo.imager import Budget, Imager
from wap_kernel.state.undo.manifest import REASONS, Difference, Manifest
from wap_kernel.state.undo.targets import targets

AFTER_SECONDS = 120.0
"""What it may take to find out what a command changed, also when the command itself was cancelled."""
HASHED_BESIDE = 64 * 1024 * 1024
"""Bytes that a single call waits for; of the rest size and times must do to tell it."""
MAX_NAMED = 1000
"""Paths in a note."""

Readable = Callable[[str], bool]
"""Whether somebody may read what stands at a path."""
Nameable = Callable[[str], bool]
"""Whether somebody may know what it is called."""


@dataclass(frozen=True)
class Caps:
    """What is kept at most for one operation; the rest is named before the operation is performed."""

    per_file: int = 16 * 1024 * 1024
    total: int = 512 * 1024 * 1024
    entries: int = 200_000
    """Files and folders that a manifest holds."""


@dataclass(frozen=True)
class NotKept:
    """What could not be brought back if it were changed."""

    files: Mapping[str, str] = field(default_factory=dict)
    """Paths and why."""
    places: Mapping[str, str] = field(default_factory=dict)
    """Folders (and `.git` files) with all that is below, and why."""

    def __bool__(self) -> bool:
        return bool(self.files or self.places)

    def visible(self, nameable: Nameable) -> NotKept:
        """What of it may be named to somebody: a listing would not show them the rest either."""
        return NotKept(
            {path: reason for path, reason in self.files.items() if nameable(path)},
            {path: reason for path, reason in self.places.items() if nameable(path)},
        )

    def to_dict(self) -> dict[str, Any]:
        named = [
            {"path": render_path(path), "reason": reason} for path, reason in {**self.places, **self.files}.items()
        ]
        more = len(named) - MAX_NAMED
        return {"notKept": named[:MAX_NAMED], **({"more": more} if more > 0 else {})}


Notice = Callable[[NotKept], None]


class Snapshots:
    """`files` are guarded by what is protected always, and by nothing of the policy: a command may change what its
    caller may not read."""

    def __init__(
        self, files: RestorableFiles, database: Database, state_dir: str, caps: Caps, log: logging.Logger
    ) -> None:
        self.files = files
        self.state_dir = state_dir
        self.blobs = Blobs(state_dir)
        self.changes = Changes(database)
        self.imager = Imager(files, self.blobs)
        self._beside = Beside(state_dir)
        self._caps = caps
        self._log = log

    def announced(self, operation: Operation, deadline: Deadline) -> AbstractContextManager[None]:
        """Around `around`, and before any lock on a path is taken: a single call may wait for that, and the command
        waits for the call."""
        return self._beside.command(deadline) if isinstance(operation, RunCommand | GitAction) else nullcontext()

    @contextmanager
    def around(
        self, operation: Operation, run: str, position: int, deadline: Deadline, notice: Notice
    ) -> Iterator[None]:
        """Perform the operation inside. What it will change is stored before, or the operation is refused."""
        if isinstance(operation, RunCommand | GitAction):  # which tells no more than a command what it will change
            with self._around_command(run, position, deadline, notice):
                yield
            return
        lost: dict[str, str] = {}
        before = self._before(operation, lost, deadline)
        if not before:
            yield
            return
        identifiers = self.changes.begin(run, position, before, NotKept(lost).to_dict() if lost else None)
        if lost:
            notice(NotKept(lost))
        with self._ending(operation, before, identifiers, self.hashed()):
            yield

    @contextmanager
    def beside(self, operation: Operation, deadline: Deadline) -> Iterator[None]:
        """Perform a file operation of a single call inside, of which nothing is kept: what it leaves is recorded if a
        command is under way, whose work it would look like."""
        held = self._beside.hold_off()
        is_recorded = held is None
        held = self._beside.recording() if held is None else held
        try:
            looks = self._looks(operation, {}, deadline) if is_recorded else {}
            before = {path: Image.of(look) for path, look in looks.items()}
            if not before:
                yield
                return
            identifiers = self.changes.begin(NO_RUN, 0, before)
            with self._ending(operation, before, identifiers, Budget(self._caps.per_file, HASHED_BESIDE)):
                yield
        finally:
            os.close(held)

    @contextmanager
    def undoing(self, looks: Mapping[str, LinkStat | None]) -> Iterator[None]:
        """Undo an atomic run at these paths inside. That is recorded as the run's when it is done; until then it is not
        to be taken for the work of another run's command either."""
        before = {path: Image.of(look) for path, look in looks.items()}
        identifiers = self.changes.begin(NO_RUN, 0, before)
        try:
            yield
        finally:
            with self._unless_it_fails():
                budget = self.hashed()
                self.changes.end(before, identifiers, {path: self.imager.image(path, budget) for path in before})

    @contextmanager
    def _ending(
        self, operation: Operation, before: Mapping[str, Image], identifiers: Sequence[int], budget: Budget
    ) -> Iterator[None]:
        """Records what stands there when it is over."""
        is_done = False
        try:
            yield
            is_done = True
        finally:
            with self._unless_it_fails():
                self.changes.end(before, identifiers, self._after(operation, before, is_done, budget))

    def foresee(self, deadline: Deadline) -> NotKept:
        """What could not be brought back if a command changed it now; nothing is kept."""
        before = manifest.take(self.files, deadline, bound=self._caps.entries)
        budget = self.budget()
        lost: dict[str, str] = {}
        for size, path in sorted((look.size, path) for path, look in before.entries.items() if look.kind is FileKind.FILE):
            if size > budget.limit:
                lost[path] = budget.refusal(size)
            else:
                budget.spend(size)
        return NotKept(lost, {path: REASONS[reason] for path, reason in before.excluded.items()})

    def budget(self) -> Budget:
        return Budget(self._caps.per_file, self._caps.total)

    def hashed(self) -> Budget:
        """For a look at what stands there now, which may be more than would be kept."""
        return Budget(MAX_HASHED_BYTES, 2 * self._caps.total)

    def keep(self, looks: Mapping[str, LinkStat | None], budget: Budget, lost: dict[str, str]) -> dict[str, Image]:
        """The images of what stands at these paths, with contents; those that could not be had are added to `lost`."""
        images: dict[str, Image] = {}
        for path, look in looks.items():
            images[path], reason = (ABSENT, None) if look is None else self.imager.keep(path, look, budget)
            if reason is not None:
                lost[path] = reason
        return images

    # -- file operations

    def _before(self, operation: Operation, lost: dict[str, str], deadline: Deadline) -> dict[str, Image]:
        return self.keep(self._looks(operation, lost, deadline), self.budget(), lost)

    def _looks(self, operation: Operation, lost: dict[str, str], deadline: Deadline) -> dict[str, LinkStat | None]:
        """At all that it will change."""
        where = targets(operation, self.files)
        looks: dict[str, LinkStat | None] = {path: self.files.lstat(path) for path in where.paths}
        if where.tree is not None:
            tree = self._tree(where.tree, deadline, lost)
            if where.moved_to is not None:
                new = (where.moved_to + path[len(where.tree) :] for path in tree)
                looks.update({path: self.files.lstat(path) for path in new})
            looks.update(tree)
        return looks

    def _tree(self, path: str, deadline: Deadline, lost: dict[str, str]) -> dict[str, LinkStat | None]:
        look = self.files.lstat(path)
        if look is None or look.kind is not FileKind.FOLDER:
            return {path: look}
        below, is_all = manifest.take_tree(self.files, path, deadline, bound=self._caps.entries)
        if not is_all:
            lost[path] = f"it holds more than {self._caps.entries} files"
        return {path: look, **below}

    def _after(
        self, operation: Operation, before: Mapping[str, Image], is_done: bool, budget: Budget
    ) -> dict[str, Image]:
        if is_done and isinstance(operation, WriteFile) and operation.mode != "append":
            return {path: self._written(path, operation) for path in before}
        return {path: self.imager.image(path, budget) for path in before}

    def _written(self, path: str, operation: WriteFile) -> Image:
        """Whose content is known, so that a small write is not read back."""
        look = self.files.lstat(path)
        if look is not None and look.kind is FileKind.FILE and look.size == len(operation.content):
            return Image.of(look, content_hash.hash_bytes(operation.content).removeprefix("sha256:"))
        return self.imager.image_of(path, look, self.hashed())

    # -- commands

    @contextmanager
    def _around_command(self, run: str, position: int, deadline: Deadline, notice: Notice) -> Iterator[None]:
        mark = self.changes.mark(run)  # first: what others make and end while this looks and keeps is theirs
        before = manifest.take(self.files, deadline, bound=self._caps.entries)
        lost: dict[str, str] = {}
        digests = self._keep_all(before, lost, deadline)
        places = {path: REASONS[reason] for path, reason in before.excluded.items()}
        not_kept = NotKept(lost, places)
        # Until the command has ended the note says that what it changed is not known.
        self.changes.begin_command(run, position, {**not_kept.to_dict(), "isOver": False})
        if not_kept:
            notice(not_kept)
        try:
            yield
        finally:
            with self._unless_it_fails():
                self._after_command(run, position, before, digests, not_kept, mark)

    def _keep_all(self, before: Manifest, lost: dict[str, str], deadline: Deadline) -> dict[str, str]:
        """The digests of the files that were kept. The small ones first: so most of them are."""
        budget = self.budget()
        digests: dict[str, str] = {}
        files = [(look.size, path) for path, look in before.entries.items() if look.kind is FileKind.FILE]
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
        not_kept: NotKept,
        mark: Mark,
    ) -> None:
        deadline = Deadline(AFTER_SECONDS)
        after = manifest.take(self.files, deadline, bound=2 * self._caps.entries, known=before)
        others = self.changes.of_others_since(mark, run)
        budget = self.hashed()
        found: list[Change] = []
        for difference in manifest.differences(before, after):
            deadline.check()
            change = self._settled(difference, digests.get(difference.path), budget)
            if change is not None and not _is_of(others.get(change.path, ()), change.after):
                found.append(change)
        for path in manifest.out_of_sight(before, after):
            found.append(Change(path, Image.of(before.entries[path], digests.get(path)), None))
        not_undone = [render_path(path) for path in manifest.changed_places(before, after)]
        note = {**not_kept.to_dict(), "isOver": True, "notUndone": not_undone}
        self.changes.add(run, position, found, note)

    def _settled(self, difference: Difference, kept: str | None, budget: Budget) -> Change | None:
        """What has changed there, if anything has."""
        old, new = Image.of(difference.before, kept), Image.of(difference.after)
        # Where nothing was kept, a hash of what is there now would have nothing to be compared with.
        if new.kind == "file" and (old.kind != "file" or kept is not None):
            new = self.imager.image_of(difference.path, difference.after, budget)
        return None if old.is_like(new) else Change(difference.path, old, new)

    @contextmanager
    def _unless_it_fails(self) -> Iterator[None]:
        """The operation is over, so whatever goes wrong now is not its failure: undo will say that it does not know."""
        try:
            yield
        except (OSError, WapError) as error:
            self._log.warning("wap: what a run changed could not be recorded: %s", error)


def _is_of(others: list[Image | None] | tuple[()], after: Image | None) -> bool:
    """Whether somebody else has recorded this, or is about to."""
    return any(other is None or (after is not None and other.is_like(after)) for other in others)
