"""Landlock: the thread that asked is restricted, what it starts too, and no other thread."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from wap_kernel.files.search import landlock

pytestmark = pytest.mark.skipif(not landlock.read_abi(), reason="this kernel has no Landlock")


@pytest.fixture
def inside(tmp_path: Path) -> Path:
    (tmp_path / "outside").write_bytes(b"outside")
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "file").write_bytes(b"inside")
    (tmp_path / "in" / "link").symlink_to("../outside")
    return tmp_path / "in"


def restricted(folder: Path, rights: int, act: Callable[[], object]) -> object:
    """What `act` answers or raises in a thread that may only do `rights` below `folder`."""
    outcome: list[object] = []

    def run() -> None:
        fd = os.open(folder, os.O_PATH)
        try:
            landlock.restrict_thread([(fd, rights)])
            outcome.append(act())
        except OSError as error:
            outcome.append(type(error))
        finally:
            os.close(fd)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return outcome[0]


READING = landlock.READ_FILE | landlock.READ_FOLDER


def test_reading_inside(inside: Path) -> None:
    assert restricted(inside, READING, (inside / "file").read_bytes) == b"inside"
    assert restricted(inside, READING, lambda: sorted(os.listdir(inside))) == ["file", "link"]


@pytest.mark.parametrize(
    "act",
    [
        lambda inside: (inside.parent / "outside").read_bytes(),
        lambda inside: (inside / "link").read_bytes(),
        lambda inside: (inside / ".." / "outside").read_bytes(),
        lambda inside: os.listdir(inside.parent),
        lambda inside: (inside / "file").write_bytes(b""),
        lambda inside: (inside / "new").mkdir(),
        lambda inside: (inside / "file").unlink(),
        lambda inside: os.open(inside / "file", os.O_WRONLY | os.O_TRUNC),
    ],
)
def test_everything_else_is_refused(inside: Path, act: Callable[[Path], object]) -> None:
    assert restricted(inside, READING, lambda: act(inside)) is PermissionError
    assert (inside / "file").read_bytes() == b"inside"


def test_other_threads_are_free(inside: Path) -> None:
    restricted(inside, READING, lambda: None)
    assert (inside.parent / "outside").read_bytes() == b"outside"
    answers: list[bytes] = []
    thread = threading.Thread(target=lambda: answers.append((inside.parent / "outside").read_bytes()))
    thread.start()
    thread.join()
    assert answers == [b"outside"]


def test_a_bad_rule_is_an_error_and_not_a_loose_restriction(inside: Path) -> None:
    folder_right_on_a_file = restricted(inside / "file", landlock.READ_FOLDER, lambda: "restricted")
    assert folder_right_on_a_file is OSError


def test_missing_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(landlock.sys, "platform", "darwin")
    assert landlock.read_abi() == 0
