from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.run_workspace import Scene


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    (tmp_path / "ws" / "data").mkdir(parents=True)
    (tmp_path / "ws" / "data" / "x.txt").write_text("x")
    return Scene(tmp_path / "ws", tmp_path / "state")
