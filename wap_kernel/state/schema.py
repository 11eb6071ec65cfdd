"""Open the SQLite database of a workspace's state folder, and make its tables in a new one."""

from __future__ import annotations

import os
import sqlite3
import time

from wap_kernel.files import filesystem_type
from wap_kernel.model.errors import ProviderUnavailable

NAME = "state.db"
VERSION = 6
"""The number of the schema, in the database's `user_version`; every change of `SCHEMA` takes the next one."""
SCHEMA = """
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
    notebook TEXT,
    summary TEXT NOT NULL,
    outcome TEXT CHECK (outcome IN ('ok', 'asked', 'denied', 'failed')),
    code TEXT,
    error TEXT,
    duration_ms REAL,
    token TEXT,
    dialect TEXT,
    tool TEXT,
    run TEXT,
    step TEXT,
    hash TEXT
);
CREATE INDEX audit_operation ON audit (operation_id);
CREATE TABLE audit_anchors (
    audit_id INTEGER PRIMARY KEY,
    hash TEXT NOT NULL,
    at TEXT NOT NULL
);
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
CREATE TABLE problems (
    run TEXT PRIMARY KEY,
    problems INTEGER NOT NULL
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
CREATE TABLE change_log (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    run TEXT NOT NULL,
    position INTEGER NOT NULL,
    path TEXT NOT NULL,
    kind TEXT NOT NULL,
    before TEXT NOT NULL,
    after TEXT NOT NULL,
    source TEXT,
    token TEXT NOT NULL,
    staged TEXT,
    inverts INTEGER,
    is_done INTEGER NOT NULL,
    tree BLOB
);
CREATE INDEX change_log_run ON change_log (run, id);
CREATE INDEX change_log_inverts ON change_log (inverts);
CREATE TABLE images (
    name TEXT NOT NULL,
    stamp TEXT,
    run TEXT NOT NULL,
    size INTEGER NOT NULL
);
CREATE INDEX images_name ON images (name);
CREATE INDEX images_stamp ON images (stamp);
CREATE INDEX images_run ON images (run);
CREATE TABLE applies (
    id INTEGER PRIMARY KEY,
    run TEXT NOT NULL,
    position INTEGER NOT NULL,
    is_atomic INTEGER NOT NULL,
    is_rolled_back INTEGER NOT NULL DEFAULT 0,
    first INTEGER NOT NULL,
    last INTEGER NOT NULL
);
"""
_HINTS = {
    "unable to open": "The state folder must be there and be writable; a copy can be read where you may write.",
    "readonly": "The state folder must be writable; a copy can be read where you may write.",
    "full": "Free some space.",
    "locked": "Another process has locked the database; try again in a moment.",
    "disk I/O": "The disk failed to read or write; try again when it works.",
}
"""Hints by a part of SQLite's message."""
BUSY_TIMEOUT_SECONDS = 10.0
"""Seconds to wait for another process that has locked the database."""
_POLL_SECONDS = 0.01


class _UnusableDatabase(sqlite3.DatabaseError):
    """A reason why the database cannot be used, with a hint of its own."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.hint = hint


def connect(state_dir: str) -> sqlite3.Connection:
    """Open the database, and make its tables if it is new. The connection belongs to the thread that uses it."""
    path = os.path.join(state_dir, NAME)
    connection: sqlite3.Connection | None = None
    try:
        connection = sqlite3.connect(path, timeout=BUSY_TIMEOUT_SECONDS, isolation_level=None, check_same_thread=False)
        if connection.execute("PRAGMA page_count").fetchone() == (0,):
            # Only a new database takes it: retention can then give free pages back to the file system.
            connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
        # A large transaction must not leave a journal of its size for ever.
        connection.execute("PRAGMA journal_size_limit = 67108864")
        if filesystem_type.is_network_filesystem(state_dir):
            _set_journal_mode(connection, "delete")
            connection.execute("PRAGMA synchronous = FULL")
        else:
            _set_journal_mode(connection, "wal")
            # Survives any crash of the server; a power cut may take the last rows.
            connection.execute("PRAGMA synchronous = NORMAL")
        _make_tables(connection)
    except sqlite3.Error as error:
        if connection is not None:
            connection.close()
        raise ProviderUnavailable(f"The state database cannot be used: {error}.", hint=_choose_hint(error)) from error
    return connection


def _choose_hint(error: sqlite3.Error) -> str:
    """Return what to do; a database is only given up if it is not the disk that is full, read-only or broken."""
    if isinstance(error, _UnusableDatabase):
        return error.hint
    hints = (hint for part, hint in _HINTS.items() if part in str(error))
    return next(hints, "Move state.db out of the state folder to begin anew.")


def _set_journal_mode(connection: sqlite3.Connection, mode: str) -> None:
    """Set the journal mode, which the database keeps.

    SQLite needs the database for itself to change the mode, and its busy timeout does not wait for that: of two
    processes that start together, one would fail.
    """
    deadline = time.monotonic() + BUSY_TIMEOUT_SECONDS
    while True:
        try:
            connection.execute(f"PRAGMA journal_mode = {mode}").fetchone()
            return
        except sqlite3.OperationalError as error:
            if "locked" not in str(error):
                raise
            if time.monotonic() > deadline:
                raise _UnusableDatabase(
                    f"another process keeps it in another journal mode than {mode}",
                    "End the other servers and commands on this folder, then start again.",
                ) from error
        time.sleep(_POLL_SECONDS)


def _make_tables(connection: sqlite3.Connection) -> None:
    """Make the tables in an empty database; refuse one that has another schema."""
    if _read_version(connection) == VERSION:
        return
    connection.execute("BEGIN IMMEDIATE")
    version = _read_version(connection)  # another process may have made them meanwhile
    if version not in (0, VERSION):
        raise _UnusableDatabase(
            f"{NAME} has schema {version}, and this version of wap has schema {VERSION}",
            "Move the state folder away to begin anew, or name an empty one (WapExtension.state_dir).",
        )
    if version == 0:
        for statement in SCHEMA.split(";"):
            connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {VERSION}")
    connection.execute("COMMIT")


def _read_version(connection: sqlite3.Connection) -> int:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    return int(version)
