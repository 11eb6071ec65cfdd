"""The audit's chain: what is changed, taken out, put in or cut off shows; retention and neighbours do not break it."""

from __future__ import annotations

import logging
import multiprocessing
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from wap_kernel.model.caller import Caller
from wap_kernel.model.errors import InvalidArgument, WapError
from wap_kernel.model.operations import CreateDirectory
from wap_kernel.state import schema
from wap_kernel.state.audit import hash_chain
from wap_kernel.state.audit.hash_chain import ChainHead
from wap_kernel.state.audit.log import Audit
from wap_kernel.state.database import Database
from wap_kernel.state.directory import open_state_dir

LOG = logging.getLogger("test")
AT = "2026-01-01T00:00:00.000Z"


def record(state: str, name: str, count: int) -> None:
    """`count` operations, so twice as many records."""
    database = Database(state, LOG)
    audit = Audit(database, "w", LOG)
    for number in range(count):
        under_way = audit.record(CreateDirectory(path=f"{name}{number}"), Caller(user="me", agent="an agent"))
        audit.intent(under_way)()
        audit.outcome(under_way, "failed", InvalidArgument("no"))
    audit.close()
    database.close()


@pytest.fixture
def state(tmp_path: Path) -> str:
    return open_state_dir(str(tmp_path / "s"))


@pytest.fixture(scope="module")
def ten(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with 10 records."""
    folder = tmp_path_factory.mktemp("ten")
    record(str(folder), "d", 5)
    return folder / "state.db"


@pytest.fixture
def kept(ten: Path, state: str) -> Iterator[sqlite3.Connection]:
    """A copy of it."""
    shutil.copy(ten, state)
    connection = schema.connect(state)
    yield connection
    connection.close()


def problem(connection: sqlite3.Connection, *noted: ChainHead) -> str:
    found = hash_chain.verify_chain(connection, noted).problem
    assert found is not None
    return found


def test_what_nobody_touched_is_as_it_was_written(kept: sqlite3.Connection) -> None:
    report = hash_chain.verify_chain(kept)
    assert report == hash_chain.ChainReport(records=10, cut=0, head=hash_chain.read_head(kept), problem=None)


def test_an_empty_audit_is_fine(state: str) -> None:
    connection = schema.connect(state)
    assert hash_chain.verify_chain(connection) == hash_chain.ChainReport(0, 0, hash_chain.START)
    assert "tail was cut off" in problem(connection, ChainHead(1, "0" * 64))
    connection.close()


@pytest.mark.parametrize("column", [name for name in hash_chain.COLUMNS if name != "id"])
@pytest.mark.parametrize("number", [1, 6, 10])
def test_a_change_to_any_column_shows(kept: sqlite3.Connection, column: str, number: int) -> None:
    other = {"phase": "intent" if number % 2 == 0 else "outcome", "outcome": "ok", "duration_ms": 0.1254}
    # No duration is measured to a tenth of a microsecond, so this is another one.
    kept.execute(f"UPDATE audit SET {column} = ? WHERE id = ?", (other.get(column, "something else"), number))
    report = hash_chain.verify_chain(kept)
    assert report.problem is not None and report.problem.startswith(f"Record {number} does not fit its hash")
    assert report.records == number - 1


DAMAGE: dict[str, tuple[str, str]] = {
    "one taken out": ("DELETE FROM audit WHERE id = 4", "Before record 5 there is a gap: 4 missing"),
    "some taken out": ("DELETE FROM audit WHERE id IN (4, 5, 6)", "Before record 7 there is a gap: 4 to 6 missing"),
    "the oldest taken out": ("DELETE FROM audit WHERE id < 3", "gap: 1 to 2 missing, and no anchor says"),
    "closed up": ("DELETE FROM audit WHERE id = 4; UPDATE audit SET id = id - 1 WHERE id > 4", "Record 4 does not fit"),
    "without a hash": ("UPDATE audit SET hash = NULL WHERE id = 7", "Record 7 carries no hash"),
    "another hash": ("UPDATE audit SET hash = (SELECT hash FROM audit WHERE id = 1) WHERE id = 7", "Record 7 does not"),
    "swapped": (
        "UPDATE audit SET id = 99 WHERE id = 3; UPDATE audit SET id = 3 WHERE id = 4; UPDATE audit SET id = 4"
        " WHERE id = 99",
        "Record 3 does not fit",
    ),
    "put in before the first": (
        "INSERT INTO audit SELECT 0, operation_id, phase, at, operation, workspace, user, agent, session, notebook,"
        " summary, outcome, code, error, duration_ms, token, dialect, tool, run, step, hash FROM audit WHERE id = 1",
        "Record 0 stands where",
    ),
    "an anchor over what is there": (
        f"INSERT INTO audit_anchors SELECT id, hash, '{AT}' FROM audit WHERE id = 5",
        "Record 1 stands where retention has cut everything up to 5",
    ),
    "the table is gone": ("DROP TABLE audit", "The audit cannot be read: no such table"),
    "the anchors are gone": ("DROP TABLE audit_anchors", "The audit cannot be read: no such table"),
    "bytes instead of text": ("UPDATE audit SET user = x'00ff' WHERE id = 2", "Record 2 does not fit"),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_damage_shows(kept: sqlite3.Connection, damage: str) -> None:
    script, text = DAMAGE[damage]
    kept.executescript(script)
    assert text in problem(kept)


def test_a_tail_that_was_cut_off_shows_with_a_head_noted_elsewhere(kept: sqlite3.Connection) -> None:
    head = hash_chain.read_head(kept)
    kept.execute("DELETE FROM audit WHERE id > 8")
    assert hash_chain.verify_chain(kept).problem is None
    assert "Record 10 was noted and is missing: the last one is 8" in problem(kept, head)


def test_an_audit_that_was_written_anew_shows_with_a_head_noted_elsewhere(kept: sqlite3.Connection, state: str) -> None:
    heads = [ChainHead(*row) for row in kept.execute("SELECT id, hash FROM audit WHERE id IN (4, 10)")]
    assert hash_chain.verify_chain(kept, heads).problem is None
    kept.execute("DELETE FROM audit")
    record(state, "d", 5)
    assert hash_chain.verify_chain(kept).problem is None
    assert "Record 4 does not have the hash that was noted" in problem(kept, *heads)


@pytest.mark.parametrize("text", ["", "12", "12:", "x:" + "0" * 64, "12:short", "-1:" + "0" * 64])
def test_a_head_is_read_as_it_is_written(text: str) -> None:
    with pytest.raises(WapError, match="is not the head of an audit"):
        ChainHead.parse(text)
    assert ChainHead.parse("12:" + "a" * 64) == ChainHead(12, "a" * 64)


# -- retention


def cut(connection: sqlite3.Connection, last: int) -> ChainHead | None:
    connection.execute("BEGIN IMMEDIATE")
    anchor = hash_chain.cut_records(connection, last, AT, "janitor")
    connection.execute("COMMIT")
    return anchor


def test_what_retention_leaves_can_be_verified(kept: sqlite3.Connection, state: str) -> None:
    heads = {number: ChainHead(number, digest) for number, digest in kept.execute("SELECT id, hash FROM audit")}
    assert cut(kept, 3) == heads[3]
    assert cut(kept, 4) == heads[4]
    assert cut(kept, 4) is None
    record(state, "e", 1)
    report = hash_chain.verify_chain(kept, [heads[4], heads[10]])
    assert (report.records, report.cut, report.problem) == (6 + 2 + 2, 4, None)
    assert report.cut_by == f"{AT} by janitor"
    assert "Record 2 was cut by retention (up to 4)" in problem(kept, heads[2])
    assert "does not have the hash" in problem(kept, ChainHead(4, "0" * 64))
    kept.execute("DELETE FROM audit_anchors")
    assert "no anchor says that retention cut them" in problem(kept)


def test_the_newest_is_never_cut(kept: sqlite3.Connection) -> None:
    assert cut(kept, 10) is None
    assert hash_chain.verify_chain(kept).records == 10
    assert cut(kept, 9) is not None
    report = hash_chain.verify_chain(kept)
    assert (report.records, report.head.id, report.problem) == (2, 11, None)


def forge_cut(connection: sqlite3.Connection, last: int) -> None:
    """As somebody would who wants some records gone."""
    connection.execute("DELETE FROM audit_anchors")
    connection.execute("INSERT INTO audit_anchors SELECT id, hash, ? FROM audit WHERE id = ?", (AT, last))
    connection.execute("DELETE FROM audit WHERE id <= ?", (last,))


@pytest.mark.parametrize(
    ("last", "text"),
    [(4, "The records up to 4 are gone, and no record says"), (9, "up to 9 are gone"), (10, "All records are gone")],
)
def test_an_anchor_without_a_record_of_the_cut_is_forged(kept: sqlite3.Connection, last: int, text: str) -> None:
    forge_cut(kept, last)
    assert text in problem(kept)


def test_the_record_of_one_cut_does_not_cover_another(kept: sqlite3.Connection) -> None:
    cut(kept, 3)
    forge_cut(kept, 5)
    assert "The records up to 5 are gone" in problem(kept)


@pytest.mark.parametrize("summary", ["[]", "7", "not json", "{}", '{"upTo": 5}', '{"upTo": [5], "anchor": {}}'])
def test_a_record_of_a_cut_that_says_nothing_covers_nothing(kept: sqlite3.Connection, summary: str) -> None:
    row = {
        **dict.fromkeys(hash_chain.COLUMNS),
        "operation_id": "o",
        "phase": "outcome",
        "at": AT,
        "operation": hash_chain.CUT,
    }
    hash_chain.append_records(kept, [{**row, "workspace": "w", "user": "me", "summary": summary}])
    forge_cut(kept, 5)
    assert "The records up to 5 are gone" in problem(kept)


def test_a_cut_in_the_middle_of_a_walk_is_no_damage(kept: sqlite3.Connection, state: str, monkeypatch: Any) -> None:
    monkeypatch.setattr(hash_chain, "CHUNK", 2)
    seen: list[int] = []
    neighbour = schema.connect(state)

    def each(row: hash_chain.Row, head: ChainHead) -> None:
        seen.append(head.id)
        if head.id == 2:
            cut(neighbour, 7)

    start, head = hash_chain.walk_chain(kept, each)
    assert (start.id, head.id) == (7, 11)
    assert seen == [1, 2, 8, 9, 10, 11]
    neighbour.close()


# -- records without a hash


@pytest.mark.parametrize("which", ["id = 7", "id <= 3", "1"])
def test_a_record_without_a_hash_was_forged(kept: sqlite3.Connection, which: str) -> None:
    first = kept.execute(f"SELECT min(id) FROM audit WHERE {which}").fetchone()[0]
    kept.execute(f"UPDATE audit SET hash = NULL WHERE {which}")
    assert f"Record {first} carries no hash" in problem(kept)


def test_the_chain_goes_on_after_a_record_without_a_hash_and_still_shows_it(
    kept: sqlite3.Connection, state: str
) -> None:
    kept.execute("UPDATE audit SET hash = NULL WHERE id = 10")
    record(state, "e", 1)
    assert "Record 10 carries no hash" in problem(kept)


def test_retention_does_not_hide_a_record_without_a_hash(kept: sqlite3.Connection) -> None:
    kept.execute("UPDATE audit SET hash = NULL WHERE id = 3")
    cut(kept, 3)
    assert "Record 4 does not fit" in problem(kept)


def test_an_added_column_changes_no_hash(kept: sqlite3.Connection) -> None:
    kept.execute("ALTER TABLE audit ADD COLUMN later TEXT")
    assert hash_chain.verify_chain(kept).problem is None
    kept.execute("UPDATE audit SET later = 'x' WHERE id = 3")
    assert "Record 3 does not fit" in problem(kept)


# -- neighbours


def _in_processes(work: Callable[..., None], *arguments: tuple[Any, ...]) -> None:
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=work, args=each) for each in arguments]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0] * len(processes)


def test_two_processes_write_one_chain(state: str) -> None:
    _in_processes(record, (state, "a", 200), (state, "b", 200))
    connection = schema.connect(state)
    report = hash_chain.verify_chain(connection)
    connection.close()
    assert (report.records, report.problem) == (800, None)
