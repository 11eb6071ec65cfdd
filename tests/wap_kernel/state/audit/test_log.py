"""The audit: what it writes, in which order, and what happens when it cannot."""

from __future__ import annotations

import json
import logging
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from wap_kernel.model.caller import CallContext, Caller
from wap_kernel.model.errors import Code, NotFound, WapError
from wap_kernel.model.operations import CreateDirectory, ReadFile
from wap_kernel.state.audit import hash_chain, head_log
from wap_kernel.state.audit.log import Audit
from wap_kernel.state.database import Database
from wap_kernel.state.directory import open_state_dir

LOG = logging.getLogger("test")
ME = Caller(user="me")


@contextmanager
def opened(folder: Path) -> Iterator[tuple[Audit, Database]]:
    database = Database(open_state_dir(str(folder)), LOG)
    audit = Audit(database, "w", LOG)
    try:
        yield audit, database
    finally:
        audit.close()
        database.close()


def rows(folder: Path) -> list[dict[str, Any]]:
    connection = sqlite3.connect(folder / "state.db")
    connection.row_factory = sqlite3.Row
    found = [dict(row) for row in connection.execute("SELECT * FROM audit ORDER BY id")]
    connection.close()
    return found


def verified(database: Database) -> hash_chain.ChainReport:
    report = database.read(hash_chain.verify_chain)
    assert report.problem is None
    return report


def perform(audit: Audit, operation: Any, context: CallContext | None = None) -> None:
    record = audit.record(operation, ME) if context is None else audit.record(operation, ME, context)
    audit.intent(record)()
    audit.outcome(record, "ok")


def test_reads_and_mutations_are_written_in_order(tmp_path: Path) -> None:
    with opened(tmp_path) as (audit, _):
        for number in range(10):
            perform(audit, ReadFile(path=f"r{number}"))
            perform(audit, CreateDirectory(path=f"w{number}"))
            kept = [(row["phase"], json.loads(row["summary"])["path"]) for row in rows(tmp_path)]
            # The intent of a read stands there only if it was written before the read was over.
            kept = [(phase, path) for phase, path in kept if (phase, path[0]) != ("intent", "r")]
            written = [("intent", f"w{number}"), ("outcome", f"w{number}")]
            assert kept[-3:] == [("outcome", f"r{number}"), *written]
            assert len(kept) == 3 * (number + 1)


def test_reads_alone_are_written_soon_and_all_of_them_at_the_close(tmp_path: Path) -> None:
    with opened(tmp_path) as (audit, database):
        audit.intent(audit.record(ReadFile(path="first"), ME))()
        database.enqueue(lambda _: None).result(10)
        assert len(rows(tmp_path)) == 1
        for number in range(1200):
            audit.intent(audit.record(ReadFile(path=str(number)), ME))
    assert [json.loads(row["summary"])["path"] for row in rows(tmp_path)[1:]] == [str(n) for n in range(1200)]


def test_where_an_operation_comes_from_is_recorded(tmp_path: Path) -> None:
    with opened(tmp_path) as (audit, _):
        perform(
            audit, CreateDirectory(path="d"), CallContext("agent_spaces", "shell", run="r1", position=3, step="op-4")
        )
        perform(audit, CreateDirectory(path="d"))
    found = [(row["dialect"], row["tool"], row["run"], row["step"]) for row in rows(tmp_path)]
    assert found == [("agent_spaces", "shell", "r1", "op-4")] * 2 + [(None,) * 4] * 2


def test_names_that_are_not_unicode_are_written_escaped(tmp_path: Path) -> None:
    caller = Caller.model_construct(user="\udcff", agent="\ud800", session="é", token=None)
    with opened(tmp_path) as (audit, database):
        audit.refused("tool\udc80", NotFound("bad \ud801"), caller)
        database.enqueue(lambda _: None).result(10)
        verified(database)
    (row,) = rows(tmp_path)
    assert [row[name] for name in ("operation", "user", "agent", "session", "error")] == [
        *("tool\\udc80", "\\udcff", "\\ud800", "é", "bad \\ud801")
    ]


def test_a_record_that_cannot_be_written_refuses_itself_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    good = CreateDirectory.summary
    monkeypatch.setattr(CreateDirectory, "summary", lambda self: {"x": object()} if self.path == "bad" else good(self))
    monkeypatch.setattr(ReadFile, "summary", lambda self: {"x": object()})
    with opened(tmp_path) as (audit, database):
        audit.intent(audit.record(ReadFile(path="r"), ME))()
        with pytest.raises(WapError, match="nothing was changed") as caught:
            audit.intent(audit.record(CreateDirectory(path="bad"), ME))()
        assert caught.value.code is Code.PROVIDER_UNAVAILABLE
        audit.intent(audit.record(ReadFile(path="r"), ME))()
        audit.intent(audit.record(CreateDirectory(path="good"), ME))()
        assert verified(database).records == 1
    assert caplog.text.count("could not be written") == 3


def test_without_the_table_mutations_are_refused_and_outcomes_are_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with opened(tmp_path) as (audit, database):
        under_way = audit.record(CreateDirectory(path="a"), ME)
        audit.intent(under_way)()
        database.write(lambda connection: connection.execute("ALTER TABLE audit RENAME TO elsewhere"))
        with pytest.raises(WapError, match="nothing was changed"):
            audit.intent(audit.record(CreateDirectory(path="b"), ME))()
        audit.outcome(under_way, "ok")
        assert "could not be written" in caplog.text
        database.write(lambda connection: connection.execute("ALTER TABLE elsewhere RENAME TO audit"))
        perform(audit, CreateDirectory(path="c"))
        assert verified(database).records == 3


def test_a_table_that_eats_records_refuses_mutations(tmp_path: Path) -> None:
    with opened(tmp_path) as (audit, database):
        eat = "CREATE TRIGGER t BEFORE INSERT ON audit BEGIN SELECT RAISE(IGNORE); END"
        database.write(lambda connection: connection.execute(eat))
        with pytest.raises(WapError, match="nothing was changed"):
            audit.intent(audit.record(CreateDirectory(path="b"), ME))()


def test_no_mutation_passes_whose_record_a_failing_neighbour_took_along(tmp_path: Path) -> None:
    """Every eighth commit fails; who was not refused must have its row."""
    with opened(tmp_path) as (audit, database):
        database.write(
            lambda connection: connection.execute(
                "CREATE TRIGGER now_and_then BEFORE INSERT ON audit WHEN NEW.summary LIKE '%bad%'"
                " BEGIN SELECT RAISE(FAIL, 'no'); END"
            )
        )
        passed: list[str] = []

        def write(worker: int) -> None:
            for number in range(40):
                name = f"{worker}-{number}{'bad' if number % 8 == 0 else ''}"
                try:
                    audit.intent(audit.record(CreateDirectory(path=name), ME))()
                    passed.append(name)
                except WapError:
                    assert "bad" in name

        threads = [threading.Thread(target=write, args=(worker,)) for worker in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(json.loads(row["summary"])["path"] for row in rows(tmp_path)) == sorted(passed)
        assert verified(database).records == 8 * 35


def test_after_the_close_nobody_waits_for_ever(tmp_path: Path) -> None:
    with opened(tmp_path) as (audit, _):
        pass
    with pytest.raises(WapError, match="nothing was changed"):
        audit.intent(audit.record(CreateDirectory(path="late"), ME))()
    audit.intent(audit.record(ReadFile(path="late"), ME))()
    assert rows(tmp_path) == []


def _told(caplog: pytest.LogCaptureFixture) -> list[hash_chain.ChainHead]:
    lines = [record.getMessage() for record in caplog.records if "audit head" in record.getMessage()]
    return [hash_chain.ChainHead.parse(line.removeprefix("wap audit head ")) for line in lines]


def test_the_head_is_told_after_many_records_and_at_the_close(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    with opened(tmp_path) as (audit, database):
        for _ in range(3 * head_log.EVERY // 2):
            audit.intent(audit.record(ReadFile(path="r"), ME))()
        audit.intent(audit.record(CreateDirectory(path="w"), ME))()
        assert len(_told(caplog)) >= 1
    told = _told(caplog)
    assert told[-1].id == 3 * head_log.EVERY // 2 + 1
    with opened(tmp_path) as (_, database):
        assert database.read(lambda connection: hash_chain.verify_chain(connection, told)).problem is None
    assert _told(caplog) == told  # nothing new, nothing to tell


def test_the_head_is_told_after_a_while(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.INFO)
    pending: list[tuple[float, Callable[[], None]]] = []

    class Timer:
        daemon = False

        def __init__(self, seconds: float, function: Callable[[], None]) -> None:
            self._call = (seconds, function)

        def start(self) -> None:
            pending.append(self._call)

        def cancel(self) -> None:
            pending.clear()

    monkeypatch.setattr(head_log.threading, "Timer", Timer)
    with opened(tmp_path) as (audit, _):
        perform(audit, CreateDirectory(path="w"))
        perform(audit, CreateDirectory(path="w"))
        ((seconds, function),) = pending
        assert seconds == head_log.SECONDS
        assert _told(caplog) == []
        function()
        assert [head.id for head in _told(caplog)] == [4]
        assert pending == []
