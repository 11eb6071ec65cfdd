"""Changes of files are noticed, also those that follow each other faster than a filesystem's clock."""

from __future__ import annotations

import os
from pathlib import Path

from wap_kernel.files.stamps import Stamps

OLD = 1_600_000_000_123_456_789


def test_a_change_is_noticed_by_the_time_of_its_folder(tmp_path: Path) -> None:
    stamps = Stamps()
    assert stamps.note(str(tmp_path)) is not None
    assert stamps.note(str(tmp_path / "missing")) is None
    assert stamps.note(str(tmp_path)) == stamps.note(str(tmp_path))
    (tmp_path / "x").touch()
    assert not stamps.are_current()


def test_a_file_that_has_just_changed_is_never_current(tmp_path: Path) -> None:
    """A second change in the same tick of the clock would leave its times as they are."""
    (tmp_path / "x").touch()
    os.utime(tmp_path / "x", ns=(OLD, OLD))  # which sets the time of the inode itself to now
    stamps = Stamps()
    stamps.note(str(tmp_path / "x"))
    assert not stamps.is_settled(str(tmp_path / "x"))
    assert not stamps.are_current()


def test_a_file_that_rests_is_current_until_it_changes() -> None:
    stamps = Stamps()
    stamps.note("/usr/bin")
    stamps.note("/usr/bin/no such program")
    assert stamps.is_settled("/usr/bin")
    assert stamps.are_current()
