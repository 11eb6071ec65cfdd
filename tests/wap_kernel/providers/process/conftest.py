"""Commands in a temporary folder, and no descriptor of theirs that stays open."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.processes import Runner


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Runner]:
    before = sorted(os.listdir("/proc/self/fd"))
    runner = Runner(tmp_path)
    yield runner
    os.close(runner.fd)
    assert sorted(os.listdir("/proc/self/fd")) == before
