"""The audit: what was asked, by whom, and how it ended. Paths and commands, never contents or output.

One thread owns the database. Whoever must not act unrecorded waits for the commit; reads are committed in groups, and
everything that can be left to the writing thread (times as text, ids, JSON) is left to it.
"""

from __future__ import annotations

import itertools
import json
import logging
import secrets
import sqlite3
import threading
import time
from collections import deque
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Literal

from wap_kernel.caller import Caller
from wap_kernel.errors import ApprovalRequired, NoSpace, PermissionDenied, ProviderUnavailable, WapError
from wap_kernel.files.paths import display
from wap_kernel.operations import Effect, Operation
from wap_kernel.runs import store

GROUP_SECONDS = 0.05
"""How long the record of a read may wait for company."""

Outcome = Literal["ok", "denied", "failed"]


class Unparsed:
    """Stands for an operation that could not be made out of a request."""

    effect = Effect.READ

    def __init__(self, tool: str) -> None:
        self.kind = tool

    def summary(self) -> dict[str, object]:
        return {}


def is_denial(error: WapError) -> bool:
    return isinstance(error, (PermissionDenied, ApprovalRequired))


class Record:
    """An operation under way. It gives an intent (unless it is denied) and an outcome, under one id."""

    __slots__ = ("caller", "number", "operation", "started")

    def __init__(self, operation: Operation | Unparsed, caller: Caller, number: int) -> None:
        self.operation = operation
        self.caller = caller
        self.number = number
        self.started = time.monotonic()


@dataclass(frozen=True)
class _Row:
    record: Record
    at: float
    outcome: Outcome | None = None
    error: WapError | None = None
    duration: float | None = None


_Item = tuple[_Row, "Future[None] | None"]

_INSERT = """
INSERT INTO audit (operation_id, phase, at, operation, workspace, user, agent, session, token, summary,
                   outcome, code, error, duration_ms)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""


class Audit:
    def __init__(self, state_dir: str, workspace: str, log: logging.Logger) -> None:
        self._workspace = workspace
        self._log = log
        self._connection = store.connect(state_dir)
        self._prefix = secrets.token_hex(8)
        self._numbers = itertools.count(1)
        self._pending: deque[_Item] = deque()
        self._something = threading.Event()
        self._urgent = threading.Event()
        self._closing = False
        self._thread = threading.Thread(target=self._write, name="wap-audit", daemon=True)
        self._thread.start()

    def record(self, operation: Operation | Unparsed, caller: Caller) -> Record:
        return Record(operation, caller, next(self._numbers))

    def refused(self, tool: str, error: WapError, caller: Caller) -> None:
        """A request that never became an operation."""
        self.outcome(self.record(Unparsed(tool), caller), "denied" if is_denial(error) else "failed", error)

    def intent(self, record: Record) -> None:
        """Must be written before the operation acts; raises if it cannot be, so that nothing acts unrecorded."""
        row = _Row(record, time.time())
        if record.operation.effect is Effect.READ:
            self._put(row, None)
        else:
            self._commit(row)

    def outcome(self, record: Record, outcome: Outcome, error: WapError | None = None) -> None:
        """Written before the answer. What happened has happened: a failure to write is logged, not raised."""
        row = _Row(record, time.time(), outcome, error, time.monotonic() - record.started)
        if record.operation.effect is Effect.READ:
            self._put(row, None)
            return
        try:
            self._commit(row)
        except WapError as failure:
            self._log.error("audit: the outcome of %s could not be written: %s", self._id(record), failure)

    def close(self) -> None:
        self._closing = True
        self._urgent.set()
        self._something.set()
        self._thread.join()
        self._connection.close()

    def _put(self, row: _Row, waiter: Future[None] | None) -> None:
        self._pending.append((row, waiter))
        if waiter is not None:
            self._urgent.set()
        # Set from the first record of a group until the group is taken, so that further reads wake nobody.
        if not self._something.is_set():
            self._something.set()

    def _commit(self, row: _Row) -> None:
        done: Future[None] = Future()
        self._put(row, done)
        try:
            done.result()
        except Exception as error:  # noqa: BLE001 - whatever it is, the operation must not go on unrecorded
            if "full" in str(error):
                raise NoSpace(
                    "No space left for the audit, so nothing was changed.", hint="Free some space and try again."
                ) from None
            raise ProviderUnavailable(
                "The audit cannot be written, so nothing was changed.", hint="The server's log says why."
            ) from None

    # -- the writing thread

    def _write(self) -> None:
        while not (self._closing and not self._pending):
            self._something.wait()
            self._urgent.wait(GROUP_SECONDS)
            if not self._closing:
                self._urgent.clear()
                self._something.clear()
            group = [self._pending.popleft() for _ in range(len(self._pending))]
            if group:
                self._insert(group)

    def _insert(self, group: list[_Item]) -> None:
        failure: Exception | None = None
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            self._connection.executemany(_INSERT, [self._columns(row) for row, _ in group])
            self._connection.execute("COMMIT")
        except Exception as error:  # noqa: BLE001 - handed to those who wait; this thread must never die
            failure = error
            with suppress(sqlite3.Error):
                self._connection.rollback()
            self._log.error("audit: %d records could not be written: %s", len(group), error)
        for _, waiter in group:
            if waiter is not None:
                if failure is None:
                    waiter.set_result(None)
                else:
                    waiter.set_exception(failure)

    def _columns(self, row: _Row) -> tuple[object, ...]:
        operation, caller, error = row.record.operation, row.record.caller, row.error
        moment = datetime.fromtimestamp(row.at, timezone.utc).isoformat(timespec="milliseconds")
        return (
            *(self._id(row.record), "intent" if row.outcome is None else "outcome", moment.replace("+00:00", "Z")),
            *(operation.kind, self._workspace, caller.user, caller.agent, caller.session, caller.token),
            *(json.dumps(operation.summary()), row.outcome),
            *((error.code.value, display(error.message)) if error else (None, None)),
            None if row.duration is None else round(row.duration * 1000, 3),
        )

    def _id(self, record: Record) -> str:
        return f"{self._prefix}-{record.number}"
