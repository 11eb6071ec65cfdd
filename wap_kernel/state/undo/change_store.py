"""The rows of undo: what runs changed, what could not be kept, and what each says about a path in the end."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from wap_kernel.model.run import RunStatus
from wap_kernel.state.database import Database
from wap_kernel.state.undo.file_image import ABSENT, Image

NO_RUN = ""
"""Of what a single call, or the undo of an atomic run, changed beside a command; see `beside.py`."""
Note = Mapping[str, Any]
"""What there is to say about an operation: `notKept`, and of a command `notUndone` and whether it `isOver`."""


@dataclass(frozen=True)
class Change:
    path: str
    before: Image
    after: Image | None
    """None: it is not known, because the server died before it was recorded."""
    is_broken: bool = False
    """Somebody else changed it between two changes of this run."""


class Begun(NamedTuple):
    """A change whose end was not recorded."""

    id: int
    position: int
    path: str
    before: Image


class Changes:
    def __init__(self, database: Database) -> None:
        self._database = database

    def begin(self, run: str, position: int, before: Mapping[str, Image], note: Note | None = None) -> list[int]:
        """Store what stands at the paths that an operation will change, before it does; the ids are for `end`."""

        def insert(connection: sqlite3.Connection) -> list[int]:
            if note is not None:
                _note(connection, run, position, note)
            return [_insert(connection, run, position, path, image, None) for path, image in before.items()]

        return self._database.write(insert)

    def end(self, before: Mapping[str, Image], identifiers: Sequence[int], after: Mapping[str, Image]) -> None:
        """Store what stands there now, soon; of what is as it was nothing remains."""

        def update(connection: sqlite3.Connection) -> None:
            for (path, old), identifier in zip(before.items(), identifiers, strict=True):
                new = after[path]
                if old.is_like(new):
                    connection.execute("DELETE FROM changes WHERE id = ?", (identifier,))
                else:
                    connection.execute("UPDATE changes SET after = ? WHERE id = ?", (new.dump(), identifier))

        self._database.later(update)

    def begin_new(self, run: str, paths: Mapping[int, str]) -> list[int]:
        """Like `begin` of several operations, by position, each of which makes a file where nothing stands."""
        nothing = ABSENT.dump()
        rows = [(run, position, _column(path), nothing) for position, path in paths.items()]

        def insert(connection: sqlite3.Connection) -> list[int]:
            connection.executemany("INSERT INTO changes (run, position, path, before) VALUES (?, ?, ?, ?)", rows)
            (last,) = connection.execute("SELECT last_insert_rowid()").fetchone()
            return list(range(last - len(rows) + 1, last + 1))  # nobody else writes within a transaction

        return self._database.write(insert)

    def end_new(self, after: Mapping[int, Image]) -> None:
        """By the ids of `begin_new`; what is absent was not made."""
        made = [(image.dump(), identifier) for identifier, image in after.items() if image != ABSENT]
        missing = [(identifier,) for identifier, image in after.items() if image == ABSENT]

        def update(connection: sqlite3.Connection) -> None:
            connection.executemany("UPDATE changes SET after = ? WHERE id = ?", made)
            connection.executemany("DELETE FROM changes WHERE id = ?", missing)

        self._database.later(update)

    def under_way(self, run: str) -> list[Begun]:
        """What operations have begun to change, and of which nobody knows how it ended."""
        query = "SELECT id, position, path, before FROM changes WHERE run = ? AND after IS NULL ORDER BY id"
        rows = self._database.write(lambda connection: connection.execute(query, (run,)).fetchall())
        return [Begun(number, position, _path(path), Image.load(before)) for number, position, path, before in rows]

    def add(self, run: str, position: int, changes: Iterable[Change], note: Note | None = None) -> None:
        """Store changes that are known from both sides, and what there is to say about them."""

        def insert(connection: sqlite3.Connection) -> None:
            for change in changes:
                _insert(connection, run, position, change.path, change.before, change.after)
            if note is not None:
                _note(connection, run, position, note)

        self._database.write(insert)

    def of(self, run: str) -> list[Change]:
        """One for each path that is not as it was: from what stood there first to what the run left in the end."""
        # By the thread that writes, so that what was to be stored soon is stored.
        rows = self._database.write(
            lambda connection: connection.execute(
                "SELECT path, before, after FROM changes WHERE run = ? ORDER BY id", (run,)
            ).fetchall()
        )
        return collapsed(
            Change(_path(path), Image.load(before), None if after is None else Image.load(after))
            for path, before, after in rows
        )

    def notes(self, run: str) -> list[Note]:
        rows = self._database.write(
            lambda connection: connection.execute(
                "SELECT body FROM notes WHERE run = ? ORDER BY position", (run,)
            ).fetchall()
        )
        return [json.loads(body) for (body,) in rows]

    # -- others at the same time

    def mark(self, run: str) -> Mark:
        """Where the others are now, to tell later what they have changed since."""

        def look(connection: sqlite3.Connection) -> Mark:
            (last,) = connection.execute("SELECT coalesce(max(id), 0) FROM changes").fetchone()
            under_way = connection.execute("SELECT id FROM changes WHERE after IS NULL AND run != ?", (run,))
            return Mark(last, frozenset(identifier for (identifier,) in under_way))

        return self._database.read(look)

    def begin_command(self, run: str, position: int, note: Note) -> None:
        """Store that it is under way."""
        self._database.write(lambda connection: _note(connection, run, position, note))

    def of_others_since(self, mark: Mark, run: str) -> dict[str, list[Image | None]]:
        """What others left at the paths that they have changed since; None where they are still at it. What a run that
        is over left under way says nothing of who changed it later; of a call nobody knows whether it is over."""

        def look(connection: sqlite3.Connection) -> dict[str, list[Image | None]]:
            oldest = min(mark.under_way, default=mark.last + 1)
            found: dict[str, list[Image | None]] = {}
            for identifier, path, after, is_running in connection.execute(
                "SELECT id, path, after, run = ? OR run IN (SELECT id FROM runs WHERE status = ?) FROM changes"
                " WHERE id >= ? AND run != ?",
                (NO_RUN, RunStatus.RUNNING.value, oldest, run),
            ):
                is_of_now = after is not None or is_running
                if identifier > mark.last or (identifier in mark.under_way and is_of_now):
                    found.setdefault(_path(path), []).append(None if after is None else Image.load(after))
            return found

        return self._database.write(look)


@dataclass(frozen=True)
class Mark:
    last: int
    under_way: frozenset[int]


def collapsed(changes: Iterable[Change]) -> list[Change]:
    """Several changes of one path, in order, come to one from the first before to the last after, or to none."""
    found: dict[str, Change] = {}
    for change in changes:
        first = found.get(change.path)
        if first is None:
            found[change.path] = change
            continue
        is_broken = first.is_broken or first.after is None or not first.after.is_like(change.before)
        found[change.path] = Change(change.path, first.before, change.after, is_broken)
    return [change for change in found.values() if change.after is None or not change.before.is_like(change.after)]


def _insert(
    connection: sqlite3.Connection, run: str, position: int, path: str, before: Image, after: Image | None
) -> int:
    row = connection.execute(
        "INSERT INTO changes (run, position, path, before, after) VALUES (?, ?, ?, ?, ?)",
        (run, position, _column(path), before.dump(), None if after is None else after.dump()),
    )
    return row.lastrowid or 0


def _note(connection: sqlite3.Connection, run: str, position: int, body: Note) -> None:
    connection.execute("INSERT OR REPLACE INTO notes VALUES (?, ?, ?)", (run, position, json.dumps(body)))


def _column(path: str) -> str | bytes:
    """A name that is not UTF-8 is stored as its bytes, since SQLite's text is UTF-8."""
    try:
        path.encode()
    except UnicodeEncodeError:
        return os.fsencode(path)
    return path


def _path(column: str | bytes) -> str:
    return os.fsdecode(column) if isinstance(column, bytes) else column
