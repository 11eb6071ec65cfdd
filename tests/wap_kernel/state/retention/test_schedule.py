"""Retention that nobody asks for: one process at a time, now and then, and never in anybody's way."""

from __future__ import annotations

import logging
import os
import shutil
import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from wap_kernel.state import schema
from wap_kernel.state.file_lock import try_lock
from wap_kernel.state.retention import schedule
from wap_kernel.state.retention.schedule import BUSY_SWEEP_SECONDS, SWEEP_SECONDS, sweep_if_due
from wap_kernel.state.retention.sweeper import SweepResult

LOG = logging.getLogger("test")
LONG_AGO = "2001-01-01T00:00:00.000Z"
NEVER = threading.Event()


@pytest.fixture(autouse=True)
def _no_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schedule, "REST_SECONDS", 0.0)


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    opened = schema.connect(str(tmp_path))
    yield opened
    opened.close()


def old_run(connection: sqlite3.Connection, name: str) -> None:
    connection.execute(
        "INSERT INTO runs (id, workspace, status, caller, asker, dialect, options, operations, count, started_at,"
        " completed_at) VALUES (?, 'w', 'completed', '{}', '', 'd', '{}', '[]', 0, ?, ?)",
        (name, LONG_AGO, LONG_AGO),
    )


def begun(folder: Path) -> float:
    """When the clock of a new folder began to run."""
    assert sweep_if_due(str(folder), LOG, NEVER) is None
    return os.stat(folder / "swept").st_mtime


def test_it_is_due_every_few_hours_and_sooner_after_many_runs(tmp_path: Path, connection: sqlite3.Connection) -> None:
    old_run(connection, "a")
    at = begun(tmp_path)
    assert sweep_if_due(str(tmp_path), LOG, NEVER, now=at + SWEEP_SECONDS - 1) is None
    assert sweep_if_due(str(tmp_path), LOG, NEVER, now=at + SWEEP_SECONDS) == SweepResult(runs=1)
    at += SWEEP_SECONDS
    assert sweep_if_due(str(tmp_path), LOG, NEVER, now=at + BUSY_SWEEP_SECONDS) is None
    assert (
        sweep_if_due(str(tmp_path), LOG, NEVER, now=at + BUSY_SWEEP_SECONDS, every=BUSY_SWEEP_SECONDS) == SweepResult()
    )
    assert sweep_if_due(str(tmp_path), LOG, NEVER, now=at + BUSY_SWEEP_SECONDS + 1, every=BUSY_SWEEP_SECONDS) is None


def test_a_clock_that_was_set_back_does_not_put_it_off_for_ever(tmp_path: Path, connection: sqlite3.Connection) -> None:
    at = begun(tmp_path)
    assert sweep_if_due(str(tmp_path), LOG, NEVER, now=at - 10 * SWEEP_SECONDS) == SweepResult()


def test_while_somebody_sweeps_nobody_else_does(tmp_path: Path, connection: sqlite3.Connection) -> None:
    at = begun(tmp_path)
    with open(tmp_path / "swept") as clock:
        assert try_lock(clock.fileno())
        assert sweep_if_due(str(tmp_path), LOG, NEVER, now=at + SWEEP_SECONDS) is None
    assert sweep_if_due(str(tmp_path), LOG, NEVER, now=at + SWEEP_SECONDS) == SweepResult()


def test_who_closes_down_does_not_wait_for_it(tmp_path: Path, connection: sqlite3.Connection) -> None:
    at = begun(tmp_path)
    old_run(connection, "a")
    closing_down = threading.Event()
    closing_down.set()
    assert sweep_if_due(str(tmp_path), LOG, closing_down, now=at + SWEEP_SECONDS) == SweepResult()
    assert connection.execute("SELECT count(*) FROM runs").fetchone() == (1,)


def test_what_goes_wrong_is_logged_and_not_tried_again_at_once(
    tmp_path: Path, connection: sqlite3.Connection, caplog: pytest.LogCaptureFixture
) -> None:
    at = begun(tmp_path)
    connection.execute("ALTER TABLE runs RENAME TO elsewhere")
    assert sweep_if_due(str(tmp_path), LOG, NEVER, now=at + SWEEP_SECONDS) is None
    assert "could not be swept: no such table: runs" in caplog.text
    connection.execute("ALTER TABLE elsewhere RENAME TO runs")
    assert sweep_if_due(str(tmp_path), LOG, NEVER, now=at + SWEEP_SECONDS + 1) is None
    assert sweep_if_due(str(tmp_path), LOG, NEVER, now=at + 2 * SWEEP_SECONDS) == SweepResult()


def test_a_folder_that_is_gone_is_no_error(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = tmp_path / "gone"
    folder.mkdir()
    shutil.rmtree(folder)
    assert sweep_if_due(str(folder), LOG, NEVER) is None
    assert "could not be swept" in caplog.text
