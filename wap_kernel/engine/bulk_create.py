"""Create several files of a run together.

    locks -> each file under a temporary name -> intents and changes, stored -> renames -> folders, synced -> outcomes

Each step is done for all files before the next step begins. If the process dies, a few operations were under way
instead of one: the log names all of them, and each file either exists or does not. Runs on the workspace's threads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import NamedTuple

from wap_kernel.engine.fast_path import FastPath
from wap_kernel.files import content_hash
from wap_kernel.files.contained.atomic_write import PendingSync, StagedFile
from wap_kernel.files.contained.linkless import LinklessFiles
from wap_kernel.files.interface import Locks
from wap_kernel.model.caller import CallContext, Caller
from wap_kernel.model.changes import ABSENT, Change, ChangeKind
from wap_kernel.model.command import CancelToken
from wap_kernel.model.errors import Conflict, ExecutionFailed, WapError
from wap_kernel.model.operations import Operation, WriteFile
from wap_kernel.model.paths import render_path, resolve_lexically
from wap_kernel.model.results import WriteResult
from wap_kernel.state.audit.log import Audit, AuditEntry, AuditRecord, Outcome, classify_failure
from wap_kernel.state.changes.change_log import ChangeLog, LoggedChange
from wap_kernel.state.changes.tree_manifest import make_image

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
    staged: StagedFile | None = None
    row: LoggedChange | None = None
    is_created: bool = False
    hash: str = ""
    error: WapError | None = None
    end: AuditEntry | None = None
    is_skipped: bool = False

    def finish(self) -> None:
        outcome: Outcome = "ok" if self.error is None else classify_failure(self.error)
        self.end = AuditEntry.at_end(self.record, outcome, self.error)

    @property
    def result(self) -> WriteResult | WapError:
        if self.error is not None:
            return self.error
        size = len(self.new.operation.content)
        return WriteResult(path=render_path(self.new.path), bytes_written=size, hash=self.hash)


class BulkCreate:
    """The creation of several files at once."""

    def __init__(self, audit: Audit, locks: Locks, log: ChangeLog, translate: Translate) -> None:
        self._audit = audit
        self._locks = locks
        self._log = log
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
        require_intents = self._audit.intents([one.record for one in creations])
        try:
            for number, one in enumerate(creations):
                self._stage_file(files, one, is_skipped=number > 0 and cancel.requested)
            self._log_changes(creations, run, require_intents)
            self._rename_files([one for one in creations if one.row is not None])
        finally:
            for one in creations:
                if one.staged is not None:
                    one.staged.location.close()
        rows = [(one.row, one.is_created) for one in creations if one.row is not None]
        self._log.finish([row for row, is_made in rows if is_made], [row for row, is_made in rows if not is_made])
        self._audit.outcomes([one.end for one in creations if one.end is not None])

    def _stage_file(self, files: LinklessFiles, one: _Creation, *, is_skipped: bool) -> None:
        if is_skipped:
            one.is_skipped = True
            one.error = ExecutionFailed("The run was cancelled before it came to this.")
            one.finish()
            return
        operation = one.new.operation
        one.record.begin()
        try:
            one.staged = files.stage(operation.path, operation.content)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is audited, and a bug is logged
            self._fail(one, error)

    def _log_changes(self, creations: Sequence[_Creation], run: str, require_intents: Callable[[], None]) -> None:
        staged = [one for one in creations if one.staged is not None]
        try:
            rows = self._log.begin([_make_row(one, run) for one in staged]) if staged else []
            require_intents()
        except WapError as error:
            for one in staged:
                if one.staged is not None:
                    one.staged.discard()
                self._fail(one, error)
        else:
            for one, row in zip(staged, rows, strict=True):
                one.row = row

    def _rename_files(self, creations: Sequence[_Creation]) -> None:
        pending_sync = PendingSync()
        for one in creations:
            try:
                assert one.staged is not None
                pending_sync.add_folder(one.staged.location.fd)
                one.staged.rename(pending_sync)
            except Exception as error:  # noqa: BLE001 - as above
                self._fail(one, error)
                continue
            one.is_created = True
            one.hash = content_hash.hash_bytes(one.new.operation.content)
            one.finish()
        try:
            pending_sync.sync()
        except OSError as error:
            for one in creations:
                if one.error is None:
                    self._fail(one, error)

    def _fail(self, one: _Creation, error: Exception) -> None:
        one.error = self._translate(error, one.new.operation)
        one.finish()


def _make_row(one: _Creation, run: str) -> LoggedChange:
    assert one.staged is not None
    change = Change(one.new.path, ChangeKind.CREATED, ABSENT, make_image(one.staged.stat))
    return LoggedChange(run, one.new.position, change, one.staged.token)
