"""Listing what changes, closes itself or is taken away under it; and how a listing is stopped."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from tests.support.file_trees import grow
from tests.support.listings import listed, paths
from wap_kernel.files import list_folder
from wap_kernel.files import tree_walk as walking
from wap_kernel.files.contained.handles import LocalFolder
from wap_kernel.files.contained.root import Root
from wap_kernel.files.interface import Stat
from wap_kernel.model.command import Deadline
from wap_kernel.model.errors import ProviderUnavailable, TimedOut


def test_a_folder_that_vanishes_on_the_way_is_left_out(root: Root, ws: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    grow(ws, {"a": {"x": b""}, "b": {"y": b""}})
    original = walking._enter

    def vanish(files: Root, level: walking.WalkLevel, name: str) -> object:
        if name == "a":
            (ws / "a").rename(ws.parent / "moved")
            (ws / "a").symlink_to(ws.parent / "moved")
        return original(files, level, name)

    monkeypatch.setattr(walking, "_enter", vanish)
    assert paths(listed(root, recursive=True)) == ["a", "b", "b/y"]


TEMPORARY = f".wap-{'0f' * 12}.tmp"


@pytest.mark.parametrize("limit", [2, 500])
def test_what_a_write_has_under_way_is_left_out(root: Root, ws: Path, limit: int) -> None:
    """Also in the folders that are merely counted because they come after the limit."""
    inside = {TEMPORARY: b"", ".wap-notes": b"", "f": b""}
    grow(ws, {**inside, "z": {**inside, "z": inside}, "zz": {TEMPORARY: {"a": b""}}})
    result = listed(root, recursive=True, limit=limit)
    assert result.total_found == 11
    assert (
        paths(result)
        == [
            *(".wap-notes", "f", "z", "z/.wap-notes", "z/f", "z/z", "z/z/.wap-notes", "z/z/f"),
            *("zz", f"zz/{TEMPORARY}", f"zz/{TEMPORARY}/a"),
        ][:limit]
    )


def _refuse_to_tell_of_a(monkeypatch: pytest.MonkeyPatch, error: OSError) -> None:
    """As a folder of mode 0444 does, which tells names and nothing more."""
    original = LocalFolder.stat

    def refuse(folder: LocalFolder, name: str) -> Stat:
        if name == "a":
            raise error
        return original(folder, name)

    monkeypatch.setattr(LocalFolder, "stat", refuse)


@pytest.mark.parametrize(
    ("error", "shown"),
    [(PermissionError(errno.EACCES, ""), ["a", "b"]), (FileNotFoundError(errno.ENOENT, ""), ["b"])],
)
def test_an_entry_that_may_not_be_looked_at_is_shown_without_metadata(
    root: Root, ws: Path, monkeypatch: pytest.MonkeyPatch, error: OSError, shown: list[str]
) -> None:
    """One that has vanished is not shown."""
    grow(ws, {"a": {}, "b": b""})
    _refuse_to_tell_of_a(monkeypatch, error)
    result = listed(root, metadata=True)
    assert paths(result) == shown
    assert (result.total_found, result.is_truncated) == (len(shown), False)
    if "a" in shown:
        assert result.files[0].is_directory and result.files[0].metadata is None
    assert result.files[-1].metadata is not None


@pytest.mark.parametrize(
    ("error", "shown"),
    [(PermissionError(errno.EACCES, ""), ["b", "a"]), (FileNotFoundError(errno.ENOENT, ""), ["b"])],
)
def test_among_the_newest_what_may_not_be_looked_at_comes_last(
    root: Root, ws: Path, monkeypatch: pytest.MonkeyPatch, error: OSError, shown: list[str]
) -> None:
    grow(ws, {"a": {}, "b": b""})
    _refuse_to_tell_of_a(monkeypatch, error)
    result = listed(root, metadata=True, newest_first=True)
    assert (paths(result), result.total_found, result.is_truncated) == (shown, len(shown), False)
    assert [entry.metadata is not None for entry in result.files] == [True, False][: len(shown)]


def test_a_folder_swapped_for_a_link_before_its_metadata_is_read(
    root: Root, ws: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    grow(ws, {"a": {"x": b"1"}, "b": {"x": b"22"}})
    original = list_folder.open_real_folder

    def swap(files: Root, path: str) -> object:
        if path == "a":
            (ws / "a").rename(ws / "moved")
            (ws / "a").symlink_to("b")
        return original(files, path)

    monkeypatch.setattr(list_folder, "open_real_folder", swap)
    result = listed(root, recursive=True, metadata=True)
    assert [(entry.path, entry.is_directory) for entry in result.files] == [("a", True), ("b", True), ("b/x", False)]
    assert result.total_found == 3


@pytest.mark.parametrize("exclude", [None, ("*.none",)])
@pytest.mark.parametrize("limit", [1, 500])
def test_it_can_be_stopped(root: Root, ws: Path, limit: int, exclude: tuple[str, ...] | None) -> None:
    grow(ws, {f"d{number}": {"f": b""} for number in range(20)})
    looks = iter([False] * 10)
    with pytest.raises(ProviderUnavailable):
        listed(root, recursive=True, limit=limit, exclude=exclude, deadline=Deadline(60, lambda: next(looks, True)))
    with pytest.raises(TimedOut):
        listed(root, recursive=True, limit=limit, exclude=exclude, deadline=Deadline(0))


def test_one_big_folder_can_be_stopped(root: Root, ws: Path) -> None:
    grow(ws, {f"f{number}": b"" for number in range(200)})
    looks = iter([False] * 2)
    with pytest.raises(ProviderUnavailable):
        listed(root, exclude=("*.none",), deadline=Deadline(60, lambda: next(looks, True)))


def test_looking_for_the_newest_can_be_stopped(root: Root, ws: Path) -> None:
    grow(ws, {f"d{number}": {"f": b""} for number in range(20)})
    looks = iter([False] * 10)
    with pytest.raises(ProviderUnavailable):
        listed(root, recursive=True, newest_first=True, deadline=Deadline(60, lambda: next(looks, True)))
