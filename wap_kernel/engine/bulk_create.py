"""Create several files of a run together.

    locks -> intents and before-images, stored together -> each file -> their folders, synced once -> outcomes

Each step is done for all files before the next step begins; only the files are created one after the other. If the
process dies, a few operations were under way instead of one: their intents name all of them, and each file either
exists or does not. Runs on the workspace's threads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import NamedTuple

from wap_kernel.engine.fast_path import FastPath
from wap_kernel.files import content_hash
from wap_kernel.files.contained.atomic_write import PendingSync
from wap_kernel.files.contained.linkless import LinklessFiles
from wap_kernel.files.interface import Locks
from wap_kernel.model.caller import CallContext, Caller
from wap_kernel.model.command import CancelToken
from wap_kernel.model.errors import Conflict, ExecutionFailed, WapError
from wap_kernel.model.operations import Operation, WriteFile
from wap_kernel.model.paths import render_path, resolve_lexically
from wap_kernel.model.results import WriteResult
from wap_kernel.state.audit.log import Audit, AuditEntry, AuditRecord, Outcome, is_denial
from wap_kernel.state.undo.change_store import ChangeStore
from wap_kernel.state.undo.file_image import ABSENT, FileImage

Translate = Callable[[Exception, Operation], WapError]


class NewFile(NamedTuple):
    """An operation of a run that is to create a file, see `FastPath.accepts`."""

    position: int
    step: str
    operation: WriteFile

    @property
    def path(self) -> str:
        """Return the real path of the file: the fast path follows no link."""
        return resolve_lexically(self.operation.path)


@dataclass
class _Creation:
    """The creation of one file, while it is under way."""

    new: NewFile
    record: AuditRecord
    image: FileImage = ABSENT
    hash: str = ""
    error: WapError | None = None
    end: AuditEntry | None = None
    is_skipped: bool = False

    def finish(self) -> None:
        outcome: Outcome = "ok" if self.error is None else "denied" if is_denial(self.error) else "failed"
        self.end = AuditEntry.at_end(self.record, outcome, self.error)

    @property
    def result(self) -> WriteResult | WapError:
        if self.error is not None:
            return self.error
        size = len(self.new.operation.content)
        return WriteResult(path=render_path(self.new.path), bytes_written=size, hash=self.hash)


class BulkCreate:
    """The creation of several files at once."""

    def __init__(self, audit: Audit, locks: Locks, changes: ChangeStore, translate: Translate) -> None:
        self._audit = audit
        self._locks = locks
        self._changes = changes
        self._translate = translate

    def create(
        self, fast_path: FastPath, files: Sequence[NewFile], caller: Caller, context: CallContext, cancel: CancelToken
    ) -> list[WriteResult | WapError]:
        """Create the first of `files`, as many as the fast path can, and return their results.

        The next one is for the pipeline. The paths must be different.
        """
        assert fast_path.files is not None, "the fast path is closed"
        try:
            with self._locks.hold(*(new.path for new in files)):
                # Checked under the locks: of two runs that create the same file the second one sees it.
                free = list(takewhile(lambda new: fast_path.is_free(new.operation.path), files))
                if not free:
                    return []
                creations = [
                    _Creation(new, self._audit.record(new.operation, caller, context, step=new.step)) for new in free
                ]
                self._create(fast_path.files, creations, str(context.run), cancel)
        except Conflict:  # another operation holds one of the locks: the other files need not wait for it
            return []
        return [one.result for one in takewhile(lambda one: not one.is_skipped, creations)]

    def _create(self, files: LinklessFiles, creations: Sequence[_Creation], run: str, cancel: CancelToken) -> None:
        # The intents enter the queue before the before-images do, so they are stored with them or before them.
        require_intents = self._audit.intents([one.record for one in creations])
        try:
            rows = self._changes.begin_new(run, {one.new.position: one.new.path for one in creations})
            require_intents()
        except WapError as error:
            for one in creations:
                one.error = error
                one.finish()
        else:
            self._create_files(files, creations, cancel)
            self._changes.end_new({row: one.image for row, one in zip(rows, creations, strict=True)})
        self._audit.outcomes([one.end for one in creations if one.end is not None])

    def _create_files(self, files: LinklessFiles, creations: Sequence[_Creation], cancel: CancelToken) -> None:
        pending_sync = PendingSync()
        for number, one in enumerate(creations):
            if number and cancel.requested:
                one.is_skipped = True
                one.error = ExecutionFailed("The run was cancelled before it came to this.")
            else:
                self._create_file(files, one, pending_sync)
            one.finish()
        try:
            pending_sync.sync()
        except OSError as error:
            for one in creations:
                one.error = one.error or self._translate(error, one.new.operation)
                one.finish()

    def _create_file(self, files: LinklessFiles, one: _Creation, pending_sync: PendingSync) -> None:
        operation = one.new.operation
        one.record.begin()
        try:
            stat = files.create(operation.path, operation.content, pending_sync)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is audited, and a bug is logged
            one.error = self._translate(error, operation)
            return
        one.hash = content_hash.hash_bytes(operation.content)
        one.image = FileImage.of(stat, one.hash.removeprefix("sha256:"))
