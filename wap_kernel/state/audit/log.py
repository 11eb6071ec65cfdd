"""The audit: what was asked, by whom, and how it ended. Paths and commands, never contents or output.

Whoever must not act unrecorded waits for the commit; the records of reads are committed in groups, and everything that
can be left to the writing thread (times as text, ids, JSON, hashes) is left to it.
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

from wap_kernel.model.call_context import NO_RUN, CallContext
from wap_kernel.model.caller import Caller
from wap_kernel.model.errors import ApprovalRequired, NoSpace, PermissionDenied, ProviderUnavailable, WapError
from wap_kernel.model.operations import Effect, Operation
from wap_kernel.model.timestamps import format_epoch
from wap_kernel.redaction.results import PATTERN_REDACTOR, Redact, redact_value
from wap_kernel.state.audit import hash_chain, query
from wap_kernel.state.audit.hash_chain import ChainHead
from wap_kernel.state.audit.head_log import HeadLog
from wap_kernel.state.audit.query import AuditQuery
from wap_kernel.state.database import Database, wait_for
from wap_kernel.state.json_encoder import make_encoder

SHORTEST_SECRET = 8
"""Characters of a credential, at least."""

Outcome = Literal["ok", "denied", "failed"]
_encode = make_encoder()


class UnparsedOperation:
    """Stands for an operation that could not be made out of a request."""

    effect = Effect.READ

    def __init__(self, tool: str) -> None:
        self.kind = tool

    def summary(self) -> dict[str, object]:
        return {}


def is_denial(error: WapError) -> bool:
    return isinstance(error, (PermissionDenied, ApprovalRequired))


class AuditRecord:
    """An operation under way. It gives an intent (unless it is denied) and an outcome, under one id."""

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
        """Its outcome is there: the intent, if it is not written yet, says nothing that the outcome does not."""

    def begin(self) -> None:
        """What it took begins now: others of the same group came before it."""
        self.started = time.monotonic()


class AuditEntry(NamedTuple):
    """What there is to write of a record, now or at its end."""

    record: AuditRecord
    at: float
    outcome: Outcome | None = None
    error: WapError | None = None
    duration: float | None = None
    exit_code: int = 0
    """Of a command."""

    @classmethod
    def of_end(
        cls, record: AuditRecord, outcome: Outcome, error: WapError | None = None, exit_code: int = 0
    ) -> AuditEntry:
        return cls(record, time.time(), outcome, error, time.monotonic() - record.started, exit_code)


class Audit:
    def __init__(self, database: Database, workspace: str, log: logging.Logger, redact: Redact = PATTERN_REDACTOR) -> None:
        self._database = database
        self._workspace = workspace
        self._log = log
        self._redact = redact
        self._heads = HeadLog(log)
        self._prefix = secrets.token_hex(8)
        self._numbers = itertools.count(1)
        self._reads: deque[AuditEntry] = deque()
        self._is_due = False
        """Whether the writing thread has been told of reads."""
        self._sender: tuple[Caller | None, CallContext | None, dict[str, str | None]] = (None, None, {})
        """Of the last record that was written."""

    def record(
        self,
        operation: Operation | UnparsedOperation,
        caller: Caller,
        context: CallContext = NO_RUN,
        *,
        step: str | None = None,
    ) -> AuditRecord:
        """`step`: the operation's id in the run, where it shares its context with others."""
        return AuditRecord(operation, caller, context, next(self._numbers), step or context.step)

    def refused(
        self,
        tool: str,
        error: WapError,
        caller: Caller,
        operation: Operation | None = None,
        context: CallContext = NO_RUN,
    ) -> None:
        """A request that was not performed, and maybe never became an operation."""
        record = self.record(operation or UnparsedOperation(tool), caller, context)
        self.outcome(record, "denied" if is_denial(error) else "failed", error)

    def intent(self, record: AuditRecord) -> Callable[[], None]:
        """Hand it in. It must be written before the operation acts: call what this returns, which raises if it cannot
        be, so that nothing acts unrecorded. Whoever stores something else in between has waited for it already."""
        if record.operation.effect is Effect.READ:
            self._put_read(AuditEntry(record, time.time()))
            return lambda: None
        return self.intents([record])

    def intents(self, records: Sequence[AuditRecord]) -> Callable[[], None]:
        """Of changes that begin together."""
        now = time.time()
        return partial(self._require, self._hand_in([AuditEntry(record, now) for record in records]))

    def outcome(
        self, record: AuditRecord, outcome: Outcome, error: WapError | None = None, *, exit_code: int = 0
    ) -> None:
        """Written before the answer; that of a run's operation before the next one begins. What happened has happened:
        a failure to write is logged, not raised."""
        entry = AuditEntry.of_end(record, outcome, error, exit_code)
        if record.operation.effect is Effect.READ:
            record.is_over = True
            self._put_read(entry)
            return
        written = self._hand_in([entry])
        if record.context.run is None:
            with suppress(WapError):  # the log has it
                self._require(written)

    def outcomes(self, entries: Sequence[AuditEntry]) -> None:
        """Of changes of a run that began together."""
        self._hand_in(entries)

    def page(self, page: AuditQuery) -> dict[str, Any]:
        """What was recorded of this workspace up to now, for people: `{"records": [...], "nextCursor"?}`.

        Read on the reading connection: looking for something rare may take a while, and mutations must not wait for it.
        """
        with suppress(WapError):  # what cannot be written does not keep the rest from being read
            self._heads.committed(*self._database.write(self._write))
        own = replace(page, workspace=self._workspace)
        return self._database.read(lambda connection: query.read_records(connection, own))

    def close(self) -> None:
        """Write what is left; the database stays open."""
        try:
            self._heads.committed(*self._database.write(self._write))
        except Exception as error:  # noqa: BLE001 - said already where it happened; closing goes on
            self._log.error("audit: the last records could not be written: %s", error)
        self._heads.tell()

    def _put_read(self, entry: AuditEntry) -> None:
        self._reads.append(entry)
        # Set from the first record of a group until the group is taken, so that further reads wake nobody.
        if not self._is_due:
            self._is_due = True
            self._database.later(self._write).add_done_callback(self._written)

    def _hand_in(self, entries: Sequence[AuditEntry]) -> Future[tuple[ChainHead, int]]:
        written = self._database.later(partial(self._write, entries=entries))
        written.add_done_callback(self._written)
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

    def _written(self, done: Future[tuple[ChainHead, int]]) -> None:
        if done.exception() is None:
            self._heads.committed(*done.result())

    # -- on the writing thread

    def _write(self, connection: sqlite3.Connection, *, entries: Sequence[AuditEntry] = ()) -> tuple[ChainHead, int]:
        """All reads so far, and then what somebody waits for. That is never in the queue: whoever waits for it must be
        told of its own failure, not of that of a neighbour who took it along."""
        self._is_due = False
        rows = list(self._taken())
        try:
            rows += map(self._row, entries)
            return hash_chain.append_records(connection, rows), len(rows)
        except Exception as error:
            self._log.error("audit: %d records could not be written: %s", len(rows), error)
            raise

    def _taken(self) -> Iterator[dict[str, Any]]:
        for _ in range(len(self._reads)):
            entry = self._reads.popleft()
            if entry.outcome is None and entry.record.is_over:
                continue
            try:
                yield self._row(entry)
            except Exception as error:  # noqa: BLE001 - one that cannot be written must not keep others out
                self._log.error("audit: %s could not be written: %s", self._id(entry.record), error)

    def _row(self, entry: AuditEntry) -> dict[str, Any]:
        record, error = entry.record, entry.error
        return {
            **self._of_sender(record.caller, record.context),
            "operation_id": self._id(record),
            "phase": "intent" if entry.outcome is None else "outcome",
            "at": format_epoch(entry.at),
            "operation": _plain(record.operation.kind),
            "summary": _encode(redact_value(_summary(entry), self._redact)),
            "outcome": entry.outcome,
            "code": None if error is None else error.code.value,
            "error": None if error is None else _plain(self._redact(error.audit_text)),
            "duration_ms": None if entry.duration is None else round(entry.duration * 1000, 3),
            "step": _plain(self._named(record.step)),
        }

    def _named(self, name: str | None) -> str | None:
        """What callers call themselves and their operations; short ones, as most are, hold no credential."""
        return name if name is None or len(name) < SHORTEST_SECRET else self._redact(name)

    def _of_sender(self, caller: Caller, context: CallContext) -> dict[str, str | None]:
        """The columns that all records of a batch have alike, made once for those that follow each other."""
        known_caller, known_context, known = self._sender
        if known_caller is caller and known_context is context:
            return known
        columns = {
            "workspace": self._workspace,
            "user": _plain(self._named(caller.user)),
            "agent": _plain(self._named(caller.agent)),
            "session": _plain(self._named(caller.session)),
            "token": caller.token,
            "dialect": context.dialect,
            "tool": _plain(self._named(context.tool)),
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


def _plain(text: str | None) -> str | None:
    """Names that are not UTF-8, which SQLite does not take, with their bytes escaped."""
    return text if text is None or text.isascii() else text.encode("utf-8", "backslashreplace").decode("utf-8")
