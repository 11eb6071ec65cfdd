"""Providers in temporary folders."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.provider_workspace import Guard, Journal, MakeScene, Scene, skip_unless_works
from wap_kernel.files.contained.root import Root


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Root]:
    root = Root(str(tmp_path), guard=Guard(), journal=Journal())
    yield root
    root.close()


@pytest.fixture
def make_scene(tmp_path: Path) -> Iterator[MakeScene]:
    """`make_scene("bubblewrap", folder=..., secrets=...)`, skipped where that provider does not work."""
    opened: list[Scene] = []

    def make(name: str, folder: Path | None = None, **options: object) -> Scene:
        if sys.platform != "linux":
            pytest.skip("looks at processes through /proc")
        skip_unless_works(name)
        folder = folder or tmp_path / "ws"
        folder.mkdir(exist_ok=True, parents=True)
        scene = Scene(name, folder, **options)  # type: ignore[arg-type]
        opened.append(scene)
        return scene

    yield make
    for scene in opened:
        scene.close()
