"""Take an inventory of the state: the runs, outputs and before-images, and how much space they take."""

from __future__ import annotations

import os
import sqlite3
from collections import Counter
from contextlib import suppress

from wap_kernel.model.run import RunStatus
from wap_kernel.state.retention.policy import ImageUsage, RetentionLimits, StateInventory, StorageUsage, StoredRun

BATCH = 5000
"""Rows that are read or removed together, so that no other process waits long."""
LONG_ROWS_BATCH = 100
"""Rows that are read together from tables with long rows."""
FINAL_STATUSES = ", ".join(f"'{status.value}'" for status in RunStatus if status.is_final)


def take_inventory(
    connection: sqlite3.Connection, outputs_folder: str, images_folder: str, limits: RetentionLimits
) -> StateInventory:
    """Return everything in the state that retention may remove."""
    # Files before rows: a file that is named in between is young, and one that was named before is in the rows.
    outputs = {entry.name: measure_tree(entry.path) for entry in _list_folder(outputs_folder)}
    images = _list_images(connection, images_folder)
    files = sum(usage.size for usage in outputs.values()) + sum(image.size for image in images)
    sizes = _measure_rows(connection) if files + measure_database(connection) > limits.size else {}
    rows = connection.execute(
        f"SELECT number, id, CASE WHEN status IN ({FINAL_STATUSES}) THEN coalesce(completed_at, started_at) END,"
        " reverts FROM runs ORDER BY number"
    ).fetchall()
    runs = [StoredRun(number, run, ended_at, reverts, sizes.get(run, 0)) for number, run, ended_at, reverts in rows]
    return StateInventory(runs, outputs, images)


def _list_images(connection: sqlite3.Connection, folder: str) -> list[ImageUsage]:
    """Return the stored before-images; the log knows the sizes of whole folders."""
    entries = _list_folder(folder)
    owners = {
        name: (run, size)
        for name, run, size in connection.execute("SELECT name, run, size FROM images WHERE size >= 0")
    }
    found = []
    for entry in entries:
        run, size = owners.get(entry.name, (None, None))
        with suppress(OSError):
            changed = entry.stat(follow_symlinks=False).st_ctime
            found.append(ImageUsage(entry.name, run, measure_entry(entry.path) if size is None else size, changed))
    return found


def measure_entry(path: str) -> int:
    """Return the bytes of a file or of everything below a folder."""
    if os.path.isdir(path) and not os.path.islink(path):
        return measure_tree(path).size
    return os.lstat(path).st_size


def measure_database(connection: sqlite3.Connection) -> int:
    """Return the bytes of the pages in use, which SQLite knows without reading them."""
    pages, free, size = (read_pragma(connection, name) for name in ("page_count", "freelist_count", "page_size"))
    return (pages - free) * size


def _measure_rows(connection: sqlite3.Connection) -> Counter[str]:
    """Return the bytes of each run's operations and events."""
    found: Counter[str] = Counter()
    for table, key, run, text in (
        ("runs", "number", "id", "operations"),
        ("run_log", "id", "run", "body"),
    ):
        last = 0
        query = (
            f"SELECT {key}, {run}, length(CAST({text} AS BLOB)) FROM {table}"
            f" WHERE {key} > ? ORDER BY {key} LIMIT {LONG_ROWS_BATCH}"
        )
        while rows := connection.execute(query, (last,)).fetchall():
            for _, name, size in rows:
                found[name] += size
            last = rows[-1][0]
    return found


def read_pragma(connection: sqlite3.Connection, pragma: str) -> int:
    return int(connection.execute(f"PRAGMA {pragma}").fetchone()[0])


def _list_folder(folder: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except OSError:
        return []


def measure_tree(path: str) -> StorageUsage:
    """Return the bytes below `path`, and the last time that any of them changed."""
    size, changed = 0, 0.0
    for folder, _, names in os.walk(path):
        for found in (folder, *(os.path.join(folder, name) for name in names)):
            with suppress(OSError):
                status = os.lstat(found)
                size += 0 if found == folder else status.st_size
                changed = max(changed, status.st_mtime)
    return StorageUsage(size, changed)
