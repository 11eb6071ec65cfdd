"""Store runs in the state database: their operations, their log, their approvals.

Every change is one transaction, so that a process that reads after a crash finds either all of it or nothing. A run
belongs to the process whose lease is its `owner`. A run that waits for a person has no owner: the process that stores
the decision takes it over.
"""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from typing import Any

from wap_kernel.model.caller import Caller
from wap_kernel.model.errors import NotFound
from wap_kernel.model.run import Approval, Run, RunStatus, dump_steps
from wap_kernel.model.text import utc_now
from wap_kernel.runs.store import rows
from wap_kernel.runs.store.records import LogEntry, NewRun, Progress, sender_key
from wap_kernel.runs.store.rows import Event
from wap_kernel.state.database import Database

LOCKS = 64
"""Number of locks: changes of status of runs that share none do not wait for each other."""


class RunStore:
    """The runs of one workspace.

    `changed` is called with every run whose status has changed, for one run in the order in which the changes are
    stored. A header is a Run without its operations, which may be megabytes.
    """

    def __init__(self, database: Database, workspace: str, changed: Callable[[Run], None] = lambda _: None) -> None:
        self._database = database
        self._workspace = workspace
        self._changed = changed
        self._status_locks = [threading.Lock() for _ in range(LOCKS)]

    # -- writing

    def create(self, new: NewRun, approval: Approval | None = None, events: Sequence[Event] = ()) -> Run:
        """Store a run before it starts; raise IntegrityError when its key was used before."""
        operations = dump_steps(new.steps)

        def work(connection: sqlite3.Connection) -> None:
            rows.insert_run(connection, self._workspace, new, operations)
            if approval is not None:
                rows.insert_approval(connection, approval)
            rows.insert_log(connection, new.id, "status", [{"runId": new.id, "status": new.status.value}])
            rows.insert_log(connection, new.id, "event", events)

        with self._in_order(new.id):
            self._database.write(work)
            run = self.require_header(new.id)
            vars(run)["steps"] = new.steps  # known already; they may be megabytes
            self._changed(run)
        return run

    def append(
        self, run: str, position: int, events: Sequence[str], problems: int, response: Mapping[str, Any] | None = None
    ) -> Future[None]:
        """Append events to the log, and store the position of the next operation and the response of a single call.

        `events` are JSON texts, `problems` is the number of problems among them. They are stored with the next commit.
        """

        def work(connection: sqlite3.Connection) -> None:
            rows.insert_log(connection, run, "event", events)
            rows.add_problems(connection, run, problems)
            rows.store_position(connection, run, position)
            if response is not None:
                rows.store_response(connection, run, response)

        return self._database.enqueue(work)

    def log_status(self, run: str, body: Event) -> None:
        """Append an entry to the log for clients that watch the status of the run."""
        self._database.write(lambda connection: rows.insert_log(connection, run, "status", [body]))

    def flush(self) -> None:
        """Wait until everything that was appended so far is stored."""
        self._database.write(lambda _: None)

    def change_status(
        self,
        run: Run,
        expected: RunStatus,
        status: RunStatus,
        *,
        position: int | None = None,
        owner: str | None = None,
        events: Sequence[Event] = (),
        response: Mapping[str, Any] | None = None,
        new_approval: Approval | None = None,
        decided_approval: Approval | None = None,
        insert_grant: Callable[[sqlite3.Connection], object] | None = None,
    ) -> bool:
        """Change the status of a run from `expected`, with all that belongs to it, in one transaction.

        Return False, with nothing changed, if the run no longer has that status or the approval is decided already.
        """

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
            if decided_approval is not None and not rows.store_decision(connection, decided_approval):
                raise _AlreadyDecided
            if new_approval is not None:
                rows.insert_approval(connection, new_approval)
            if insert_grant is not None:
                insert_grant(connection)
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
        """Return the lock that is held from storing a change until `changed` has been called.

        Another thread that sees the change stored may change the run again before that.
        """
        return self._status_locks[hash(run) % LOCKS]

    def remove(self, run: str) -> None:
        """Remove the run of a single call that changed nothing."""

        def work(connection: sqlite3.Connection) -> None:
            for table, column in (("runs", "id"), ("run_log", "run"), ("positions", "run"), ("problems", "run")):
                connection.execute(f"DELETE FROM {table} WHERE {column} = ?", (run,))

        self._database.write(work)

    def claim(self, run: Run, owner: str) -> bool:
        """Take a running run over from its owner; return False if another process has."""

        def work(connection: sqlite3.Connection) -> bool:
            query = "UPDATE runs SET owner = ? WHERE id = ? AND status = 'running' AND owner IS ?"
            return bool(connection.execute(query, (owner, run.id, run.owner)).rowcount)

        return self._database.write(work)

    def request_cancel(self, run: str) -> None:
        """Mark a run as to be cancelled; the process that executes it polls the mark."""
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
        """Return the status and the position of a run, cheaply enough to be polled.

        SQLite reads a row up to the last column that is selected, and the operations stand after these two.
        """
        query = "SELECT status, COALESCE(position, 0) FROM runs LEFT JOIN positions ON run = id"
        values = (run, self._workspace)
        row = self._database.read(
            lambda connection: connection.execute(f"{query} WHERE id = ? AND workspace = ?", values).fetchone()
        )
        if row is None:
            raise _no_run(run)
        return Progress(RunStatus(row[0]), row[1])

    def require_header(self, run: str) -> Run:
        """Return the header of a run; raise NotFound if there is none."""
        found = self._runs("id = ? AND workspace = ?", (run, self._workspace), "", operations="NULL")
        if not found:
            raise _no_run(run)
        return found[0]

    def find_by_key(self, caller: Caller, key: str) -> tuple[Run, str | None] | None:
        """Return the run that the sender started under this key, and the digest of its request."""
        row = self._database.read(
            lambda connection: connection.execute(
                "SELECT id, request_digest FROM runs WHERE workspace = ? AND asker = ? AND idempotency_key = ?",
                (self._workspace, sender_key(caller), key),
            ).fetchone()
        )
        return None if row is None else (self.require(row[0]), row[1])

    def page(self, status: RunStatus | None, before: int | None, limit: int, by: str | None) -> list[Run]:
        """Return the headers of a page of runs, newest first; with `by` only those of this sender."""
        # The plus keeps SQLite from an index on the workspace, by which it would sort all runs to find the newest.
        where, values = ["+workspace = ?" if status is None and by is None else "workspace = ?"], [self._workspace]
        for column, value in (("status = ?", status and status.value), ("number < ?", before), ("asker = ?", by)):
            if value is not None:
                where.append(column)
                values.append(value)  # type: ignore[arg-type]
        rest = f"ORDER BY number DESC LIMIT {limit:d}"
        return self._runs(" AND ".join(where), tuple(values), rest, operations="NULL")

    def with_status(self, status: RunStatus, by: str | None = None) -> list[Run]:
        """Return the headers of the runs that have this status, oldest first; with `by` only those of this sender."""
        where, values = "workspace = ? AND status = ?", (self._workspace, status.value)
        if by is not None:
            where, values = f"{where} AND asker = ?", (*values, by)  # type: ignore[assignment]
        return self._runs(where, values, "ORDER BY number", operations="NULL")

    def list_waiting_senders(self) -> set[str]:
        """Return the agent tokens whose runs wait for a person."""
        query = "SELECT DISTINCT asker FROM runs WHERE workspace = ? AND status = 'awaiting_approval' AND asker != ''"
        found = self._database.read(lambda connection: connection.execute(query, (self._workspace,)).fetchall())
        return {row[0] for row in found}

    def count_pending_characters(self, by: str) -> int:
        """Return how many characters the operations of this sender's unfinished runs have."""
        live = "status IN ('running', 'awaiting_approval')"
        query = f"SELECT SUM(size) FROM runs WHERE workspace = ? AND {live} AND asker = ?"
        row = self._database.read(lambda connection: connection.execute(query, (self._workspace, by)).fetchone())
        return int(row[0] or 0)

    def count_pending_runs(self, by: str | None = None) -> int:
        """Return how many runs wait for a person; with `by` only those of this sender."""
        query = "SELECT COUNT(*) FROM runs WHERE workspace = ? AND status = 'awaiting_approval'"
        query, values = (query, (self._workspace,)) if by is None else (f"{query} AND asker = ?", (self._workspace, by))
        row = self._database.read(lambda connection: connection.execute(query, values).fetchone())
        return int(row[0])

    def events(self, run: str) -> list[bytes]:
        """Return the events of a run as JSON texts, which may be megabytes and are sent as they are."""
        found = self._database.read(
            lambda connection: connection.execute(
                "SELECT CAST(body AS BLOB) FROM run_log WHERE run = ? AND kind = 'event' ORDER BY id", (run,)
            ).fetchall()
        )
        return [row[0] for row in found]

    def log_after(self, last: int, limit: int, *, run: str | None = None, by: str | None = None) -> list[LogEntry]:
        """Return the entries after `last` in the log of one run or of all runs; with `by` only those of this sender."""
        values: list[str | int]
        if run is not None:
            query, values = "FROM run_log l WHERE l.run = ? AND l.id > ?", [run, last]
        else:
            # CROSS makes SQLite walk the log from where the reader is, instead of all runs.
            query = "FROM run_log l CROSS JOIN runs r ON r.id = l.run WHERE l.id > ? AND r.workspace = ?"
            values = [last, self._workspace]
            if by is not None:
                query, values = f"{query} AND r.asker = ?", [*values, by]
        statement = f"SELECT l.id, l.run, l.kind, l.body {query} ORDER BY l.id LIMIT {limit:d}"
        found = self._database.read(lambda connection: rows.take_page(connection.execute(statement, values)))
        return [LogEntry(number, name, kind, json.loads(body)) for number, name, kind, body in found]

    def last_entry(self) -> int:
        """Return the id of the last entry in the log of all runs."""
        row = self._database.read(lambda connection: connection.execute("SELECT MAX(id) FROM run_log").fetchone())
        return int(row[0] or 0)

    def approval(self, identifier: str) -> Approval | None:
        found = self._approvals("id = ?", (identifier,))
        return found[0] if found else None

    def pending_approval(self, run: str) -> Approval | None:
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


def _no_run(run: str) -> NotFound:
    return NotFound(f"There is no run {run!r} any more.", hint="List the runs to see their ids.")


class _AlreadyDecided(Exception):
    """Rolls back the transaction in which an approval turned out to be decided already."""
