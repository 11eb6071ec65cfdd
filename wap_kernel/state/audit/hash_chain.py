"""The audit's chain: every record carries a hash of itself and of the record before it, so that a change shows.

The ids are whole numbers without a gap, given inside the writing transaction, which only one process has at a time. The
records of versions before the chain carry no hash; they are linked all the same, so the first hash covers them.
When retention cuts the oldest records, an anchor keeps the hash of the last one cut, and a record says so: an anchor
without it is somebody else's. What a chain cannot show is that its tail was cut off, or that all of it was written
anew: hence the head is noted elsewhere too (see `heads.py`).
"""

from __future__ import annotations

import hashlib
import json
import secrets
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

from wap_kernel.model.errors import InvalidArgument
from wap_kernel.state.json_encoder import encoder

HASH = "hash"
COLUMNS = (
    *("id", "operation_id", "phase", "at", "operation", "workspace", "user", "agent", "session", "token", "summary"),
    *("outcome", "code", "error", "duration_ms", "dialect", "tool", "run", "step"),
)
"""What a record says, in the order in which people read it."""
CUT = "gc"
"""The operation of the record that retention leaves."""
_SINCE_CHAINED = ("dialect", "tool", "run", "step")
"""Columns that came with the chain: what says something there was written with a hash."""
CHUNK = 5000
"""Records that are read at once: on a network filesystem whoever reads holds up who writes."""
_LAST = 2**63 - 1

_INSERT = f"INSERT INTO audit ({', '.join((*COLUMNS, HASH))}) VALUES ({', '.join('?' * (len(COLUMNS) + 1))})"
_values = itemgetter(*COLUMNS, HASH)
_encode = encoder(sort_keys=True, separators=(",", ":"), default=repr)

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
    number, digest = head.id, head.hash
    for row in records:
        row["id"] = number = number + 1
        row[HASH] = digest = link(digest, row)
    if records and connection.executemany(_INSERT, map(_values, records)).rowcount != len(records):
        raise sqlite3.DatabaseError("the table does not take them all")  # a trigger of somebody's may eat them
    return Head(number, digest)


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


def cut(connection: sqlite3.Connection, last: int, at: str, user: str) -> Head | None:
    """Take away the records up to `last`, anchor the rest, and record who did it: the anchor. None: nothing was cut.

    The newest record stays, for the chain goes on from it. Inside a transaction that holds the writing lock.
    """
    row = connection.execute("SELECT hash, workspace FROM audit WHERE id = ?", (last,)).fetchone()
    first, newest = connection.execute("SELECT min(id), max(id) FROM audit").fetchone()
    if row is None or last == newest:
        return None
    kept = Head(last, row[0] if row[0] is not None else _linked(connection, last))
    connection.execute("DELETE FROM audit_anchors")
    connection.execute("INSERT INTO audit_anchors (audit_id, hash, at) VALUES (?, ?, ?)", (kept.id, kept.hash, at))
    connection.execute("DELETE FROM audit WHERE id <= ?", (last,))
    record: dict[str, Any] = {
        **dict.fromkeys(COLUMNS),
        **{"operation_id": f"{CUT}-{secrets.token_hex(8)}", "phase": "outcome", "at": at, "operation": CUT},
        **{"workspace": row[1], "user": user, "outcome": "ok"},
        "summary": json.dumps({"from": first, "upTo": last, "anchor": kept.hash}),
    }
    append(connection, [record])
    return kept


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
    told: str | None = None
    """When retention did so, and by whom."""


class Broken(Exception):
    """The chain does not hold at a record."""


def walk(connection: sqlite3.Connection, each: Callable[[Row, Head], None]) -> tuple[Head, Head]:
    """Call `each(row, head)` for every record from the oldest on, while the chain holds. Raises Broken.

    The anchor and the head, as they were when it came to the end. Others may append and cut meanwhile.
    """
    (first_run,) = connection.execute("SELECT min(started_at) FROM runs").fetchone()
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
            return start, position
        for row in chunk:
            has_hash = row[HASH] is not None
            if not has_hash and (is_chained or _was_chained(row, first_run)):
                raise Broken(f"Record {row['id']} carries no hash.")
            position = _next(position, row)
            is_chained = is_chained or has_hash
            each(row, position)


def _was_chained(row: Row, first_run: str | None) -> bool:
    """Whether only a version that writes hashes can have written it. Runs came with them too."""
    if first_run is not None and str(row["at"]) > first_run:
        return True
    return any(row[name] is not None for name in _SINCE_CHAINED)


def _next(position: Head, row: Row) -> Head:
    number = row["id"]
    if number != position.id + 1:
        missing = f"{position.id + 1} to {number - 1}" if number > position.id + 2 else str(number - 1)
        why = ", and no anchor says that retention cut them" if position == START else ""
        raise Broken(f"Before record {number} there is a gap: {missing} missing{why}.")
    digest = link(position.hash, row)
    if row[HASH] is not None and row[HASH] != digest:
        raise Broken(f"Record {number} does not fit its hash: it was changed, or what stood before it was.")
    return Head(number, digest)


def verify(connection: sqlite3.Connection, noted: Sequence[Head] = ()) -> Report:
    """Walk the whole chain, and compare it with heads that were noted elsewhere."""
    try:
        return _verified(connection, noted)
    except sqlite3.DatabaseError as error:  # a table or a page is gone
        if "locked" in str(error):
            raise
        return Report(0, 0, 0, START, f"The audit cannot be read: {error}.")


def _verified(connection: sqlite3.Connection, noted: Sequence[Head]) -> Report:
    seen: dict[int, str] = {}
    cuts: dict[Head, str] = {}
    wanted = {head.id for head in noted}
    counted = {"records": 0, "unchained": 0}
    start, last = anchor(connection), START

    def each(row: Row, head: Head) -> None:
        nonlocal last
        last = head
        counted["records"] += 1
        counted["unchained"] += row[HASH] is None
        if head.id in wanted:
            seen[head.id] = head.hash
        if row["operation"] == CUT:
            cuts.update(_told_by(row))

    problem: str | None = None
    try:
        start, last = walk(connection, each)
    except Broken as error:
        problem = str(error)
    seen[start.id] = start.hash
    if problem is None and start != START:
        problem = _without_record(start, last, cuts)
    if problem is None:
        problem = next((found for head in noted if (found := _compare(head, seen, start, last)) is not None), None)
    return Report(**counted, cut=start.id, head=last, problem=problem, told=cuts.get(start))


def _told_by(row: Row) -> dict[Head, str]:
    """What the record of a cut says, and who made it. It may be forged, and then says nothing."""
    try:
        summary = json.loads(row["summary"])
        return {Head(int(summary["upTo"]), str(summary["anchor"])): f"{row['at']} by {row['user']}"}
    except (TypeError, ValueError, KeyError):
        return {}


def _without_record(start: Head, last: Head, cuts: Mapping[Head, str]) -> str | None:
    if last == start:
        return f"All records are gone, up to {start.id}, and retention never takes the newest."
    if start not in cuts:
        return f"The records up to {start.id} are gone, and no record says that retention cut them."
    return None


def _compare(noted: Head, seen: Mapping[int, str], start: Head, last: Head) -> str | None:
    if noted.id < start.id:
        return f"Record {noted.id} was cut by retention (up to {start.id}): a later head is needed to compare with."
    if noted.id > last.id:
        return f"Record {noted.id} was noted and is missing: the last one is {last.id}, the tail was cut off."
    if seen.get(noted.id) != noted.hash:
        return f"Record {noted.id} does not have the hash that was noted: the audit was written anew."
    return None
