"""The audit: what was asked, by whom, and how it ended. Paths and commands, never contents or output.

One thread owns the database. Whoever must not act unrecorded waits for the commit; reads are committed in groups.
"""

from __future__ import annotations

import json
import logging
import queue
import sqlite3
import threading
import time
import uuid
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from typing import Literal

from wap_kernel.errors import InternalError, NoSpace, WapError
from wap_kernel.files.paths import display
from wap_kernel.operations import Caller, Effect, Operation
from wap_kernel.runs import store

GROUP_SECONDS = 0.05
"""How long the record of a read may wait for company."""
GROUP_SIZE = 500

Outcome = Literal["ok", "denied", "failed"]


def now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")


@dataclass(frozen=True)
class Record:
    """One row. An operation has an intent (unless it was denied) and an outcome, under one `operation_id`."""

    operation: str
    workspace: str
    caller: Caller
    summary: dict[str, object]
    operation_id: str = field(default_factory=lambda: uuid.uuid4().hex)
    started: float = field(default_factory=time.monotonic)
    phase: Literal["intent", "outcome"] = "intent"
    outcome: Outcome | None = None
    code: str | None = None
    error: str | None = None
    duration_ms: float | None = None
    at: str = field(default_factory=now)

    def ended(self, outcome: Outcome, error: WapError | None = None) -> Record:
        return replace(
            self,
            phase="outcome",
            outcome=outcome,
            code=error.code.value if error else None,
            error=display(error.message) if error else None,
            duration_ms=round((time.monotonic() - self.started) * 1000, 3),
            at=now(),
        )

    def row(self) -> tuple[object, ...]:
        caller = self.caller
        return (
            *(self.operation_id, self.phase, self.at, self.operation, self.workspace),
            *(caller.user, caller.agent, caller.session, json.dumps(self.summary)),
            *(self.outcome, self.code, self.error, self.duration_ms),
        )


_INSERT = """
INSERT INTO audit (operation_id, phase, at, operation, workspace, user, agent, session, summary,
                   outcome, code, error, duration_ms)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""


class Audit:
    def __init__(self, state_dir: str, workspace: str, log: logging.Logger) -> None:
        self._workspace = workspace
        self._log = log
        self._connection = store.connect(state_dir)
        self._queue: queue.SimpleQueue[tuple[Record, Future[None] | None] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._write, name="wap-audit", daemon=True)
        self._thread.start()

    def record(self, operation: Operation, caller: Caller) -> Record:
        return Record(operation.kind, self._workspace, caller, operation.summary())

    def intent(self, record: Record, effect: Effect) -> None:
        """Must be written before the operation acts; raises if it cannot be, so that nothing acts unrecorded."""
        if effect is Effect.READ:
            self._queue.put((record, None))
        else:
            self._commit(record)

    def outcome(self, record: Record, effect: Effect) -> None:
        """Written before the answer. What happened has happened: a failure to write is logged, not raised."""
        if effect is Effect.READ:
            self._queue.put((record, None))
            return
        try:
            self._commit(record)
        except WapError as error:
            self._log.error("audit: the outcome of %s could not be written: %s", record.operation_id, error)

    def close(self) -> None:
        self._queue.put(None)
        self._thread.join()
        self._connection.close()

    def _commit(self, record: Record) -> None:
        done: Future[None] = Future()
        self._queue.put((record, done))
        try:
            done.result()
        except sqlite3.Error as error:
            if "full" in str(error):
                raise NoSpace(
                    "No space left for the audit, so nothing was changed.", hint="Free some space and try again."
                ) from None
            self._log.error("audit: %s", error)
            raise InternalError("The audit cannot be written, so nothing was changed.") from None

    def _write(self) -> None:
        closing = False
        while not closing:
            group = [self._queue.get()]
            deadline = time.monotonic() + GROUP_SECONDS
            # A waiter ends the gathering; until then reads pile up.
            while group[-1] is not None and group[-1][1] is None and len(group) < GROUP_SIZE:
                try:
                    group.append(self._queue.get(timeout=max(0.0, deadline - time.monotonic())))
                except queue.Empty:
                    break
            while group[-1] is not None and len(group) < GROUP_SIZE and not self._queue.empty():
                group.append(self._queue.get())
            closing = group[-1] is None
            self._insert([item for item in group if item is not None])

    def _insert(self, group: list[tuple[Record, Future[None] | None]]) -> None:
        if not group:
            return
        failure: sqlite3.Error | None = None
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            self._connection.executemany(_INSERT, [record.row() for record, _ in group])
            self._connection.execute("COMMIT")
        except sqlite3.Error as error:
            failure = error
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            self._log.error("audit: %d records could not be written: %s", len(group), error)
        for _, waiter in group:
            if waiter is not None:
                if failure is None:
                    waiter.set_result(None)
                else:
                    waiter.set_exception(failure)
