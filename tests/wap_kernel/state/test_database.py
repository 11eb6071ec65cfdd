"""The state database: who waits for what, whose failure is whose, and the journal on network filesystems."""

from __future__ import annotations

import logging
import multiprocessing
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from wap_kernel.files import filesystem_type
from wap_kernel.model.errors import Code, Conflict, WapError
from wap_kernel.runs.store.run_store import RunStore
from wap_kernel.state import schema
from wap_kernel.state.database import CHECKPOINT_PAGES, Database

LOG = logging.getLogger("test")


def insert(name: str) -> Callable[[sqlite3.Connection], int]:
    def work(connection: sqlite3.Connection) -> int:
        return connection.execute("INSERT INTO run_log (run, kind, body) VALUES (?, 'event', '')", (name,)).rowcount

    return work


def names(connection: sqlite3.Connection) -> list[str]:
    return [row[0] for row in connection.execute("SELECT run FROM run_log ORDER BY id")]


def journal(connection: sqlite3.Connection) -> str:
    mode: str = connection.execute("PRAGMA journal_mode").fetchone()[0]
    return mode


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    opened = Database(str(tmp_path), LOG)
    yield opened
    opened.close()


def test_what_was_written_is_read_by_everybody(database: Database, tmp_path: Path) -> None:
    assert database.write(insert("a")) == 1
    assert database.read(names) == ["a"]
    other = schema.connect(str(tmp_path))
    assert names(other) == ["a"]
    other.close()


def test_what_was_committed_reaches_the_database_itself_without_a_further_commit(
    database: Database, tmp_path: Path
) -> None:
    def many(connection: sqlite3.Connection) -> None:
        rows = ((f"run {number}",) for number in range(CHECKPOINT_PAGES))
        connection.executemany("INSERT INTO run_log (run, kind, body) VALUES (?, 'event', 'a body')", rows)

    path = tmp_path / schema.NAME
    before = path.stat().st_size
    database.write(many)
    deadline = time.monotonic() + 60
    while path.stat().st_size == before and time.monotonic() < deadline:
        time.sleep(0.01)
    assert path.stat().st_size > before
    assert len(database.read(names)) == CHECKPOINT_PAGES


def test_what_can_wait_is_written_in_order_before_what_cannot(database: Database) -> None:
    futures = [database.enqueue(insert(str(number))) for number in range(5)]
    database.write(insert("now"))
    assert all(future.done() for future in futures)
    assert database.read(names) == ["0", "1", "2", "3", "4", "now"]
    assert database.enqueue(insert("soon")).result(60) == 1


class Mine(Exception):
    pass


def test_a_failure_takes_back_its_own_work_and_nobody_elses(database: Database) -> None:
    def fail(connection: sqlite3.Connection) -> None:
        insert("half")(connection)
        raise Mine

    gate = threading.Event()
    first = database.enqueue(lambda _: gate.wait(60))  # keeps the thread, so that the rest makes one group
    before, failed, after = (
        database.enqueue(insert("before")),
        database.enqueue(fail),
        database.enqueue(insert("after")),
    )
    gate.set()
    assert first.result(60)
    assert (before.result(60), after.result(60)) == (1, 1)
    assert isinstance(failed.exception(60), Mine)
    with pytest.raises(Mine):
        database.write(fail)
    assert database.read(names) == ["before", "after"]


@pytest.mark.parametrize("error", [Conflict("no"), sqlite3.IntegrityError("twice")])
def test_what_the_work_raises_comes_back_as_it_is(
    database: Database, error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(_: sqlite3.Connection) -> None:
        raise error

    with pytest.raises(type(error)) as caught:
        database.write(fail)
    assert caught.value is error
    assert caplog.records == []


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (sqlite3.OperationalError("database or disk is full"), Code.NO_SPACE),
        (sqlite3.OperationalError("disk I/O error"), Code.PROVIDER_UNAVAILABLE),
        (sqlite3.DatabaseError("database disk image is malformed"), Code.PROVIDER_UNAVAILABLE),
    ],
)
def test_a_database_that_fails_is_an_error_with_advice(
    database: Database, error: Exception, code: Code, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(_: sqlite3.Connection) -> None:
        raise error

    for call in (database.write, database.read):
        with pytest.raises(WapError, match="nothing was changed") as caught:
            call(fail)
        assert caught.value.code is code
    assert str(error) in caplog.text
    database.write(insert("goes on"))


def test_when_the_commit_fails_everybody_is_told(database: Database) -> None:
    def break_it(connection: sqlite3.Connection) -> None:
        connection.execute("ROLLBACK")

    with pytest.raises(WapError, match="nothing was changed"):
        database.write(break_it)
    assert database.write(insert("goes on")) == 1


def test_the_close_finishes_what_was_handed_in_and_refuses_the_rest(tmp_path: Path) -> None:
    database = Database(str(tmp_path), LOG)
    futures = [database.enqueue(insert(str(number))) for number in range(100)]
    database.close()
    assert [future.result(0) for future in futures] == [1] * 100
    for call in (database.write, database.read, lambda work: database.enqueue(work).result(0)):
        with pytest.raises(WapError, match="closed"):
            call(insert("late"))


# -- the journal


def test_the_newest_runs_are_found_without_sorting_all(database: Database) -> None:
    asked: list[str] = []
    database.read(lambda connection: connection.set_trace_callback(asked.append))
    RunStore(database, "ws").page(None, None, 10, None)
    database.read(lambda connection: connection.set_trace_callback(None))
    plan = database.read(lambda connection: connection.execute(f"EXPLAIN QUERY PLAN {asked[0]}").fetchall())
    assert plan and not [step for *_, step in plan if "TEMP B-TREE" in step]


def test_this_folder_is_on_a_disk_and_network_filesystems_are_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not filesystem_type.is_network_filesystem("/proc")
    assert filesystem_type.is_network_filesystem(str(tmp_path / "missing"))  # not known, so the safe way
    assert not {0xEF53, 0x58465342, 0x9123683E, 0x01021994, 0x794C7630} & set(
        filesystem_type.NETWORK_TYPES
    )  # ext4 xfs btrfs ...
    monkeypatch.setattr(filesystem_type, "NETWORK_TYPES", {0x9FA0: "proc"})
    assert filesystem_type.is_network_filesystem("/proc")


def on_the_network(_: str) -> bool:
    return True


def on_a_disk(_: str) -> bool:
    return False


def test_the_journal_fits_the_filesystem_and_moves_with_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for answer, mode, synchronous in ((on_a_disk, "wal", 1), (on_the_network, "delete", 2), (on_a_disk, "wal", 1)):
        monkeypatch.setattr(filesystem_type, "is_network_filesystem", answer)
        connection = schema.connect(str(tmp_path))
        assert journal(connection) == mode
        assert connection.execute("PRAGMA synchronous").fetchone() == (synchronous,)
        insert(mode)(connection)
        connection.close()
    connection = schema.connect(str(tmp_path))
    assert names(connection) == ["wal", "delete", "wal"]
    connection.close()


def test_a_neighbour_who_keeps_the_unsafe_journal_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filesystem_type, "is_network_filesystem", on_a_disk)
    neighbour = schema.connect(str(tmp_path))
    monkeypatch.setattr(filesystem_type, "is_network_filesystem", on_the_network)
    monkeypatch.setattr(schema, "BUSY_TIMEOUT_SECONDS", 0.05)
    with pytest.raises(WapError, match="another process keeps it") as caught:
        schema.connect(str(tmp_path))
    assert "End the other servers" in caught.value.text
    neighbour.close()
    connection = schema.connect(str(tmp_path))
    assert journal(connection) == "delete"
    connection.close()


def _write_many(folder: str, name: str, count: int, network: bool) -> None:
    filesystem_type.is_network_filesystem = on_the_network if network else on_a_disk
    database = Database(folder, LOG)
    for number in range(count):
        database.write(insert(f"{name}{number}"))
        database.read(names)
    database.close()


@pytest.mark.parametrize("network", [True, False])
def test_two_processes_start_and_write_at_once(tmp_path: Path, network: bool) -> None:
    count = 40
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=_write_many, args=(str(tmp_path), name, count, network)) for name in ("a", "b")]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0, 0]
    connection = sqlite3.connect(tmp_path / "state.db")
    found: list[Any] = names(connection)
    assert journal(connection) == ("delete" if network else "wal")
    assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    connection.close()
    for name in ("a", "b"):
        assert [each for each in found if each.startswith(name)] == [f"{name}{number}" for number in range(count)]
