"""Store the changes of runs, and notes about what could not be stored."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from wap_kernel.model.run import RunStatus
from wap_kernel.state.database import Database
from wap_kernel.state.undo.file_image import ABSENT, FileImage

NO_RUN = ""
"""The run of changes by a single call, or by the revert of an atomic run, while a command ran."""
Note = Mapping[str, Any]
"""Facts about an operation: `notKept`, and for a command `notUndone` and `isOver`."""


@dataclass(frozen=True)
class RecordedChange:
    """A path before and after a run's operation."""

    path: str
    before: FileImage
    after: FileImage | None
    """The image afterwards, None if the server died before it was recorded."""
    is_broken: bool = False
    """True if another process changed the path between two changes of this run."""


class UnfinishedChange(NamedTuple):
    """A change whose end was not recorded."""

    id: int
    position: int
    path: str
    before: FileImage


class ChangeStore:
    """The changes and notes in the state database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def begin(self, run: str, position: int, before: Mapping[str, FileImage], note: Note | None = None) -> list[int]:
        """Store the images of the paths that an operation will change, and return ids for `end`."""

        def insert(connection: sqlite3.Connection) -> list[int]:
            if note is not None:
                _note(connection, run, position, note)
            return [_insert(connection, run, position, path, image, None) for path, image in before.items()]

        return self._database.write(insert)

    def end(self, before: Mapping[str, FileImage], identifiers: Sequence[int], after: Mapping[str, FileImage]) -> None:
        """Store the images afterwards, soon; the rows of unchanged paths are removed."""

        def update(connection: sqlite3.Connection) -> None:
            for (path, old), identifier in zip(before.items(), identifiers, strict=True):
                new = after[path]
                if old.is_like(new):
                    connection.execute("DELETE FROM changes WHERE id = ?", (identifier,))
                else:
                    connection.execute("UPDATE changes SET after = ? WHERE id = ?", (new.dump(), identifier))

        self._database.enqueue(update)

    def begin_new(self, run: str, paths: Mapping[int, str]) -> list[int]:
        """Store, as `begin` does, that several operations will each create a file; `paths` are by position."""
        nothing = ABSENT.dump()
        rows = [(run, position, _column(path), nothing) for position, path in paths.items()]

        def insert(connection: sqlite3.Connection) -> list[int]:
            connection.executemany("INSERT INTO changes (run, position, path, before) VALUES (?, ?, ?, ?)", rows)
            (last,) = connection.execute("SELECT last_insert_rowid()").fetchone()
            return list(range(last - len(rows) + 1, last + 1))  # no other process writes within a transaction

        return self._database.write(insert)

    def end_new(self, after: Mapping[int, FileImage]) -> None:
        """Store the images afterwards by the ids of `begin_new`; an absent file was not created."""
        made = [(image.dump(), identifier) for identifier, image in after.items() if image != ABSENT]
        missing = [(identifier,) for identifier, image in after.items() if image == ABSENT]

        def update(connection: sqlite3.Connection) -> None:
            connection.executemany("UPDATE changes SET after = ? WHERE id = ?", made)
            connection.executemany("DELETE FROM changes WHERE id = ?", missing)

        self._database.enqueue(update)

    def under_way(self, run: str) -> list[UnfinishedChange]:
        """Return the changes whose end was not recorded."""
        query = "SELECT id, position, path, before FROM changes WHERE run = ? AND after IS NULL ORDER BY id"
        rows = self._database.write(lambda connection: connection.execute(query, (run,)).fetchall())
        return [
            UnfinishedChange(number, position, _path(path), FileImage.load(before))
            for number, position, path, before in rows
        ]

    def add(self, run: str, position: int, changes: Iterable[RecordedChange], note: Note | None = None) -> None:
        """Store changes with both images, and a note about them."""

        def insert(connection: sqlite3.Connection) -> None:
            for change in changes:
                _insert(connection, run, position, change.path, change.before, change.after)
            if note is not None:
                _note(connection, run, position, note)

        self._database.write(insert)

    def of(self, run: str) -> list[RecordedChange]:
        """Return one change for each path that differs: from its first image to its last."""
        # On the writing connection, so that enqueued changes are stored first.
        rows = self._database.write(
            lambda connection: connection.execute(
                "SELECT path, before, after FROM changes WHERE run = ? ORDER BY id", (run,)
            ).fetchall()
        )
        return collapse_changes(
            RecordedChange(_path(path), FileImage.load(before), None if after is None else FileImage.load(after))
            for path, before, after in rows
        )

    def notes(self, run: str) -> list[Note]:
        rows = self._database.write(
            lambda connection: connection.execute(
                "SELECT body FROM notes WHERE run = ? ORDER BY position", (run,)
            ).fetchall()
        )
        return [json.loads(body) for (body,) in rows]

    # -- concurrent changes

    def mark(self, run: str) -> ChangeMark:
        """Return a mark of the present, for `of_others_since`."""

        def query(connection: sqlite3.Connection) -> ChangeMark:
            (last,) = connection.execute("SELECT coalesce(max(id), 0) FROM changes").fetchone()
            under_way = connection.execute("SELECT id FROM changes WHERE after IS NULL AND run != ?", (run,))
            return ChangeMark(last, frozenset(identifier for (identifier,) in under_way))

        return self._database.read(query)

    def begin_command(self, run: str, position: int, note: Note) -> None:
        """Store that a command runs."""
        self._database.write(lambda connection: _note(connection, run, position, note))

    def of_others_since(self, mark: ChangeMark, run: str) -> dict[str, list[FileImage | None]]:
        """Return the images that others left at the paths they changed since `mark`; None where they still run.

        A run that has ended says nothing with a change it left unfinished; a single call may still run.
        """

        def query(connection: sqlite3.Connection) -> dict[str, list[FileImage | None]]:
            oldest = min(mark.under_way, default=mark.last + 1)
            found: dict[str, list[FileImage | None]] = {}
            for identifier, path, after, is_running in connection.execute(
                "SELECT id, path, after, run = ? OR run IN (SELECT id FROM runs WHERE status = ?) FROM changes"
                " WHERE id >= ? AND run != ?",
                (NO_RUN, RunStatus.RUNNING.value, oldest, run),
            ):
                is_of_now = after is not None or is_running
                if identifier > mark.last or (identifier in mark.under_way and is_of_now):
                    found.setdefault(_path(path), []).append(None if after is None else FileImage.load(after))
            return found

        return self._database.write(query)


@dataclass(frozen=True)
class ChangeMark:
    """The last change and the unfinished changes at one moment."""

    last: int
    under_way: frozenset[int]


def collapse_changes(changes: Iterable[RecordedChange]) -> list[RecordedChange]:
    """Collapse the changes of each path, in order, to one from the first image to the last, or to none."""
    found: dict[str, RecordedChange] = {}
    for change in changes:
        first = found.get(change.path)
        if first is None:
            found[change.path] = change
            continue
        is_broken = first.is_broken or first.after is None or not first.after.is_like(change.before)
        found[change.path] = RecordedChange(change.path, first.before, change.after, is_broken)
    return [change for change in found.values() if change.after is None or not change.before.is_like(change.after)]


def _insert(
    connection: sqlite3.Connection, run: str, position: int, path: str, before: FileImage, after: FileImage | None
) -> int:
    row = connection.execute(
        "INSERT INTO changes (run, position, path, before, after) VALUES (?, ?, ?, ?, ?)",
        (run, position, _column(path), before.dump(), None if after is None else after.dump()),
    )
    return row.lastrowid or 0


def _note(connection: sqlite3.Connection, run: str, position: int, body: Note) -> None:
    connection.execute("INSERT OR REPLACE INTO notes VALUES (?, ?, ?)", (run, position, json.dumps(body)))


def _column(path: str) -> str | bytes:
    """Return the path as text, or as bytes if it is not UTF-8, since SQLite's text is UTF-8."""
    try:
        path.encode()
    except UnicodeEncodeError:
        return os.fsencode(path)
    return path


def _path(column: str | bytes) -> str:
    return os.fsdecode(column) if isinstance(column, bytes) else column
