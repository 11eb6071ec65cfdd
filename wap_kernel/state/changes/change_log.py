"""The log of all changes to a workspace: each is stored before it is made, and marked when it is done.

A revert reads the log of a run backwards. Each change that a revert makes says which one it `inverts`; a change whose
inversion stands is undone, and one whose inversion was itself inverted is not.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from secrets import token_hex

from wap_kernel.model.changes import Change, ChangeKind, FileImage
from wap_kernel.state.changes.tree_manifest import TreeManifest
from wap_kernel.state.database import Database

_COLUMNS = "run, position, path, kind, before, after, source, token, staged, inverts, is_done"
_ALL = f"id, {_COLUMNS}"


@dataclass(frozen=True)
class LoggedChange:
    """One change in the log."""

    run: str
    position: int
    change: Change
    token: str
    """The name of what is displaced, in the ImageStore; and of the temporary file beside the path."""
    staged: str | None = None
    """The absolute path from which the new file comes; None: the temporary file beside the path."""
    inverts: int | None = None
    """The id of the change that this one undoes."""
    is_done: bool = False
    tree: TreeManifest | None = None
    """The entries of a folder that is at the path afterwards, or else before; None also where it was not read."""
    displaced: TreeManifest | None = None
    """The entries of a folder that another folder displaces; not stored."""
    id: int = 0

    @property
    def path(self) -> str:
        return self.change.path

    def with_before(self, before: FileImage) -> LoggedChange:
        old = self.change
        return self._copy(Change(old.path, old.kind, before, old.after, old.source), self.id)

    def with_after(self, after: FileImage) -> LoggedChange:
        old = self.change
        return self._copy(Change(old.path, old.kind, old.before, after, old.source), self.id)

    def with_id(self, number: int) -> LoggedChange:
        return self._copy(self.change, number)

    def _copy(self, change: Change, number: int) -> LoggedChange:
        # By name: `dataclasses.replace` takes three times as long, and a command may change thousands of files.
        return LoggedChange(
            self.run,
            self.position,
            change,
            self.token,
            self.staged,
            self.inverts,
            self.is_done,
            self.tree,
            self.displaced,
            number,
        )


@dataclass(frozen=True)
class PendingApply:
    """The changes of a command that are being applied: the rows from `first` to `last`."""

    id: int
    run: str
    position: int
    is_atomic: bool
    is_rolled_back: bool
    first: int
    last: int


def make_token() -> str:
    return token_hex(12)


class ChangeLog:
    """The changes in the state database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    # -- writing

    def begin(self, changes: Sequence[LoggedChange]) -> list[LoggedChange]:
        """Store changes that are about to be made, and return them with their ids."""
        return self._database.write(lambda connection: _insert(connection, changes))

    def begin_apply(
        self, changes: Sequence[LoggedChange], *, is_atomic: bool
    ) -> tuple[PendingApply, list[LoggedChange]]:
        """Store the changes of a command, which a restart will make if this process dies."""

        def insert(connection: sqlite3.Connection) -> tuple[PendingApply, list[LoggedChange]]:
            rows = _insert(connection, changes)
            first, last, run, position = rows[0].id, rows[-1].id, rows[0].run, rows[0].position
            cursor = connection.execute(
                "INSERT INTO applies (run, position, is_atomic, first, last) VALUES (?, ?, ?, ?, ?)",
                (run, position, is_atomic, first, last),
            )
            return PendingApply(cursor.lastrowid or 0, run, position, is_atomic, False, first, last), rows

        return self._database.write(insert)

    def finish(self, done: Iterable[LoggedChange], dropped: Iterable[LoggedChange] = (), *, wait: bool = False) -> None:
        """Store, soon or before this returns, that changes are done, as they are given, or were not made at all."""
        done, dropped = list(done), list(dropped)

        def update(connection: sqlite3.Connection) -> None:
            _finish(connection, done, dropped)

        if wait:
            self._database.write(update)
        else:
            self._database.enqueue(update)

    def end_apply(self, apply: PendingApply, altered: Iterable[LoggedChange], dropped: Iterable[LoggedChange]) -> None:
        """Store that the changes of a command are done, but not the `dropped` ones; `altered` ones are as given."""
        altered, dropped = list(altered), list(dropped)

        def update(connection: sqlite3.Connection) -> None:
            _finish(connection, altered, dropped)
            connection.execute(
                "UPDATE change_log SET is_done = 1 WHERE id BETWEEN ? AND ? AND NOT is_done", (apply.first, apply.last)
            )
            connection.execute("DELETE FROM applies WHERE id = ?", (apply.id,))

        self._database.write(update)

    def roll_back(self, apply: PendingApply) -> None:
        """Store the decision to take back all changes of a command."""
        self._database.write(
            lambda connection: connection.execute("UPDATE applies SET is_rolled_back = 1 WHERE id = ?", (apply.id,))
        )

    # -- reading

    def read(self, run: str) -> list[LoggedChange]:
        """Return all changes of a run that were made, in order."""
        return self._select("run = ? AND is_done", run)

    def read_own(self, run: str) -> list[LoggedChange]:
        """Return the changes of a run, in order, without those that it took back itself."""
        rows = self.read(run)
        own = {row.id for row in rows}
        taken_back = {row.inverts for row in rows if row.inverts in own}
        return [row for row in rows if row.id not in taken_back and row.inverts not in own]

    def read_live(self, run: str) -> list[LoggedChange]:
        """Return the changes of a run that no revert has undone, in order."""
        rows = self.read(run)
        own = {row.id for row in rows}
        undone = self._find_undone(run)
        return [row for row in rows if row.id not in undone and row.inverts not in own]

    def read_unfinished(self, run: str) -> list[LoggedChange]:
        """Return the changes of a run that were begun and not marked as done."""
        return self._select("run = ? AND NOT is_done", run)

    def is_staged(self, name: str) -> bool:
        """Return whether the changes of a command that are to be applied are in the temporary folder `name`."""
        query = "SELECT 1 FROM change_log WHERE NOT is_done AND instr(CAST(staged AS TEXT), ?) LIMIT 1"
        return bool(self._query(query, f"/{name}/"))

    def read_tree(self, row: LoggedChange) -> TreeManifest | None:
        """Return the manifest of a folder that was created or deleted as a whole."""
        if row.tree is not None:
            return row.tree
        found = self._query("SELECT tree FROM change_log WHERE id = ?", row.id)
        return TreeManifest.load(found[0][0]) if found and found[0][0] is not None else None

    def read_applies(self, run: str) -> list[PendingApply]:
        rows = self._query(
            "SELECT id, run, position, is_atomic, is_rolled_back, first, last FROM applies WHERE run = ?", run
        )
        return [
            PendingApply(number, name, position, bool(atomic), bool(back), first, last)
            for number, name, position, atomic, back, first, last in rows
        ]

    def read_range(self, apply: PendingApply) -> list[LoggedChange]:
        return self._select("id BETWEEN ? AND ?", apply.first, apply.last)

    def _find_undone(self, run: str) -> set[int]:
        """Return the ids of the run's changes whose inversion stands."""
        pairs = self._query(
            "WITH RECURSIVE chain(id, inverts) AS ("
            " SELECT id, inverts FROM change_log WHERE is_done AND inverts IN (SELECT id FROM change_log WHERE run = ?)"
            " UNION SELECT c.id, c.inverts FROM change_log c JOIN chain ON c.inverts = chain.id WHERE c.is_done"
            ") SELECT id, inverts FROM chain ORDER BY id DESC",
            run,
        )
        undone: set[int] = set()
        for number, inverted in pairs:  # a later change can only undo an earlier one
            if number not in undone:
                undone.add(inverted)
        return undone

    def _select(self, where: str, *values: object) -> list[LoggedChange]:
        return [_load(row) for row in self._query(f"SELECT {_ALL} FROM change_log WHERE {where} ORDER BY id", *values)]

    def _query(self, query: str, *values: object) -> list[tuple]:  # type: ignore[type-arg]
        # On the writing connection, so that enqueued changes are stored first.
        return self._database.write(lambda connection: connection.execute(query, values).fetchall())


def _insert(connection: sqlite3.Connection, rows: Sequence[LoggedChange]) -> list[LoggedChange]:
    connection.executemany(
        f"INSERT INTO change_log ({_COLUMNS}, tree) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        [(*_dump(row), None if row.tree is None else row.tree.dump()) for row in rows],
    )
    (last,) = connection.execute("SELECT last_insert_rowid()").fetchone()
    connection.executemany(
        "INSERT INTO images (name, stamp, run, size) VALUES (?, ?, ?, ?)",
        [
            (row.token, row.change.before.stamp, row.run, _measure(row))
            for row in rows
            if row.change.before.stored is not None
        ],
    )
    return [row.with_id(number) for number, row in enumerate(rows, last - len(rows) + 1)]


def _finish(connection: sqlite3.Connection, done: Sequence[LoggedChange], dropped: Sequence[LoggedChange]) -> None:
    connection.executemany(
        "UPDATE change_log SET before = ?, after = ?, is_done = 1 WHERE id = ?",
        [(row.change.before.dump(), row.change.after.dump(), row.id) for row in done],
    )
    connection.executemany(
        "UPDATE images SET stamp = ?, size = ? WHERE name = ? AND stamp IS NOT ?",
        [
            (row.change.before.stamp, _measure(row), row.token, row.change.before.stamp)
            for row in done
            if row.change.before.stored is not None
        ],
    )
    connection.executemany("DELETE FROM change_log WHERE id = ?", [(row.id,) for row in dropped])
    connection.executemany("DELETE FROM images WHERE name = ?", [(row.token,) for row in dropped])


def _measure(row: LoggedChange) -> int:
    """Return the bytes that a change displaces."""
    if row.change.before.kind == "folder":
        return 0 if row.tree is None else row.tree.size
    return row.change.before.size or 0


def _dump(row: LoggedChange) -> tuple[object, ...]:
    change = row.change
    return (
        row.run,
        row.position,
        _column(change.path),
        change.kind.value,
        change.before.dump(),
        change.after.dump(),
        None if change.source is None else _column(change.source),
        row.token,
        None if row.staged is None else _column(row.staged),
        row.inverts,
        row.is_done,
    )


def _load(row: tuple) -> LoggedChange:  # type: ignore[type-arg]
    number, run, position, path, kind, before, after, source, token, staged, inverts, is_done = row
    return LoggedChange(
        run,
        position,
        Change(
            _path(path),
            ChangeKind(kind),
            FileImage.load(before),
            FileImage.load(after),
            None if source is None else _path(source),
        ),
        token,
        None if staged is None else _path(staged),
        inverts,
        bool(is_done),
        id=number,
    )


def _column(path: str) -> str | bytes:
    """Return the path as text, or as bytes if it is not UTF-8, since SQLite's text is UTF-8."""
    try:
        path.encode()
    except UnicodeEncodeError:
        return os.fsencode(path)
    return path


def _path(column: str | bytes) -> str:
    return os.fsdecode(column) if isinstance(column, bytes) else column
