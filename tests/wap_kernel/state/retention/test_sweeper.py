"""Retention: what is decided, and what is done beside others who live."""

from __future__ import annotations

import json
import logging
import os
import secrets
import sqlite3
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from wap_kernel.model.caller import Caller
from wap_kernel.model.changes import FileImage
from wap_kernel.model.operations import CreateDirectory
from wap_kernel.model.text import format_epoch
from wap_kernel.state import schema
from wap_kernel.state.audit import hash_chain
from wap_kernel.state.audit.log import Audit
from wap_kernel.state.database import Database
from wap_kernel.state.retention import sweeper
from wap_kernel.state.retention.policy import (
    DAY,
    ImageUsage,
    RetentionLimits,
    RetentionPlan,
    StateInventory,
    StorageUsage,
    StoredRun,
    plan_sweep,
)
from wap_kernel.state.retention.sweeper import Sweeper, SweepResult

NOW = 1_800_000_000.0
OLD = NOW - DAY


def ago(days: float, now: float = NOW) -> str:
    return format_epoch(now - days * DAY)


def run(number: int, days: float | None, reverts: int | None = None) -> StoredRun:
    """A run that ended so many days ago; None: it has not ended."""
    ended = None if days is None else ago(days)
    return StoredRun(number, f"r{number}", ended, None if reverts is None else f"r{reverts}")


def holdings(
    *runs: StoredRun, outputs: dict[str, int] | None = None, images: dict[str, int] | None = None, at: float = OLD
) -> StateInventory:
    return StateInventory(
        runs,
        {name: StorageUsage(size, at) for name, size in (outputs or {}).items()},
        [ImageUsage(name, _owner(name), size, at) for name, size in (images or {}).items()],
    )


def _owner(name: str) -> str | None:
    """Return the run that a before-image like `r1a` belongs to."""
    return name[:2] if name.startswith("r") else None


def decide(held: StateInventory, limits: RetentionLimits | None = None) -> tuple[list[str], list[str], list[str], int]:
    found: RetentionPlan = plan_sweep(held, limits or RetentionLimits(), NOW)
    return list(found.runs), sorted(found.outputs), [image.name for image in found.images], found.size


def test_nothing_of_nothing() -> None:
    assert decide(holdings()) == ([], [], [], 0)


def test_runs_go_after_thirty_days_with_what_only_they_need() -> None:
    images = {"r1a": 1, "r1b": 2, "r2b": 2, "c": 4}
    held = holdings(*(run(1, 31), run(2, 29)), outputs={"r1": 10, "r2": 20}, images=images)
    assert decide(held) == (["r1"], ["r1"], ["r1a", "r1b", "c"], 17)


def test_a_run_that_runs_or_waits_stays_and_so_does_what_it_undoes() -> None:
    held = holdings(run(1, 99), run(2, 99), run(3, None, reverts=1), images={"r1a": 1}, outputs={"r3": 5})
    assert decide(held, RetentionLimits(size=0)) == (["r2"], [], [], 0)


def test_rows_count_too() -> None:
    held = holdings(*(replace(run(number, 1), size=100) for number in (1, 2, 3)), outputs={"r2": 50})
    assert decide(held, RetentionLimits(size=350))[0] == []
    assert decide(held, RetentionLimits(size=349))[0] == ["r1"]
    assert decide(held, RetentionLimits(size=249))[0] == ["r1", "r2"]


def test_the_oldest_go_first_when_it_is_too_much_and_only_as_many_as_needed() -> None:
    held = holdings(
        *(run(4, 1), run(2, 3), run(1, 4), run(3, 2)),
        outputs={"r2": 10, "r3": 10, "r4": 10},
        images={"r2b": 100, "r3c": 100, "r4d": 100},
    )
    assert decide(held, RetentionLimits(size=330))[0] == []
    assert decide(held, RetentionLimits(size=329)) == (["r2"], ["r2"], ["r2b"], 110)  # r1 has nothing to give
    assert decide(held, RetentionLimits(size=219)) == (["r2", "r3"], ["r2", "r3"], ["r2b", "r3c"], 220)
    assert decide(held, RetentionLimits(size=0))[0] == ["r2", "r3", "r4"]


def test_what_nothing_refers_to_stays_while_somebody_may_be_about_to() -> None:
    young = holdings(outputs={"unknown": 5}, images={"a": 1}, at=NOW - 3600)
    assert decide(young) == ([], [], [], 0)
    old = holdings(outputs={"unknown": 5}, images={"a": 1}, at=NOW - 3 * 3600)
    assert decide(old) == ([], ["unknown"], ["a"], 6)


def test_the_output_of_a_run_that_goes_goes_at_once() -> None:
    assert decide(holdings(run(1, 31), outputs={"r1": 5}, at=NOW))[1] == ["r1"]


# -- doing it


class State:
    """A state folder, filled by hand."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.connection = schema.connect(str(folder))
        (folder / "images").mkdir()
        self.now = time.time()

    def run(self, name: str, days: float, status: str = "completed", reverts: str | None = None) -> None:
        at = ago(days, self.now)
        self.connection.execute(
            "INSERT INTO runs (id, workspace, status, caller, asker, dialect, options, operations, count, reverts,"
            " started_at, completed_at) VALUES (?, 'w', ?, '{}', '', 'd', '{}', '[]', 0, ?, ?, ?)",
            (name, status, reverts, at, None if status in ("running", "awaiting_approval") else at),
        )
        self.connection.execute("INSERT INTO run_log (run, kind, body) VALUES (?, 'event', '{}')", (name,))
        self.connection.execute(
            "INSERT INTO applies (run, position, is_atomic, first, last) VALUES (?, 0, 0, 0, 0)", (name,)
        )
        self.connection.execute("INSERT INTO positions VALUES (?, 0)", (name,))
        self.connection.execute("INSERT INTO problems VALUES (?, 1)", (name,))
        self.connection.execute(
            "INSERT INTO approvals (id, run, position, operation_id, digest, files, shown, created_at, expires_at)"
            " VALUES (?, ?, 0, '', '', '{}', '{}', 0, 0)",
            (f"approval of {name}", name),
        )

    def change(self, name: str, content: bytes) -> Path:
        """Store a change of a run with its before-image."""
        token = secrets.token_hex(12)
        before = FileImage("file", 0o644, len(content), stamp=f"1:{len(content)}:2", stored=token)
        self.connection.execute(
            "INSERT INTO change_log (run, position, path, kind, before, after, token, is_done)"
            " VALUES (?, 0, 'f', 'changed', ?, '{}', ?, 1)",
            (name, before.dump(), token),
        )
        self.connection.execute(
            "INSERT INTO images (name, stamp, run, size) VALUES (?, ?, ?, ?)", (token, before.stamp, name, len(content))
        )
        return self.image(token, content)

    def image(self, name: str, content: bytes) -> Path:
        path = self.folder / "images" / name
        path.write_bytes(content)
        return path

    def contents(self) -> set[bytes]:
        return {path.read_bytes() for path in (self.folder / "images").iterdir()}

    def output(self, name: str, content: bytes, *, hours: float = 24) -> Path:
        folder = self.folder / "outputs" / name
        folder.mkdir(parents=True)
        (folder / "0.stdout").write_bytes(content)
        self.age(folder / "0.stdout", hours)
        self.age(folder, hours)
        return folder

    def age(self, path: Path, hours: float) -> None:
        os.utime(path, (self.now - hours * 3600,) * 2)

    def audit(self, *days: float) -> None:
        row = {**dict.fromkeys(hash_chain.COLUMNS), "operation_id": "o", "phase": "outcome", "operation": "readFile"}
        row |= {"workspace": "w", "user": "me", "summary": "{}", "outcome": "ok"}
        self.connection.execute("BEGIN IMMEDIATE")
        hash_chain.append_records(self.connection, [{**row, "at": ago(each, self.now)} for each in days])
        self.connection.execute("COMMIT")

    def token(self, name: str, expires: float, revoked: float | None = None) -> None:
        self.connection.execute(
            "INSERT INTO tokens (id, workspace, digest, name, limits, created_at, created_by, vouched, expires_at,"
            " revoked_at) VALUES (?, 'w', '', ?, '{}', '', 'me', 0, ?, ?)",
            (name, name, ago(expires, self.now), None if revoked is None else ago(revoked, self.now)),
        )
        self.connection.execute("INSERT INTO bytes_written VALUES (?, '2026-01-01', 5)", (name,))

    def column(self, query: str) -> list[object]:
        return [row[0] for row in self.connection.execute(query)]

    def sweeper(self, limits: RetentionLimits | None = None, **options: object) -> Sweeper:
        return Sweeper(str(self.folder), self.connection, limits, user="janitor", **options)  # type: ignore[arg-type]


@pytest.fixture
def state(tmp_path: Path) -> Iterator[State]:
    made = State(tmp_path)
    yield made
    made.connection.close()


TABLES = ("runs", "positions", "problems", "run_log", "approvals", "change_log", "images", "applies")


def filled(state: State) -> None:
    for name, days in (("old", 40), ("young", 2)):
        state.run(name, days)
        state.change(name, name.encode())
        state.output(name, b"x" * 100)
    state.run("waits", 99, "awaiting_approval")
    state.change("waits", b"wanted")
    state.audit(400, 380, 10, 0)
    state.token("expired", 100)
    state.token("revoked", -100, 95)
    state.token("just expired", 80)
    state.token("good", -5)


def test_a_sweep_takes_what_is_old_and_says_what_it_freed(state: State) -> None:
    filled(state)
    expected = SweepResult(runs=1, outputs=1, images=1, tokens=2, audit_records=2, size=103)
    assert state.sweeper().preview() == expected
    assert state.sweeper().preview() == expected  # nothing was touched
    freed = state.sweeper().sweep()
    assert freed.anchor is not None and freed.anchor.id == 2
    assert replace(freed, anchor=None) == expected
    for table in TABLES:
        name = "id" if table == "runs" else "run"
        assert set(state.column(f"SELECT {name} FROM {table}")) == {"young", "waits"}
    assert os.listdir(state.folder / "outputs") == ["young"]
    assert state.contents() == {b"young", b"wanted"}
    assert state.column("SELECT id FROM tokens ORDER BY id") == ["good", "just expired"]
    assert state.column("SELECT token FROM bytes_written ORDER BY token") == ["good", "just expired"]
    assert state.sweeper().sweep() == SweepResult()


def test_the_audit_stays_verifiable_and_says_who_cut_it(
    state: State, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("wap_kernel.state.retention.sweeper.BATCH", 5)
    caplog.set_level(logging.INFO)
    state.audit(*(number + 0.5 for number in range(372, 362, -1)))
    freed = state.sweeper().sweep()
    assert freed.audit_records == 8
    report = hash_chain.verify_chain(state.connection)
    assert (report.records, report.cut, report.problem) == (2 + 2, 8, None)
    rows = state.connection.execute("SELECT operation, user, summary FROM audit ORDER BY id DESC LIMIT 2").fetchall()
    assert [row[:2] for row in rows] == [("gc", "janitor")] * 2
    last, first = (json.loads(row[2]) for row in rows)
    assert (first["from"], first["upTo"], last["from"], last["upTo"]) == (1, 5, 6, 8)
    assert freed.anchor == hash_chain.ChainHead(8, last["anchor"])
    assert f"wap audit cut 6 to 8, anchor {freed.anchor}" in caplog.text


def test_the_chain_holds_while_a_server_writes(state: State, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wap_kernel.state.retention.sweeper.BATCH", 3)
    state.audit(*[400] * 100)
    database = Database(str(state.folder), logging.getLogger("test"))
    audit = Audit(database, "w", logging.getLogger("test"))

    def write(what: str, done: int, total: int) -> None:
        if what == "audit":
            audit.intent(audit.record(CreateDirectory(path="d"), Caller()))()

    assert state.sweeper(progress=write).sweep().audit_records == 99
    audit.close()
    database.close()
    report = hash_chain.verify_chain(state.connection)
    assert (report.records, report.cut, report.problem) == (1 + 33 + 33, 99, None)


def test_the_newest_audit_record_stays_however_old(state: State) -> None:
    state.audit(900, 800, 700)
    assert state.sweeper().sweep().audit_records == 2
    assert hash_chain.verify_chain(state.connection).problem is None
    assert state.column("SELECT id FROM audit ORDER BY id") == [3, 4]


def test_what_the_audit_has_too_much_goes_from_the_oldest_on_and_the_chain_holds(state: State) -> None:
    state.audit(*[1] * 100)
    (size,) = state.column(f"SELECT sum({sweeper._AUDIT_SIZE}) FROM audit")
    assert isinstance(size, int)
    assert state.sweeper(RetentionLimits(audit_size=size)).sweep() == SweepResult()
    limits = RetentionLimits(audit_size=size - 1)
    assert state.sweeper(limits).preview().audit_records == 11  # down to nine tenths
    assert state.sweeper(limits).sweep().audit_records == 11
    report = hash_chain.verify_chain(state.connection)
    assert (report.records, report.cut, report.problem) == (89 + 1, 11, None)
    assert state.sweeper(limits).sweep() == SweepResult()  # the record of the cut does not lead to the next one
    assert state.sweeper(RetentionLimits(audit_size=0)).sweep().audit_records == 89
    assert state.column("SELECT operation FROM audit") == ["gc", "gc"]
    assert hash_chain.verify_chain(state.connection).problem is None


def test_what_the_audit_has_too_much_or_too_old_goes_whichever_is_more(state: State) -> None:
    state.audit(*[400] * 30, *[1] * 70)
    (size,) = state.column(f"SELECT sum({sweeper._AUDIT_SIZE}) FROM audit")
    assert isinstance(size, int)
    assert state.sweeper(RetentionLimits(audit_size=size - 1)).preview().audit_records == 30
    assert 49 <= state.sweeper(RetentionLimits(audit_size=size // 2)).preview().audit_records <= 56


def test_what_a_sweep_that_was_killed_left_is_found_by_the_next(state: State) -> None:
    state.output("gone", b"12345")
    state.image("unnamed", b"unnamed")
    folder = state.folder / "images" / "0123.part"
    (folder / "sealed").mkdir(parents=True)
    (folder / "sealed/f").write_bytes(b"half a")
    (folder / "sealed").chmod(0o500)
    assert state.sweeper().sweep() == SweepResult(outputs=1, size=5)
    later = time.time() + 3 * 3600
    assert state.sweeper(now=later).sweep() == SweepResult(images=2, size=7 + 6)
    assert state.contents() == set()


def test_a_run_that_came_back_to_life_after_the_plan_keeps_everything(state: State) -> None:
    """A revert of it is begun by a server in the meantime."""
    state.run("old", 40)
    image = state.change("old", b"before")
    folder = state.output("old", b"out")

    def begin(what: str, done: int, total: int) -> None:
        if what == "runs":
            state.run("revert", 0, "running", reverts="old")

    assert state.sweeper(progress=begin).sweep() == SweepResult()
    assert state.column("SELECT id FROM runs ORDER BY number") == ["old", "revert"]
    assert image.exists()
    assert folder.exists()


def test_a_before_image_that_a_run_stores_after_the_plan_stays(state: State) -> None:
    state.image("wanted", b"wanted again")

    def refer(what: str, done: int, total: int) -> None:
        if what == "before-images":
            state.connection.execute("INSERT INTO images (name, run, size) VALUES ('wanted', 'new', 12)")

    later = time.time() + 3 * 3600
    assert state.sweeper(now=later, progress=refer).sweep() == SweepResult()
    assert state.contents() == {b"wanted again"}


def test_too_much_takes_the_oldest_that_has_ended(state: State) -> None:
    state.run("first", 3)
    state.change("first", b"a" * 1000)
    state.run("second", 2)
    state.output("second", b"b" * 1000)
    state.run("runs", 9, "running")
    state.output("runs", b"c" * 1000)
    assert state.sweeper(RetentionLimits(size=2100)).sweep() == SweepResult(runs=1, images=1, size=1000)
    assert state.sweeper(RetentionLimits(size=500)).sweep() == SweepResult(runs=1, outputs=1, size=1000)
    assert state.sweeper(RetentionLimits(size=500)).sweep() == SweepResult()


def test_what_runs_have_in_the_database_counts(state: State) -> None:
    for name in ("first", "second", "third"):
        state.run(name, 3)
        state.connection.execute("INSERT INTO run_log (run, kind, body) VALUES (?, 'event', ?)", (name, "é" * 50_000))
    state.run("waits", 9, "awaiting_approval")
    state.connection.execute("UPDATE runs SET operations = ? WHERE id = 'waits'", ("x" * 100_000,))
    assert state.sweeper(RetentionLimits(size=401_000)).sweep() == SweepResult()
    assert state.sweeper(RetentionLimits(size=301_000)).sweep() == SweepResult(runs=1)
    assert state.column("SELECT id FROM runs ORDER BY number") == ["second", "third", "waits"]
    assert state.sweeper(RetentionLimits(size=0)).sweep() == SweepResult(runs=2)
    assert state.column("SELECT DISTINCT run FROM run_log") == ["waits"]


def test_who_is_told_to_stop_leaves_the_rest(state: State) -> None:
    for name in ("first", "second"):
        state.run(name, 40)
        state.output(name, b"x")
    state.audit(400, 0)
    pauses = iter([False, True])
    assert state.sweeper(rest=lambda: next(pauses, True)).sweep() == SweepResult(runs=1)
    assert state.sweeper().preview() == SweepResult(runs=1, outputs=2, audit_records=1, size=2)


def test_space_is_given_back(tmp_path: Path) -> None:
    bare = sqlite3.connect(tmp_path / "state.db")
    bare.executescript("PRAGMA auto_vacuum = INCREMENTAL; VACUUM")
    bare.close()
    state = State(tmp_path)
    state.run("old", 40)
    size = 4096 * (sweeper.SPARE_PAGES + 3 * sweeper.VACUUM_PAGES)
    state.connection.execute("UPDATE runs SET operations = ?", ("x" * size,))
    before = state.column("PRAGMA page_count")[0]
    assert state.sweeper().sweep() == SweepResult(runs=1)
    after = state.column("PRAGMA page_count")[0]
    assert isinstance(before, int) and isinstance(after, int)
    assert sweeper.SPARE_PAGES < after < before - 2 * sweeper.VACUUM_PAGES
    state.connection.close()
