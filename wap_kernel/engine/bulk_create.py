"""New files of a run, several at a time.

    locks -> intents and before-images, stored together -> each file -> their folders, synced once -> outcomes

Each step is done for all of them before the next begins, but for the files, which are made one after the other. So what
was under way when the process died is a few operations instead of one; all of them are known, and each file is there or
is not. Runs on the workspace's threads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import NamedTuple

from wap_kernel.engine.fast_path import FastPath
from wap_kernel.files import content_hash
from wap_kernel.files.contained.atomic_write import Unsettled
from wap_kernel.files.contained.linkless import Direct
from wap_kernel.files.interface import Locks
from wap_kernel.model.call_context import CallContext
from wap_kernel.model.caller import Caller
from wap_kernel.model.command import CancelToken
from wap_kernel.model.errors import Conflict, ExecutionFailed, WapError
from wap_kernel.model.operations import Operation, WriteFile
from wap_kernel.model.paths import render_path, resolve_lexically
from wap_kernel.model.results import WriteResult
from wap_kernel.state.audit.log import Audit, Entry, Outcome, Record, is_denial
from wap_kernel.state.undo.change_store import Changes
from wap_kernel.state.undo.file_image import ABSENT, Image

Translate = Callable[[Exception, Operation], WapError]


class NewFile(NamedTuple):
    """An operation of a run that is to make a file, see `Plain.makes`."""

    position: int
    step: str
    operation: WriteFile

    @property
    def path(self) -> str:
        """Where it will really be: no link is on the way."""
        return resolve_lexically(self.operation.path)


@dataclass
class _Made:
    """One of them, while it is made."""

    new: NewFile
    record: Record
    image: Image = ABSENT
    hash: str = ""
    error: WapError | None = None
    end: Entry | None = None
    is_left_out: bool = False

    def ended(self) -> None:
        outcome: Outcome = "ok" if self.error is None else "denied" if is_denial(self.error) else "failed"
        self.end = Entry.of_end(self.record, outcome, self.error)

    @property
    def result(self) -> WriteResult | WapError:
        if self.error is not None:
            return self.error
        size = len(self.new.operation.content)
        return WriteResult(path=render_path(self.new.path), bytes_written=size, hash=self.hash)


class BulkCreate:
    def __init__(self, audit: Audit, locks: Locks, changes: Changes, translate: Translate) -> None:
        self._audit = audit
        self._locks = locks
        self._changes = changes
        self._translate = translate

    def make(
        self, plain: FastPath, wanted: Sequence[NewFile], caller: Caller, context: CallContext, cancel: CancelToken
    ) -> list[WriteResult | WapError]:
        """What became of the first of them, as many as could be made in this way; of the others nothing is known, and
        the first of them is for the pipeline. Their paths must be different."""
        assert plain.files is not None, "nothing is plain"
        try:
            with self._locks.hold(*(new.path for new in wanted)):
                # Looked at under the locks: of two who make the same file one finds it there.
                free = list(takewhile(lambda new: plain.is_free(new.operation.path), wanted))
                if not free:
                    return []
                made = [_Made(new, self._audit.record(new.operation, caller, context, step=new.step)) for new in free]
                self._make(plain.files, made, str(context.run), cancel)
        except Conflict:  # somebody holds one of the locks: the others need not wait for it
            return []
        return [one.result for one in takewhile(lambda one: not one.is_left_out, made)]

    def _make(self, files: Direct, made: Sequence[_Made], run: str, cancel: CancelToken) -> None:
        # Their intents are handed in before the before-images are, and so stored with them or before them.
        require_intents = self._audit.intents([one.record for one in made])
        try:
            rows = self._changes.begin_new(run, {one.new.position: one.new.path for one in made})
            require_intents()
        except WapError as error:
            for one in made:
                one.error = error
                one.ended()
        else:
            self._make_files(files, made, cancel)
            self._changes.end_new({row: one.image for row, one in zip(rows, made, strict=True)})
        self._audit.outcomes([one.end for one in made if one.end is not None])

    def _make_files(self, files: Direct, made: Sequence[_Made], cancel: CancelToken) -> None:
        unsettled = Unsettled()
        for number, one in enumerate(made):
            if number and cancel.requested:
                one.is_left_out = True
                one.error = ExecutionFailed("The run was cancelled before it came to this.")
            else:
                self._make_file(files, one, unsettled)
            one.ended()
        try:
            unsettled.settle()
        except OSError as error:
            for one in made:
                one.error = one.error or self._translate(error, one.new.operation)
                one.ended()

    def _make_file(self, files: Direct, one: _Made, unsettled: Unsettled) -> None:
        operation = one.new.operation
        one.record.begin()
        try:
            look = files.create(operation.path, operation.content, unsettled)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is audited, and a bug is logged
            one.error = self._translate(error, operation)
            return
        one.hash = content_hash.of_bytes(operation.content)
        one.image = Image.of(look, one.hash.removeprefix("sha256:"))
