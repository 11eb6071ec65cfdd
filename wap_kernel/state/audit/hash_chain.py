"""Chain the audit records: each carries a hash of itself and of the record before it, so that a change shows.

The ids are whole numbers without a gap, given inside the writing transaction, which only one process has at a time.
When retention cuts the oldest records, an anchor stores the hash of the last one cut, and a record says so: an anchor
without that record is forged. A chain cannot show that its tail was cut off, or that all of it was written anew: so
the server's log has the head as well (see `head_log.py`).
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
from wap_kernel.state.json_encoder import make_encoder

HASH = "hash"
COLUMNS = (
    *("id", "operation_id", "phase", "at", "operation", "workspace", "user", "agent", "session", "notebook", "token"),
    *("summary", "outcome", "code", "error", "duration_ms", "dialect", "tool", "run", "step"),
)
"""Columns of a record, in the order in which people read them."""
CUT = "gc"
"""The operation of the record that retention leaves."""
CHUNK = 5000
"""Records that are read at once: on a network filesystem a reader holds up the writers."""
_LAST = 2**63 - 1

_INSERT = f"INSERT INTO audit ({', '.join((*COLUMNS, HASH))}) VALUES ({', '.join('?' * (len(COLUMNS) + 1))})"
_values = itemgetter(*COLUMNS, HASH)
_encode = make_encoder(sort_keys=True, separators=(",", ":"), default=repr)

Row = Mapping[str, Any]


@dataclass(frozen=True)
class ChainHead:
    """A record and its hash, which stands for everything up to it."""

    id: int
    hash: str

    def __str__(self) -> str:
        return f"{self.id}:{self.hash}"

    @classmethod
    def parse(cls, text: str) -> ChainHead:
        number, _, digest = text.partition(":")
        if not (number.isascii() and number.isdigit() and len(digest) == 64):
            raise InvalidArgument(f"{text!r} is not the head of an audit.", hint="A head looks like 1234:9f86d081...")
        return cls(int(number), digest)


START = ChainHead(0, "")
"""Before the first record."""


def encode_record(row: Row) -> str:
    """Return the record as JSON with sorted names and without nulls, so an added column changes no hash."""
    return _encode({name: value for name, value in row.items() if value is not None and name != HASH})


def hash_record(previous: str, row: Row) -> str:
    return hashlib.sha256(f"{previous}\n{encode_record(row)}".encode("ascii")).hexdigest()


def append_records(connection: sqlite3.Connection, records: Sequence[dict[str, Any]]) -> ChainHead:
    """Add records that have everything but id and hash. Needs a transaction that holds the writing lock."""
    head = read_head(connection)
    number, digest = head.id, head.hash
    for row in records:
        row["id"] = number = number + 1
        row[HASH] = digest = hash_record(digest, row)
    if records and connection.executemany(_INSERT, map(_values, records)).rowcount != len(records):
        raise sqlite3.DatabaseError("the table does not take them all")  # a foreign trigger may drop them
    return ChainHead(number, digest)


def read_head(connection: sqlite3.Connection) -> ChainHead:
    """Return the last record; the chain goes on from it."""
    row = connection.execute("SELECT id, hash FROM audit ORDER BY id DESC LIMIT 1").fetchone()
    if row is None:
        return read_anchor(connection)
    return ChainHead(row[0], row[1] or "")  # a record without a hash was forged, and `verify` reports it


def read_anchor(connection: sqlite3.Connection) -> ChainHead:
    """Return where the chain begins: the last record that was cut."""
    row = connection.execute("SELECT audit_id, hash FROM audit_anchors ORDER BY audit_id DESC LIMIT 1").fetchone()
    return START if row is None else ChainHead(*row)


def cut_records(connection: sqlite3.Connection, last: int, at: str, user: str) -> ChainHead | None:
    """Remove the records up to `last`, anchor the rest, record who did it, and return the anchor.

    Returns None if nothing was cut. The newest record stays, for the chain goes on from it. Needs a transaction that
    holds the writing lock.
    """
    row = connection.execute("SELECT hash, workspace FROM audit WHERE id = ?", (last,)).fetchone()
    first, newest = connection.execute("SELECT min(id), max(id) FROM audit").fetchone()
    if row is None or last == newest:
        return None
    new_anchor = ChainHead(last, row[0] or "")
    connection.execute("DELETE FROM audit_anchors")
    connection.execute(
        "INSERT INTO audit_anchors (audit_id, hash, at) VALUES (?, ?, ?)", (new_anchor.id, new_anchor.hash, at)
    )
    connection.execute("DELETE FROM audit WHERE id <= ?", (last,))
    record: dict[str, Any] = {
        **dict.fromkeys(COLUMNS),
        **{"operation_id": f"{CUT}-{secrets.token_hex(8)}", "phase": "outcome", "at": at, "operation": CUT},
        **{"workspace": row[1], "user": user, "outcome": "ok"},
        "summary": json.dumps({"from": first, "upTo": last, "anchor": new_anchor.hash}),
    }
    append_records(connection, [record])
    return new_anchor


def iterate_records(connection: sqlite3.Connection) -> Iterator[Row]:
    """Yield every record from the oldest on, even if the chain is broken."""
    last = -(2**63)
    while chunk := _rows(connection, last, _LAST, CHUNK).fetchall():
        yield from chunk
        last = chunk[-1]["id"]


def _rows(connection: sqlite3.Connection, after: int, last: int, limit: int) -> sqlite3.Cursor:
    cursor = connection.cursor()
    cursor.row_factory = _as_dict
    return cursor.execute("SELECT * FROM audit WHERE id > ? AND id <= ? ORDER BY id LIMIT ?", (after, last, limit))


def _as_dict(cursor: sqlite3.Cursor, values: tuple[Any, ...]) -> dict[str, Any]:
    return {description[0]: value for description, value in zip(cursor.description, values, strict=True)}


# -- verification


@dataclass(frozen=True)
class ChainReport:
    """The result of a verification, up to the first problem."""

    records: int
    cut: int
    """The last record that retention removed, 0 if it removed none."""
    head: ChainHead
    problem: str | None = None
    cut_by: str | None = None
    """Time and user of the last cut."""


class BrokenChain(Exception):
    """The chain does not hold at a record."""


def walk_chain(connection: sqlite3.Connection, each: Callable[[Row, ChainHead], None]) -> tuple[ChainHead, ChainHead]:
    """Call `each(row, head)` for every record from the oldest on, and return the anchor and the head at the end.

    Raises Broken at the first record that does not fit. Others may append and cut meanwhile.
    """
    position = START
    while True:
        connection.execute("BEGIN")
        try:
            start = read_anchor(connection)
            if start.id > position.id:
                position = start
            chunk = _rows(connection, position.id, _LAST, CHUNK).fetchall()
            (least,) = connection.execute("SELECT min(id) FROM audit").fetchone()
        finally:
            connection.execute("COMMIT")
        if least is not None and least <= start.id:
            raise BrokenChain(f"Record {least} stands where retention has cut everything up to {start.id}.")
        if not chunk:
            return start, position
        for row in chunk:
            position = _check_link(position, row)
            each(row, position)


def _check_link(position: ChainHead, row: Row) -> ChainHead:
    """Return the head at `row`, which must be the record after `position`."""
    number = row["id"]
    if row[HASH] is None:
        raise BrokenChain(f"Record {number} carries no hash.")
    if number != position.id + 1:
        missing = f"{position.id + 1} to {number - 1}" if number > position.id + 2 else str(number - 1)
        why = ", and no anchor says that retention cut them" if position == START else ""
        raise BrokenChain(f"Before record {number} there is a gap: {missing} missing{why}.")
    digest = hash_record(position.hash, row)
    if row[HASH] != digest:
        raise BrokenChain(f"Record {number} does not fit its hash: it was changed, or what stood before it was.")
    return ChainHead(number, digest)


def verify_chain(connection: sqlite3.Connection, noted: Sequence[ChainHead] = ()) -> ChainReport:
    """Walk the whole chain, and compare it with heads that were noted elsewhere."""
    try:
        return _verify_chain(connection, noted)
    except sqlite3.DatabaseError as error:  # a table or a page is gone
        if "locked" in str(error):
            raise
        return ChainReport(0, 0, START, f"The audit cannot be read: {error}.")


def _verify_chain(connection: sqlite3.Connection, noted: Sequence[ChainHead]) -> ChainReport:
    seen: dict[int, str] = {}
    cuts: dict[ChainHead, str] = {}
    wanted = {head.id for head in noted}
    records = 0
    start, last = read_anchor(connection), START

    def each(row: Row, head: ChainHead) -> None:
        nonlocal last, records
        last = head
        records += 1
        if head.id in wanted:
            seen[head.id] = head.hash
        if row["operation"] == CUT:
            cuts.update(_parse_cut(row))

    problem: str | None = None
    try:
        start, last = walk_chain(connection, each)
    except BrokenChain as error:
        problem = str(error)
    seen[start.id] = start.hash
    if problem is None and start != START:
        problem = _check_anchor(start, last, cuts)
    if problem is None:
        problem = next((found for head in noted if (found := _check_head(head, seen, start, last)) is not None), None)
    return ChainReport(records, cut=start.id, head=last, problem=problem, cut_by=cuts.get(start))


def _parse_cut(row: Row) -> dict[ChainHead, str]:
    """Return the anchor that the record of a cut names, with its time and user; nothing if the record is forged."""
    try:
        summary = json.loads(row["summary"])
        return {ChainHead(int(summary["upTo"]), str(summary["anchor"])): f"{row['at']} by {row['user']}"}
    except (TypeError, ValueError, KeyError):
        return {}


def _check_anchor(start: ChainHead, last: ChainHead, cuts: Mapping[ChainHead, str]) -> str | None:
    if last == start:
        return f"All records are gone, up to {start.id}, and retention never takes the newest."
    if start not in cuts:
        return f"The records up to {start.id} are gone, and no record says that retention cut them."
    return None


def _check_head(noted: ChainHead, seen: Mapping[int, str], start: ChainHead, last: ChainHead) -> str | None:
    if noted.id < start.id:
        return f"Record {noted.id} was cut by retention (up to {start.id}): a later head is needed to compare with."
    if noted.id > last.id:
        return f"Record {noted.id} was noted and is missing: the last one is {last.id}, the tail was cut off."
    if seen.get(noted.id) != noted.hash:
        return f"Record {noted.id} does not have the hash that was noted: the audit was written anew."
    return None
