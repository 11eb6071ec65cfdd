"""The rows of runs: what was asked, what happened so far, what waits for a person.

Every change is one transaction, so that whoever looks after a crash finds either all of it or nothing. A run belongs to
the process whose lease is its `owner`; who waits for a person belongs to nobody and is taken over with the decision.
"""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from wap_kernel.model.caller import Caller
from wap_kernel.model.errors import NotFound
from wap_kernel.model.run import Approval, BatchOptions, Run, RunStatus, Step, dump_steps
from wap_kernel.model.timestamps import utc_now
from wap_kernel.runs.store import rows
from wap_kernel.runs.store.rows import Event
from wap_kernel.state.database import Database

LOCKS = 64
"""Runs whose changes of status do not wait for each other."""
MAX_LOG_READ_CHARACTERS = 4 * 1024 * 1024
"""Characters of a log that are read at once."""


@dataclass(frozen=True)
class NewRun:
    id: str
    caller: Caller
    dialect: str
    options: BatchOptions
    steps: tuple[Step, ...]
    owner: str | None
    status: RunStatus = RunStatus.RUNNING
    key: str | None = None
    """Of the request, so that a repeated one answers this run."""
    digest: str | None = None
    """Of the request under that key."""
    reverts: str | None = None


@dataclass(frozen=True)
class LogEntry:
    """A line of a run's log."""

    id: int
    run: str
    kind: str
    body: dict[str, Any]


class Progress(NamedTuple):
    status: RunStatus
    position: int
    """Of the next operation, from 0."""


def sender_key(caller: Caller) -> str:
    """Whose keys and runs are whose. People share one: with a shared token each request has a name of its own."""
    return caller.token or ""


class RunStore:
    """`changed` is told of every run that has another status; of one run, in the order in which they are stored."""

    def __init__(self, database: Database, workspace: str, changed: Callable[[Run], None] = lambda _: None) -> None:
        self._database = database
        self._workspace = workspace
        self._changed = changed
        self._telling = [threading.Lock() for _ in range(LOCKS)]

    # -- writing

    def create(self, new: NewRun, approval: Approval | None = None, events: Sequence[Event] = ()) -> Run:
        """Store a run before it starts. Raises IntegrityError when its key was used before."""
        operations = dump_steps(new.steps)

        def work(connection: sqlite3.Connection) -> None:
            connection.execute(
                "INSERT INTO runs (id, workspace, status, caller, asker, dialect, options, operations, size, count,"
                " owner, idempotency_key, request_digest, reverts, started_at) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)",
                (
                    *(new.id, self._workspace, new.status.value, new.caller.model_dump_json(), sender_key(new.caller)),
                    *(new.dialect, new.options.model_dump_json(), operations, len(operations)),
                    *(len(new.steps), new.owner),
                    *(new.key, new.digest, new.reverts, utc_now()),
                ),
            )
            if approval is not None:
                rows.insert_approval(connection, approval)
            rows.insert_log(connection, new.id, "status", [{"runId": new.id, "status": new.status.value}])
            rows.insert_log(connection, new.id, "event", events)

        with self._in_order(new.id):
            self._database.write(work)
            run = self.glance(new.id)
            vars(run)["steps"] = new.steps  # known already; they may be megabytes
            self._changed(run)
        return run

    def append(
        self, run: str, position: int, events: Sequence[str], problems: int, response: Mapping[str, Any] | None = None
    ) -> Future[None]:
        """Events as JSON, how many of them are problems, the position of the next operation, and the answer of a single
        call; stored with the next commit."""

        def work(connection: sqlite3.Connection) -> None:
            rows.insert_log(connection, run, "event", events)
            rows.add_problems(connection, run, problems)
            rows.store_position(connection, run, position)
            if response is not None:
                rows.store_response(connection, run, response)

        return self._database.later(work)

    def tell(self, run: str, body: Event) -> None:
        """Something that whoever watches the status should know."""
        self._database.write(lambda connection: rows.insert_log(connection, run, "status", [body]))

    def flush(self) -> None:
        """Wait until everything so far is stored."""
        self._database.write(lambda _: None)

    def change(
        self,
        run: Run,
        expected: RunStatus,
        status: RunStatus,
        *,
        position: int | None = None,
        owner: str | None = None,
        events: Sequence[Event] = (),
        response: Mapping[str, Any] | None = None,
        asked: Approval | None = None,
        decided: Approval | None = None,
        granted: Callable[[sqlite3.Connection], object] | None = None,
    ) -> bool:
        """From one status to another, with all that belongs to it; False if somebody else changed it first."""

        def work(connection: sqlite3.Connection) -> bool:
            changed = connection.execute(
                "UPDATE runs SET status = ?, owner = ?, response = COALESCE(?, response), completed_at = ?"
                " WHERE id = ? AND status = ?",
                (
                    *(status.value, owner, None if response is None else json.dumps(response)),
                    *(utc_now() if status.is_final else None, run.id, expected.value),
                ),
            )
            if not changed.rowcount:
                return False
            if position is not None:
                rows.store_position(connection, run.id, position)
            if decided is not None and not rows.store_decision(connection, decided):
                raise _AlreadyDecided
            if asked is not None:
                rows.insert_approval(connection, asked)
            if granted is not None:
                granted(connection)
            rows.insert_log(connection, run.id, "event", events)
            rows.add_problems(connection, run.id, sum(map(rows.is_problem, events)))
            if status is not expected:
                rows.insert_log(connection, run.id, "status", [{"runId": run.id, "status": status.value}])
            return True

        with self._in_order(run.id):
            try:
                is_changed = self._database.write(work)
            except _AlreadyDecided:
                return False
            if is_changed and status is not expected:
                self._changed(replace(run, status=status))
        return is_changed

    def _in_order(self, run: str) -> threading.Lock:
        """From storing a change until it is told: whoever sees it stored may change the run again at once."""
        return self._telling[hash(run) % LOCKS]

    def claim(self, run: Run, owner: str) -> bool:
        """Take a running run over from whoever executed it; False if somebody else has."""

        def work(connection: sqlite3.Connection) -> bool:
            query = "UPDATE runs SET owner = ? WHERE id = ? AND status = 'running' AND owner IS ?"
            return bool(connection.execute(query, (owner, run.id, run.owner)).rowcount)

        return self._database.write(work)

    def request_cancel(self, run: str) -> None:
        """For the process that executes it."""
        self._database.write(
            lambda connection: connection.execute("UPDATE runs SET cancel_requested = 1 WHERE id = ?", (run,))
        )

    # -- reading

    def find(self, run: str) -> Run | None:
        found = self._runs("id = ? AND workspace = ?", (run, self._workspace), "LIMIT 1")
        return found[0] if found else None

    def require(self, run: str) -> Run:
        found = self.find(run)
        if found is None:
            raise _no_run(run)
        return found

    def progress(self, run: str) -> Progress:
        """For whoever waits and looks often. SQLite reads a row up to the last column that is asked for, and the
        operations, which may be megabytes, stand after these."""
        query = "SELECT status, COALESCE(position, 0) FROM runs LEFT JOIN positions ON run = id"
        values = (run, self._workspace)
        row = self._database.read(
            lambda connection: connection.execute(f"{query} WHERE id = ? AND workspace = ?", values).fetchone()
        )
        if row is None:
            raise _no_run(run)
        return Progress(RunStatus(row[0]), row[1])

    def glance(self, run: str) -> Run:
        """All but its operations."""
        found = self._runs("id = ? AND workspace = ?", (run, self._workspace), "", operations="NULL")
        if not found:
            raise _no_run(run)
        return found[0]

    def under_key(self, caller: Caller, key: str) -> tuple[Run, str | None] | None:
        """The run that was started under this key, and the digest of its request."""
        row = self._database.read(
            lambda connection: connection.execute(
                "SELECT id, request_digest FROM runs WHERE workspace = ? AND asker = ? AND idempotency_key = ?",
                (self._workspace, sender_key(caller), key),
            ).fetchone()
        )
        return None if row is None else (self.require(row[0]), row[1])

    def page(self, status: RunStatus | None, before: int | None, limit: int, by: str | None) -> list[Run]:
        """Newest first; `by`: only of this asker."""
        # Plus: else SQLite takes an index on the workspace, and sorts all of its runs to find the newest.
        where, values = ["+workspace = ?" if status is None and by is None else "workspace = ?"], [self._workspace]
        for column, value in (("status = ?", status and status.value), ("number < ?", before), ("asker = ?", by)):
            if value is not None:
                where.append(column)
                values.append(value)  # type: ignore[arg-type]
        rest = f"ORDER BY number DESC LIMIT {limit:d}"
        return self._runs(" AND ".join(where), tuple(values), rest, operations="NULL")

    def with_status(self, status: RunStatus) -> list[Run]:
        """Glances."""
        where = "workspace = ? AND status = ?"
        return self._runs(where, (self._workspace, status.value), "ORDER BY number", operations="NULL")

    def held(self, by: str) -> int:
        """How much the operations of this asker's runs take that have not ended."""
        live = "status IN ('running', 'awaiting_approval')"
        query = f"SELECT SUM(size) FROM runs WHERE workspace = ? AND {live} AND asker = ?"
        row = self._database.read(lambda connection: connection.execute(query, (self._workspace, by)).fetchone())
        return int(row[0] or 0)

    def waiting(self, by: str) -> int:
        """How many runs of this asker wait for a person."""
        query = "SELECT COUNT(*) FROM runs WHERE workspace = ? AND status = 'awaiting_approval' AND asker = ?"
        row = self._database.read(lambda connection: connection.execute(query, (self._workspace, by)).fetchone())
        return int(row[0])

    def events(self, run: str) -> list[bytes]:
        """Each as JSON; megabytes of it go out as they are."""
        found = self._database.read(
            lambda connection: connection.execute(
                "SELECT CAST(body AS BLOB) FROM run_log WHERE run = ? AND kind = 'event' ORDER BY id", (run,)
            ).fetchall()
        )
        return [row[0] for row in found]

    def log_after(self, last: int, limit: int, *, run: str | None = None, by: str | None = None) -> list[LogEntry]:
        """The log of one run, or of all (of this asker)."""
        if run is not None:
            query, values = "FROM run_log l WHERE l.run = ? AND l.id > ?", (run, last)
        else:
            # CROSS: the log is walked from where the reader is; else all runs would be.
            query = "FROM run_log l CROSS JOIN runs r ON r.id = l.run WHERE l.id > ?2 AND r.workspace = ?1"
            values = (self._workspace, last)
            if by is not None:
                query, values = f"{query} AND r.asker = ?3", (*values, by)  # type: ignore[assignment]
        statement = f"SELECT l.id, l.run, l.kind, l.body {query} ORDER BY l.id LIMIT {limit:d}"
        found = self._database.read(lambda connection: _take_page(connection.execute(statement, values)))
        return [LogEntry(number, name, kind, json.loads(body)) for number, name, kind, body in found]

    def last_entry(self) -> int:
        """The end of the log."""
        row = self._database.read(lambda connection: connection.execute("SELECT MAX(id) FROM run_log").fetchone())
        return int(row[0] or 0)

    def approval(self, identifier: str) -> Approval | None:
        found = self._approvals("id = ?", (identifier,))
        return found[0] if found else None

    def pending(self, run: str) -> Approval | None:
        found = self._approvals("run = ? AND decision IS NULL ORDER BY created_at DESC LIMIT 1", (run,))
        return found[0] if found else None

    def approvals(self, run: str) -> list[Approval]:
        return self._approvals("run = ? ORDER BY created_at", (run,))

    def _runs(self, where: str, values: tuple[object, ...], rest: str, *, operations: str = "operations") -> list[Run]:
        columns = rows.RUN_COLUMNS.format(operations=operations)
        found = self._database.read(
            lambda connection: connection.execute(
                f"SELECT {columns} FROM runs LEFT JOIN positions ON run = id WHERE {where} {rest}", values
            ).fetchall()
        )
        return [rows.decode_run(row) for row in found]

    def _approvals(self, where: str, values: tuple[object, ...]) -> list[Approval]:
        query = f"SELECT {rows.APPROVAL_COLUMNS} FROM approvals WHERE {where}"
        found = self._database.read(lambda connection: connection.execute(query, values).fetchall())
        return [rows.decode_approval(row) for row in found]


def _take_page(rows: Iterable[Sequence[Any]]) -> list[Sequence[Any]]:
    """At least one, and no more than a reader can be given at once."""
    found: list[Sequence[Any]] = []
    size = 0
    for row in rows:
        found.append(row)
        size += len(row[-1])
        if size > MAX_LOG_READ_CHARACTERS:
            break
    return found


def _no_run(run: str) -> NotFound:
    return NotFound(f"There is no run {run!r} any more.", hint="List the runs to see their ids.")


class _AlreadyDecided(Exception):
    """Takes back the transaction in which an approval turned out to be decided already."""
