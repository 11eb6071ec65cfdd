"""Putting protected links back; as root and as an ordinary user."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.ordinary_user import open_user_folder, run_tests
from wap_kernel.policy.paths.protected_links import find_links, restore_links
from wap_kernel.policy.paths.quarantine import MARK


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "root/dotfiles/second").mkdir(parents=True)
    return tmp_path / "root"


@pytest.fixture
def descriptor(root: Path) -> Iterator[int]:
    opened = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    before = set(os.listdir("/proc/self/fd"))
    yield opened
    assert set(os.listdir("/proc/self/fd")) == before, "no descriptor is left"
    os.close(opened)


def test_every_link_on_the_way_is_found(root: Path, descriptor: int) -> None:
    (root / ".config").symlink_to("dotfiles/../dotfiles/config")
    (root / "dotfiles/config").symlink_to(root / "dotfiles/second")
    (root / "dotfiles/second/git").symlink_to("../file")
    (root / "out").symlink_to("../outside/x")
    (root / "loop").symlink_to("loop")
    assert find_links(descriptor, [".config/git/config", "out/x", "loop", "dotfiles/none", "none/x"]) == {
        ".config": "dotfiles/../dotfiles/config",
        "dotfiles/config": str(root / "dotfiles/second"),
        "dotfiles/second/git": "../file",
        "out": "../outside/x",
        "loop": "loop",
    }


@pytest.mark.parametrize("mode", [0o755, 0o555, 0o000])
def test_a_link_comes_back_and_what_replaced_it_is_moved_away(root: Path, descriptor: int, mode: int) -> None:
    for name in ("same", "gone", "file", "folder", "other"):
        (root / "dotfiles" / name).symlink_to("target")
    links = find_links(descriptor, [f"dotfiles/{name}" for name in ("same", "gone", "file", "folder", "other")])
    for name in ("gone", "file", "folder", "other"):
        (root / "dotfiles" / name).unlink()
    (root / "dotfiles/file").write_text("evil")
    (root / "dotfiles/folder/x").mkdir(parents=True)
    (root / "dotfiles/other").symlink_to("evil")
    (root / "dotfiles").chmod(mode)
    restored = restore_links(descriptor, links)
    assert (root / "dotfiles").stat().st_mode & 0o777 == mode
    (root / "dotfiles").chmod(0o755)
    assert [path for path, _ in restored] == [f"dotfiles/{name}" for name in ("file", "folder", "gone", "other")]
    assert {os.readlink(root / path) for path in links} == {"target"}
    moved = [new for _, new in restored if new is not None]
    assert len(moved) == 3 and all(MARK in new and os.path.lexists(root / new) for new in moved)
    assert restore_links(descriptor, links) == []


def test_a_folder_that_was_exchanged_for_a_link_is_not_entered(root: Path, descriptor: int, tmp_path: Path) -> None:
    (root / "dotfiles/link").symlink_to("target")
    links = find_links(descriptor, ["dotfiles/link"])
    (tmp_path / "outside").mkdir()
    (root / "dotfiles").rename(root / "d2")
    (root / "dotfiles").symlink_to("../outside")
    assert restore_links(descriptor, links) == []
    assert not any((tmp_path / "outside").iterdir())


def test_as_an_ordinary_user() -> None:
    with open_user_folder() as folder:
        run_tests(folder, __file__)
