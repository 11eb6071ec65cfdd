"""The state is swept in the background, and stops doing so at once when it is closed."""

from __future__ import annotations

import logging
import os
import threading
import time
from pathlib import Path

import pytest

from wap_kernel.state import schema
from wap_kernel.state.retention import schedule
from wap_kernel.state.retention.schedule import BackgroundSweeper


def test_many_runs_are_followed_by_a_sweep(tmp_path: Path) -> None:
    schema.connect(str(tmp_path)).close()
    clock = tmp_path / "swept"
    clock.touch()
    long_ago = time.time() - 2 * schedule.BUSY_SWEEP_SECONDS
    os.utime(clock, (long_ago, long_ago))
    sweeps = BackgroundSweeper(str(tmp_path), logging.getLogger("test"))
    sweeps.start()
    for _ in range(schedule.MANY_RUNS):
        sweeps.count_run()
    deadline = time.monotonic() + 60
    while clock.stat().st_mtime < long_ago + 1 and time.monotonic() < deadline:
        time.sleep(0.01)
    sweeps.close()
    assert clock.stat().st_mtime > long_ago + schedule.BUSY_SWEEP_SECONDS


def test_it_ends_at_once_when_it_is_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schedule, "FIRST_CHECK_SECONDS", 3600.0)
    sweeps = BackgroundSweeper(str(tmp_path), logging.getLogger("test"))
    sweeps.start()
    closing = threading.Thread(target=sweeps.close, daemon=True)
    closing.start()
    closing.join(60)
    assert not closing.is_alive()
    assert list(tmp_path.iterdir()) == []
