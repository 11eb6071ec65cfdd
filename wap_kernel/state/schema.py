"""The SQLite database of a workspace's state folder, and its schema from the first version on."""

from __future__ import annotations

import os
import sqlite3
import time

from wap_kernel.files import filesystem_type
from wap_kernel.model.errors import ProviderUnavailable

NAME = "state.db"
MIGRATIONS = (
    """
    CREATE TABLE audit (
        id INTEGER PRIMARY KEY,
        operation_id TEXT NOT NULL,
        phase TEXT NOT NULL CHECK (phase IN ('intent', 'outcome')),
        at TEXT NOT NULL,
        operation TEXT NOT NULL,
        workspace TEXT NOT NULL,
        user TEXT NOT NULL,
        agent TEXT,
        session TEXT,
        summary TEXT NOT NULL,
        outcome TEXT CHECK (outcome IN ('ok', 'denied', 'failed')),
        code TEXT,
        error TEXT,
        duration_ms REAL
    );
    CREATE INDEX audit_operation ON audit (operation_id);
    """,
    """
    CREATE TABLE tokens (
        number INTEGER PRIMARY KEY,
        id TEXT NOT NULL UNIQUE,
        workspace TEXT NOT NULL,
        digest TEXT NOT NULL,
        name TEXT NOT NULL,
        tools TEXT,
        preset TEXT,
        policy TEXT,
        limits TEXT NOT NULL,
        created_at TEXT NOT NULL,
        created_by TEXT NOT NULL,
        vouched INTEGER NOT NULL,
        expires_at TEXT NOT NULL,
        revoked_at TEXT,
        last_used_at TEXT
    );
    CREATE TABLE bytes_written (
        token TEXT PRIMARY KEY,
        day TEXT NOT NULL,
        bytes INTEGER NOT NULL
    );
    CREATE TABLE grants (
        id TEXT PRIMARY KEY,
        created_at TEXT NOT NULL,
        created_by TEXT NOT NULL,
        workspace TEXT NOT NULL,
        body TEXT NOT NULL
    );
    ALTER TABLE audit ADD COLUMN token TEXT;
    """,
    """
    CREATE TABLE runs (
        number INTEGER PRIMARY KEY AUTOINCREMENT,
        id TEXT NOT NULL UNIQUE,
        workspace TEXT NOT NULL,
        status TEXT NOT NULL,
        caller TEXT NOT NULL,
        asker TEXT NOT NULL,
        dialect TEXT NOT NULL,
        options TEXT NOT NULL,
        operations TEXT NOT NULL,
        size INTEGER NOT NULL DEFAULT 0,
        count INTEGER NOT NULL,
        owner TEXT,
        cancel_requested INTEGER NOT NULL DEFAULT 0,
        idempotency_key TEXT,
        request_digest TEXT,
        reverts TEXT,
        response TEXT,
        started_at TEXT NOT NULL,
        completed_at TEXT
    );
    CREATE UNIQUE INDEX runs_once ON runs (workspace, asker, idempotency_key);
    CREATE INDEX runs_status ON runs (workspace, status);
    CREATE TABLE positions (
        run TEXT PRIMARY KEY,
        position INTEGER NOT NULL
    );
    CREATE TABLE run_log (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        run TEXT NOT NULL,
        kind TEXT NOT NULL CHECK (kind IN ('event', 'status')),
        body TEXT NOT NULL
    );
    CREATE INDEX run_log_run ON run_log (run, id);
    CREATE TABLE approvals (
        id TEXT PRIMARY KEY,
        run TEXT NOT NULL,
        position INTEGER NOT NULL,
        operation_id TEXT NOT NULL,
        digest TEXT NOT NULL,
        files TEXT NOT NULL,
        shown TEXT NOT NULL,
        granted TEXT,
        created_at REAL NOT NULL,
        expires_at REAL NOT NULL,
        decision TEXT CHECK (decision IN ('approved', 'denied', 'expired', 'cancelled')),
        decided_by TEXT,
        decided_at REAL,
        reason TEXT
    );
    CREATE INDEX approvals_run ON approvals (run);
    CREATE TABLE changes (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        run TEXT NOT NULL,
        position INTEGER NOT NULL,
        path TEXT NOT NULL,
        before TEXT NOT NULL,
        after TEXT
    );
    CREATE INDEX changes_run ON changes (run, id);
    CREATE TABLE notes (
        run TEXT NOT NULL,
        position INTEGER NOT NULL,
        body TEXT NOT NULL,
        PRIMARY KEY (run, position)
    );
    ALTER TABLE audit ADD COLUMN dialect TEXT;
    ALTER TABLE audit ADD COLUMN tool TEXT;
    ALTER TABLE audit ADD COLUMN run TEXT;
    ALTER TABLE audit ADD COLUMN step TEXT;
    ALTER TABLE audit ADD COLUMN hash TEXT;
    CREATE TABLE audit_anchors (
        audit_id INTEGER PRIMARY KEY,
        hash TEXT NOT NULL,
        at TEXT NOT NULL
    );
    """,
    """
    CREATE TABLE problems (
        run TEXT PRIMARY KEY,
        problems INTEGER NOT NULL
    );
    INSERT INTO problems
        SELECT run, COUNT(*) FROM run_log WHERE kind = 'event' AND instr(body, '"simulated":false') = 0 AND (
            instr(body, '"success":false') OR instr(body, '"success": false')
            OR replace(substr(body, 1, 40), ' ', '') LIKE '{"type":"policyDenied"%'
            OR replace(substr(body, 1, 40), ' ', '') LIKE '{"type":"error"%'
        ) GROUP BY run;
    """,
)
"""Entry N takes a database of version N to N + 1. Released entries are never changed."""
_HINTS = {
    "unable to open": "The state folder must be there and be writable; a copy can be read where you may write.",
    "readonly": "The state folder must be writable; a copy can be read where you may write.",
    "full": "Free some space.",
    "locked": "Another process holds it; try again in a moment.",
    "disk I/O": "The disk does not answer as it should; try again when it does.",
}
"""By what SQLite says."""
PATIENCE = 10.0
"""Seconds to wait for a neighbour who holds the database."""
_POLL = 0.01


class _Unusable(sqlite3.DatabaseError):
    """Why the database cannot be used, where another advice than to begin anew helps."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.hint = hint


def connect(state_dir: str) -> sqlite3.Connection:
    """Open, and migrate where needed. The connection belongs to the thread that uses it."""
    path = os.path.join(state_dir, NAME)
    connection: sqlite3.Connection | None = None
    try:
        connection = sqlite3.connect(path, timeout=PATIENCE, isolation_level=None, check_same_thread=False)
        if connection.execute("PRAGMA page_count").fetchone() == (0,):
            # Only a new database takes it: what retention frees can then be given back.
            connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
        # A large transaction must not leave a journal of its size for ever.
        connection.execute("PRAGMA journal_size_limit = 67108864")
        if filesystem_type.is_network(state_dir):
            _journal(connection, "delete")
            connection.execute("PRAGMA synchronous = FULL")
        else:
            _journal(connection, "wal")
            # Survives any crash of ours; a power cut may take the last rows.
            connection.execute("PRAGMA synchronous = NORMAL")
        _migrate(connection)
    except sqlite3.Error as error:
        if connection is not None:
            connection.close()
        raise ProviderUnavailable(f"The state database cannot be used: {error}.", hint=_hint(error)) from error
    return connection


def _hint(error: sqlite3.Error) -> str:
    """Nobody gives up a state that is whole, because its disk is full or read-only."""
    if isinstance(error, _Unusable):
        return error.hint
    found = (hint for said, hint in _HINTS.items() if said in str(error))
    return next(found, "Move state.db out of the state folder to begin anew.")


def _journal(connection: sqlite3.Connection, mode: str) -> None:
    """The mode is the database's own and stays. To change it needs the database alone, and SQLite's busy timeout does
    not wait for that: of two processes that start at once, one would fail."""
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            connection.execute(f"PRAGMA journal_mode = {mode}").fetchone()
            return
        except sqlite3.OperationalError as error:
            if "locked" not in str(error):
                raise
            if time.monotonic() > deadline:
                raise _Unusable(
                    f"another process keeps it in another journal mode than {mode}",
                    "End the other servers and commands on this folder, then start again.",
                ) from error
        time.sleep(_POLL)


def _migrate(connection: sqlite3.Connection) -> None:
    if _version(connection) == len(MIGRATIONS):
        return
    connection.execute("BEGIN IMMEDIATE")
    version = _version(connection)
    if version > len(MIGRATIONS):
        raise _Unusable(
            f"it was written by a later version of wap (schema {version}, this one knows {len(MIGRATIONS)})",
            "Upgrade wap, or move state.db out of the state folder to begin anew.",
        )
    for number, script in enumerate(MIGRATIONS[version:], start=version + 1):
        for statement in script.split(";"):
            connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {number}")
    connection.execute("COMMIT")


def _version(connection: sqlite3.Connection) -> int:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    return int(version)
