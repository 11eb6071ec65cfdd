"""Noticing new names in folders."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from wap_kernel.files.contained.inotify import FolderWatch

LONG = 60.0


@pytest.fixture
def watch(tmp_path: Path) -> FolderWatch:
    watch = FolderWatch()
    folder = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    watch.add(folder)
    watch.add(folder)  # no error
    os.close(folder)
    return watch


def wait(watch: FolderWatch, work: Callable[[], object]) -> bool:
    """Return whether `work` ends the wait."""
    waiting = threading.Thread(target=watch.wait, args=(LONG,))
    waiting.start()
    work()
    waiting.join(LONG / 2)
    return not waiting.is_alive()


@pytest.mark.parametrize(
    "make",
    [
        lambda folder: (folder / "new").write_text("x"),
        lambda folder: (folder / "new").mkdir(),
        lambda folder: (folder / "new").symlink_to("nowhere"),
        lambda folder: (folder.parent / "other").rename(folder / "new"),
    ],
    ids=["file", "folder", "link", "move"],
)
def test_a_new_name_ends_the_wait(watch: FolderWatch, tmp_path: Path, make: Callable[[Path], object]) -> None:
    (tmp_path.parent / "other").write_text("x")
    assert wait(watch, lambda: make(tmp_path))
    watch.wait(0.0)  # all events are read
    watch.close()


def test_a_name_that_came_before_the_wait_ends_it(watch: FolderWatch, tmp_path: Path) -> None:
    (tmp_path / "new").touch()
    watch.wait(LONG)
    watch.close()


def test_a_call_ends_the_wait(watch: FolderWatch) -> None:
    assert wait(watch, watch.wake)
    watch.close()


def test_only_folders_are_watched(tmp_path: Path) -> None:
    watch = FolderWatch()
    (tmp_path / "file").touch()
    file = os.open(tmp_path / "file", os.O_RDONLY)
    watch.add(file)
    os.close(file)
    assert wait(watch, watch.wake)
    watch.close()


def test_no_descriptor_is_left() -> None:
    before = set(os.listdir("/proc/self/fd"))
    FolderWatch().close()
    assert set(os.listdir("/proc/self/fd")) == before
