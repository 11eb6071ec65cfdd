from __future__ import annotations

from pathlib import Path

import pytest

from tests.wap_kernel.dialects.coding import Coding


@pytest.fixture
def coding(tmp_path: Path) -> Coding:
    (tmp_path / "ws").mkdir()
    return Coding(tmp_path / "ws", tmp_path / "state")
