"""The SQLite database of a workspace's state folder, and its schema from the first version on."""

from __future__ import annotations

import os
import sqlite3

from wap_kernel.errors import ProviderUnavailable

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
        count INTEGER NOT NULL,
        position INTEGER NOT NULL DEFAULT 0,
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
    CREATE INDEX changes_path ON changes (path);
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
)
"""Entry N takes a database of version N to N + 1. Released entries are never changed."""


def connect(state_dir: str) -> sqlite3.Connection:
    """Open, and migrate where needed. The connection belongs to the thread that uses it."""
    path = os.path.join(state_dir, "state.db")
    connection: sqlite3.Connection | None = None
    try:
        connection = sqlite3.connect(path, timeout=10, isolation_level=None, check_same_thread=False)
        connection.execute("PRAGMA journal_mode = WAL")
        # Survives any crash of ours; a power cut may take the last rows.
        connection.execute("PRAGMA synchronous = NORMAL")
        _migrate(connection)
    except sqlite3.Error as error:
        if connection is not None:
            connection.close()
        raise ProviderUnavailable(
            f"The state database cannot be used: {error}.", hint="Move state.db out of the state folder to begin anew."
        ) from error
    return connection


def _migrate(connection: sqlite3.Connection) -> None:
    connection.execute("BEGIN IMMEDIATE")
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version > len(MIGRATIONS):
        raise sqlite3.DatabaseError(f"it was written by a later version of wap (schema {version})")
    for number, script in enumerate(MIGRATIONS[version:], start=version + 1):
        for statement in script.split(";"):
            connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {number}")
    connection.execute("COMMIT")
