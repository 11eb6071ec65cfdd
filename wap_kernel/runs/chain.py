"""The audit's chain: every record carries a hash of itself and of the record before it, so that a change shows.

The ids are whole numbers without a gap, given inside the writing transaction, which only one process has at a time. The
records of versions before the chain carry no hash; they are linked all the same, so the first hash covers them.
When retention cuts the oldest records, an anchor keeps the hash of the last one cut. What a chain cannot show is that
its tail was cut off: hence the head is noted elsewhere too (see `heads.py`).
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from wap_kernel.errors import InvalidArgument

HASH = "hash"
COLUMNS = (
    *("id", "operation_id", "phase", "at", "operation", "workspace", "user", "agent", "session", "token", "summary"),
    *("outcome", "code", "error", "duration_ms", "dialect", "tool", "run", "step"),
)
"""What a record says, in the order in which people read it."""
CHUNK = 5000
"""Records that are read at once: on a network filesystem whoever reads holds up who writes."""
_LAST = 2**63 - 1

_INSERT = (
    f"INSERT INTO audit ({', '.join(COLUMNS)}, {HASH}) VALUES ({', '.join(f':{name}' for name in COLUMNS)}, :{HASH})"
)
_encode = json.JSONEncoder(sort_keys=True, separators=(",", ":"), default=repr).encode

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Head:
    """A record and its hash, which stands for everything up to it."""

    id: int
    hash: str

    def __str__(self) -> str:
        return f"{self.id}:{self.hash}"

    @classmethod
    def parse(cls, text: str) -> Head:
        number, _, digest = text.partition(":")
        if not (number.isascii() and number.isdigit() and len(digest) == 64):
            raise InvalidArgument(f"{text!r} is not the head of an audit.", hint="It looks like 1234:9f86d081...")
        return cls(int(number), digest)


START = Head(0, "")
"""Before the first record."""


def canonical(row: Row) -> str:
    """The record as JSON: names sorted, nothing that is null, so a column that a later version adds changes nothing."""
    return _encode({name: value for name, value in row.items() if value is not None and name != HASH})


def link(previous: str, row: Row) -> str:
    return hashlib.sha256(f"{previous}\n{canonical(row)}".encode("ascii")).hexdigest()


def append(connection: sqlite3.Connection, records: Sequence[dict[str, Any]]) -> Head:
    """Add records, which have everything but their id and hash. Inside a transaction that holds the writing lock."""
    head = tail(connection)
    for row in records:
        row["id"] = head.id + 1
        row[HASH] = link(head.hash, row)
        head = Head(row["id"], row[HASH])
    connection.executemany(_INSERT, records)
    return head


def tail(connection: sqlite3.Connection) -> Head:
    """The last record."""
    row = connection.execute("SELECT id, hash FROM audit ORDER BY id DESC LIMIT 1").fetchone()
    if row is None:
        return anchor(connection)
    return Head(*row) if row[1] is not None else Head(row[0], _linked(connection, row[0]))


def anchor(connection: sqlite3.Connection) -> Head:
    """Where the chain begins: the last record that was cut."""
    row = connection.execute("SELECT audit_id, hash FROM audit_anchors ORDER BY audit_id DESC LIMIT 1").fetchone()
    return START if row is None else Head(*row)


def cut(connection: sqlite3.Connection, last: int, at: str) -> int:
    """Take away the records up to `last`, which must not be all of them, and anchor the rest. How many they were.

    Inside a transaction that holds the writing lock.
    """
    row = connection.execute("SELECT hash FROM audit WHERE id = ?", (last,)).fetchone()
    if row is None:
        return 0
    kept = row[0] if row[0] is not None else _linked(connection, last)
    connection.execute("DELETE FROM audit_anchors")
    connection.execute("INSERT INTO audit_anchors (audit_id, hash, at) VALUES (?, ?, ?)", (last, kept, at))
    return connection.execute("DELETE FROM audit WHERE id <= ?", (last,)).rowcount


def rows(connection: sqlite3.Connection) -> Iterator[Row]:
    """Every record from the oldest on, whether or not the chain holds."""
    last = -(2**63)
    while chunk := _rows(connection, last, _LAST, CHUNK).fetchall():
        yield from chunk
        last = chunk[-1]["id"]


def _linked(connection: sqlite3.Connection, last: int) -> str:
    """The hash of a record that carries none."""
    head = anchor(connection)
    for row in _rows(connection, head.id, last, -1):
        head = Head(row["id"], link(head.hash, row))
    return head.hash


def _rows(connection: sqlite3.Connection, after: int, last: int, limit: int) -> sqlite3.Cursor:
    cursor = connection.cursor()
    cursor.row_factory = _as_dict
    return cursor.execute("SELECT * FROM audit WHERE id > ? AND id <= ? ORDER BY id LIMIT ?", (after, last, limit))


def _as_dict(cursor: sqlite3.Cursor, values: tuple[Any, ...]) -> dict[str, Any]:
    return {description[0]: value for description, value in zip(cursor.description, values, strict=True)}


# -- reading it from the beginning


@dataclass(frozen=True)
class Report:
    """What was found, up to the first thing that is wrong."""

    records: int
    unchained: int
    """Of an earlier version, at the beginning; the first hash covers them."""
    cut: int
    """The last record that retention took away; 0: none."""
    head: Head
    problem: str | None = None


class Broken(Exception):
    """The chain does not hold at a record."""


def walk(connection: sqlite3.Connection, each: Callable[[Row, Head], None]) -> Head:
    """Call `each(row, head)` for every record from the oldest on, while the chain holds; the head. Raises Broken.

    Others may append and cut meanwhile.
    """
    position = START
    is_chained = False
    while True:
        connection.execute("BEGIN")
        try:
            start = anchor(connection)
            if start.id > position.id:
                position = start
            chunk = _rows(connection, position.id, _LAST, CHUNK).fetchall()
            (least,) = connection.execute("SELECT min(id) FROM audit").fetchone()
        finally:
            connection.execute("COMMIT")
        if least is not None and least <= start.id:
            raise Broken(f"Record {least} stands where retention has cut everything up to {start.id}.")
        if not chunk:
            return position
        for row in chunk:
            position = _next(position, row, is_chained=is_chained)
            is_chained = is_chained or row[HASH] is not None
            each(row, position)


def _next(position: Head, row: Row, *, is_chained: bool) -> Head:
    number = row["id"]
    if number != position.id + 1:
        missing = f"{position.id + 1} to {number - 1}" if number > position.id + 2 else str(number - 1)
        why = ", and no anchor says that retention cut them" if position == START else ""
        raise Broken(f"Before record {number} there is a gap: {missing} missing{why}.")
    digest = link(position.hash, row)
    if row[HASH] is None and is_chained:
        raise Broken(f"Record {number} carries no hash.")
    if row[HASH] is not None and row[HASH] != digest:
        raise Broken(f"Record {number} does not fit its hash: it was changed, or what stood before it was.")
    return Head(number, digest)


def verify(connection: sqlite3.Connection, noted: Sequence[Head] = ()) -> Report:
    """Walk the whole chain, and compare it with heads that were noted elsewhere."""
    seen: dict[int, str] = {}
    wanted = {head.id for head in noted}
    counted = {"records": 0, "unchained": 0}
    last = START

    def each(row: Row, head: Head) -> None:
        nonlocal last
        last = head
        counted["records"] += 1
        counted["unchained"] += row[HASH] is None
        if head.id in wanted:
            seen[head.id] = head.hash

    problem: str | None = None
    try:
        last = walk(connection, each)
    except Broken as error:
        problem = str(error)
    start = anchor(connection)
    seen[start.id] = start.hash
    if problem is None:
        problem = next((found for head in noted if (found := _compare(head, seen, start, last)) is not None), None)
    return Report(**counted, cut=start.id, head=last, problem=problem)


def _compare(noted: Head, seen: Mapping[int, str], start: Head, last: Head) -> str | None:
    if noted.id < start.id:
        return f"Record {noted.id} was cut by retention (up to {start.id}): a later head is needed to compare with."
    if noted.id > last.id:
        return f"Record {noted.id} was noted and is missing: the last one is {last.id}, the tail was cut off."
    if seen.get(noted.id) != noted.hash:
        return f"Record {noted.id} does not have the hash that was noted: the audit was written anew."
    return None
