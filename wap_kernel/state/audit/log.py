"""Record every operation, its caller and its outcome: paths and commands, never contents or output.

An operation that changes something waits until its intent is committed. The records of reads are committed in groups,
and the writing thread does everything that it can (times as text, ids, JSON, hashes).
"""

from __future__ import annotations

import itertools
import logging
import secrets
import sqlite3
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, Literal, NamedTuple

from wap_kernel.model.caller import NO_RECORDER, NO_RUN, CallContext, Caller
from wap_kernel.model.errors import ApprovalRequired, NoSpace, PermissionDenied, ProviderUnavailable, WapError
from wap_kernel.model.operations import Effect, Operation
from wap_kernel.model.text import format_epoch
from wap_kernel.redaction.results import PATTERN_REDACTOR, Redact, redact_value
from wap_kernel.state.audit import hash_chain, query
from wap_kernel.state.audit.hash_chain import ChainHead
from wap_kernel.state.audit.head_log import HeadLog
from wap_kernel.state.audit.query import AuditQuery
from wap_kernel.state.database import Database, wait_for
from wap_kernel.state.json_encoder import make_encoder

SHORTEST_SECRET = 8
"""Characters that a credential has at least."""

Outcome = Literal["ok", "asked", "denied", "failed"]
_encode = make_encoder()


class UnparsedOperation:
    """A request that is not a valid operation, for the audit."""

    effect = Effect.READ

    def __init__(self, tool: str) -> None:
        self.kind = tool

    def summary(self) -> dict[str, object]:
        return {}


def classify_failure(error: WapError) -> Outcome:
    """Return the outcome of an operation that ended with this error."""
    if isinstance(error, ApprovalRequired):
        return "asked"
    return "denied" if isinstance(error, PermissionDenied) else "failed"


class AuditRecord:
    """An operation that runs. It has an intent (unless it is denied or asked about) and an outcome, under one id."""

    __slots__ = ("caller", "context", "is_over", "number", "operation", "started", "step")

    def __init__(
        self,
        operation: Operation | UnparsedOperation,
        caller: Caller,
        context: CallContext,
        number: int,
        step: str | None,
    ) -> None:
        self.operation = operation
        self.caller = caller
        self.context = context
        self.number = number
        self.step = step
        self.started = time.monotonic()
        self.is_over = False
        """True if the outcome is known: an intent that is not written yet is then left out."""

    def begin(self) -> None:
        """Restart the duration, once the operations before it in its group have ended."""
        self.started = time.monotonic()


class AuditEntry(NamedTuple):
    """The intent or the outcome of a record, to be written."""

    record: AuditRecord
    at: float
    outcome: Outcome | None = None
    error: WapError | None = None
    duration: float | None = None
    exit_code: int = 0
    """The exit code of a command."""

    @classmethod
    def at_end(
        cls, record: AuditRecord, outcome: Outcome, error: WapError | None = None, exit_code: int = 0
    ) -> AuditEntry:
        return cls(record, time.time(), outcome, error, time.monotonic() - record.started, exit_code)


class Audit:
    """The audit of one workspace."""

    def __init__(
        self, database: Database, workspace: str, log: logging.Logger, redact: Redact = PATTERN_REDACTOR
    ) -> None:
        self._database = database
        self._workspace = workspace
        self._log = log
        self._redact = redact
        self._head_log = HeadLog(log)
        self._prefix = secrets.token_hex(8)
        self._numbers = itertools.count(1)
        self._reads: deque[AuditEntry] = deque()
        self._is_due = False
        """True if a write of the queued reads is enqueued."""
        self._sender: tuple[Caller | None, CallContext | None, dict[str, str | None]] = (None, None, {})
        """Caller and context of the last record that was written, and their columns."""

    def record(
        self,
        operation: Operation | UnparsedOperation,
        caller: Caller,
        context: CallContext = NO_RUN,
        *,
        step: str | None = None,
    ) -> AuditRecord:
        """Return a new record. `step` is the operation's id in the run, if it shares its context with others."""
        return AuditRecord(operation, caller, context, next(self._numbers), step or context.step)

    def refused(
        self,
        tool: str,
        error: WapError,
        caller: Caller,
        operation: Operation | None = None,
        context: CallContext = NO_RUN,
    ) -> None:
        """Record a request that was not performed, and may not be a valid operation."""
        record = self.record(operation or UnparsedOperation(tool), caller, context)
        self.outcome(record, classify_failure(error), error)

    def intent(self, record: AuditRecord) -> Callable[[], None]:
        """Enqueue the intent, and return a function that waits until it is written.

        Call that function before the operation acts: it raises if the intent cannot be written, so that nothing acts
        unrecorded. A write to the database in between makes the wait short.
        """
        if record.operation.effect is Effect.READ:
            self._put_read(AuditEntry(record, time.time()))
            return lambda: None
        return self.intents([record])

    def intents(self, records: Sequence[AuditRecord]) -> Callable[[], None]:
        """Enqueue the intents of operations that begin together, as `intent` does."""
        now = time.time()
        return partial(self._require, self._hand_in([AuditEntry(record, now) for record in records]))

    def outcome(
        self, record: AuditRecord, outcome: Outcome, error: WapError | None = None, *, exit_code: int = 0
    ) -> None:
        """Write the outcome before the caller gets the result; in a run, before the next operation begins.

        A failure to write is logged, not raised: the operation has happened.
        """
        entry = AuditEntry.at_end(record, outcome, error, exit_code)
        if record.operation.effect is Effect.READ:
            record.is_over = True
            self._put_read(entry)
            return
        written = self._hand_in([entry])
        if record.context.run is None or record.context.recorder is not NO_RECORDER:  # a single call
            with suppress(WapError):  # the log has it
                self._require(written)

    def outcomes(self, entries: Sequence[AuditEntry]) -> None:
        """Enqueue the outcomes of a run's operations that began together."""
        self._hand_in(entries)

    def page(self, page: AuditQuery) -> dict[str, Any]:
        """Return the records of this workspace up to now: `{"records": [...], "nextCursor"?}`.

        A search for something rare may take a while, so it uses a reading connection: changes must not wait for it.
        """
        with suppress(WapError):  # the stored records can be read even if new ones cannot be written
            self._head_log.note_commit(*self._database.write(self._write))
        own = replace(page, workspace=self._workspace)
        return self._database.read(lambda connection: query.read_records(connection, own))

    def close(self) -> None:
        """Write the last records; the database stays open."""
        try:
            self._head_log.note_commit(*self._database.write(self._write))
        except Exception as error:  # noqa: BLE001 - logged; closing goes on
            self._log.error("audit: the last records could not be written: %s", error)
        self._head_log.write()

    def _put_read(self, entry: AuditEntry) -> None:
        self._reads.append(entry)
        # Set from the first record of a group until the group is taken, so that further reads enqueue nothing.
        if not self._is_due:
            self._is_due = True
            self._database.enqueue(self._write).add_done_callback(self._note_written)

    def _hand_in(self, entries: Sequence[AuditEntry]) -> Future[tuple[ChainHead, int]]:
        written = self._database.enqueue(partial(self._write, entries=entries))
        written.add_done_callback(self._note_written)
        return written

    def _require(self, written: Future[tuple[ChainHead, int]]) -> None:
        try:
            if not written.done():
                self._database.write(lambda _: None)
            wait_for(written)
        except NoSpace:
            raise NoSpace(
                "No space left for the audit, so nothing was changed.", hint="Free some space and try again."
            ) from None
        except Exception:  # noqa: BLE001 - whatever it is, the operation must not go on unrecorded
            raise ProviderUnavailable(
                "The audit cannot be written, so nothing was changed.", hint="The server's log says why."
            ) from None

    def _note_written(self, done: Future[tuple[ChainHead, int]]) -> None:
        if done.exception() is None:
            self._head_log.note_commit(*done.result())

    # -- on the writing thread

    def _write(self, connection: sqlite3.Connection, *, entries: Sequence[AuditEntry] = ()) -> tuple[ChainHead, int]:
        """Write all queued reads, and then `entries`, for which a thread waits.

        `entries` are never in the queue: the thread must get the failure of its own entries, not of another write that
        took them along.
        """
        self._is_due = False
        rows = list(self._take_reads())
        try:
            rows += map(self._row, entries)
            return hash_chain.append_records(connection, rows), len(rows)
        except Exception as error:
            self._log.error("audit: %d records could not be written: %s", len(rows), error)
            raise

    def _take_reads(self) -> Iterator[dict[str, Any]]:
        for _ in range(len(self._reads)):
            entry = self._reads.popleft()
            if entry.outcome is None and entry.record.is_over:
                continue
            try:
                yield self._row(entry)
            except Exception as error:  # noqa: BLE001 - one that cannot be written must not keep the others out
                self._log.error("audit: %s could not be written: %s", self._id(entry.record), error)

    def _row(self, entry: AuditEntry) -> dict[str, Any]:
        record, error = entry.record, entry.error
        return {
            **self._sender_columns(record.caller, record.context),
            "operation_id": self._id(record),
            "phase": "intent" if entry.outcome is None else "outcome",
            "at": format_epoch(entry.at),
            "operation": _escape_invalid(record.operation.kind),
            "summary": _encode(redact_value(_summary(entry), self._redact)),
            "outcome": entry.outcome,
            "code": None if error is None else error.code.value,
            "error": None if error is None else _escape_invalid(self._redact(error.audit_text)),
            "duration_ms": None if entry.duration is None else round(entry.duration * 1000, 3),
            "step": _escape_invalid(self._redact_name(record.step)),
        }

    def _redact_name(self, name: str | None) -> str | None:
        """Return a name that the caller chose, redacted unless it is too short to hold a credential."""
        return name if name is None or len(name) < SHORTEST_SECRET else self._redact(name)

    def _sender_columns(self, caller: Caller, context: CallContext) -> dict[str, str | None]:
        """Return the columns of caller and context, computed once for records that follow each other."""
        known_caller, known_context, known = self._sender
        if known_caller is caller and known_context is context:
            return known
        columns = {
            "workspace": self._workspace,
            "user": _escape_invalid(self._redact_name(caller.user)),
            "agent": _escape_invalid(self._redact_name(caller.agent)),
            "session": _escape_invalid(self._redact_name(caller.session)),
            "notebook": _escape_invalid(self._redact_name(caller.notebook)),
            "token": caller.token,
            "dialect": context.dialect,
            "tool": _escape_invalid(self._redact_name(context.tool)),
            "run": context.run,
        }
        self._sender = (caller, context, columns)
        return columns

    def _id(self, record: AuditRecord) -> str:
        return f"{self._prefix}-{record.number}"


def _summary(entry: AuditEntry) -> dict[str, object]:
    summary = entry.record.operation.summary()
    if entry.record.context.dry_run:
        summary = {**summary, "dryRun": True}
    return {**summary, "exitCode": entry.exit_code} if entry.exit_code else summary


def _escape_invalid(text: str | None) -> str | None:
    """Return the text with bytes that are not UTF-8 escaped, for SQLite does not take them."""
    return text if text is None or text.isascii() else text.encode("utf-8", "backslashreplace").decode("utf-8")
