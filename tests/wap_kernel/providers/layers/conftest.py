"""A workspace with layers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.layer_workspace import LayerWorkspace


@pytest.fixture
def workspace(tmp_path: Path) -> Iterator[LayerWorkspace]:
    workspace = LayerWorkspace(tmp_path)
    yield workspace
    workspace.close()
