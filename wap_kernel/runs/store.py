"""The SQLite database of a workspace's state folder, and its schema from the first version on."""

from __future__ import annotations

import os
import sqlite3

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
)
"""Entry N takes a database of version N to N + 1. Released entries are never changed."""


def connect(state_dir: str) -> sqlite3.Connection:
    """Open, and migrate where needed. The connection belongs to the thread that uses it."""
    connection = sqlite3.connect(
        os.path.join(state_dir, "state.db"), timeout=10, isolation_level=None, check_same_thread=False
    )
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = NORMAL")  # survives any crash of ours; a power cut may take the last rows
    connection.execute("BEGIN IMMEDIATE")
    try:
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        for number, script in enumerate(MIGRATIONS[version:], start=version + 1):
            for statement in script.split(";"):
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {number}")
        connection.execute("COMMIT")
    except BaseException:
        connection.execute("ROLLBACK")
        connection.close()
        raise
    return connection
