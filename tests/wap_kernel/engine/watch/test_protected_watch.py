"""The watch over protected paths while commands share the workspace."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.ordinary_user import open_user_folder, run_tests
from tests.support.time_limits import wait_until
from wap_kernel.engine.watch import protected_watch
from wap_kernel.engine.watch.protected_watch import ProtectedWatch
from wap_kernel.files.contained.inotify import FolderWatch
from wap_kernel.policy.paths.quarantine import MARK

PROTECTED = (".zshenv", ".git/hooks", ".config/git/config")
LONG = 60.0


def put(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("evil")


def count_watches() -> int:
    return sum(thread.name == "wap-watch" for thread in threading.enumerate())


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "root" / ".git").mkdir(parents=True)
    return tmp_path / "root"


@pytest.fixture
def reported() -> list[tuple[str, str]]:
    return []


@pytest.fixture
def watch(root: Path, reported: list[tuple[str, str]]) -> Iterator[ProtectedWatch]:
    descriptor = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    before = set(os.listdir("/proc/self/fd"))
    yield ProtectedWatch(descriptor, lambda *paths: reported.append(paths))
    wait_until(lambda: not count_watches())
    assert set(os.listdir("/proc/self/fd")) == before, "no descriptor is left"
    os.close(descriptor)


@pytest.fixture
def _only_notices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have everything noticed by the kernel's events, and nothing by the regular comparison."""
    monkeypatch.setattr(protected_watch, "PERIOD_SECONDS", LONG)


@pytest.mark.usefixtures("_only_notices")
@pytest.mark.parametrize("path", PROTECTED)
def test_what_appears_is_moved_away_at_once(
    root: Path, watch: ProtectedWatch, reported: list[tuple[str, str]], path: str
) -> None:
    with watch.watching(PROTECTED) as moved:
        for _ in range(3):  # also where the parent did not exist, and again
            put(root / path)
            wait_until(lambda: not (root / path).exists())
    assert [old for old, _ in moved] == [path] * 3
    assert reported == moved
    assert len(list((root / path).parent.glob(f"*{MARK}*"))) == 3


@pytest.mark.usefixtures("_only_notices")
def test_a_parent_that_is_moved_in_brings_nothing_along(root: Path, watch: ProtectedWatch) -> None:
    put(root / "elsewhere" / "git" / "config")
    with watch.watching(PROTECTED):
        (root / "elsewhere").rename(root / ".config")
        wait_until(lambda: not (root / ".config" / "git" / "config").exists())
        put(root / ".config" / "git" / "config")  # in a folder that was not there before
        wait_until(lambda: not (root / ".config" / "git" / "config").exists())


@pytest.mark.usefixtures("_only_notices")
def test_a_link_that_is_replaced_comes_back_at_once(root: Path, watch: ProtectedWatch) -> None:
    link = root / ".bashrc"
    link.symlink_to("dotfiles/bashrc")
    with watch.watching((), (".bashrc", ".zshenv")) as moved:
        link.unlink()
        put(link)
        wait_until(link.is_symlink)
        with watch.watching((), (".bashrc",)):  # which finds the link, or the one that is just put back
            link.unlink()
    assert os.readlink(link) == "dotfiles/bashrc"
    assert [old for old, _ in moved] == [".bashrc", ".bashrc"] and moved[1][1] is None


@pytest.mark.parametrize("mode", [0o555, 0o000])
def test_a_parent_that_was_closed_is_no_shelter(root: Path, watch: ProtectedWatch, mode: int) -> None:
    with watch.watching(PROTECTED) as moved:
        with watch._lock:  # the thread gets no turn before all is closed
            put(root / ".config" / "git" / "config")
            (root / ".config" / "git").chmod(mode)
            (root / ".config").chmod(mode)
        wait_until(lambda: moved)
        assert (root / ".config").stat().st_mode & 0o777 == mode
        (root / ".config").chmod(0o755)
        (root / ".config" / "git").chmod(0o755)
    assert not (root / ".config" / "git" / "config").exists()
    assert moved[0][0] == ".config/git/config"


def test_behind_a_link_what_appears_is_moved_away_soon(
    root: Path, watch: ProtectedWatch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(protected_watch, "PERIOD_SECONDS", 0.02)
    with watch.watching(PROTECTED) as moved:
        (root / ".config").symlink_to("evil")
        put(root / "evil" / "git" / "config")
        wait_until(lambda: moved)
    assert (moved[0][0], (root / "evil" / "git" / "config").exists()) == ("evil/git/config", False)


def test_what_nothing_has_noticed_is_moved_away_when_the_command_ends(
    root: Path, watch: ProtectedWatch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FolderWatch, "add", lambda *_: None)
    monkeypatch.setattr(protected_watch, "PERIOD_SECONDS", LONG)
    with watch.watching(PROTECTED) as moved:
        put(root / ".zshenv")
    assert [old for old, _ in moved] == [".zshenv"]


def test_of_two_commands_each_knows_and_the_first_end_ends_nothing(root: Path, watch: ProtectedWatch) -> None:
    with watch.watching(PROTECTED) as first:
        with watch.watching((".zshenv",)) as second:
            put(root / ".zshenv")
            wait_until(lambda: second)
            assert count_watches() == 1
        put(root / ".git" / "hooks")
        wait_until(lambda: len(first) == 2)
    assert ([old for old, _ in first], [old for old, _ in second]) == ([".zshenv", ".git/hooks"], [".zshenv"])


def test_what_one_command_has_just_created_is_watched_for_the_next_one_too(root: Path, watch: ProtectedWatch) -> None:
    """The second command has found it, so it is not among what was absent; and it lives on."""
    first = watch.watching(PROTECTED)
    first.__enter__()
    with watch.watching((".git/config",)) as second:
        first.__exit__(None, None, None)
        put(root / ".zshenv")
        wait_until(lambda: second)
    assert not (root / ".zshenv").exists()


def test_what_was_there_is_left_alone(root: Path, watch: ProtectedWatch) -> None:
    put(root / ".zshenv")
    with watch.watching((".git/hooks",)) as moved:
        put(root / ".git" / "hooks")
        wait_until(lambda: moved)
    assert (root / ".zshenv").exists()


def test_without_absent_paths_nothing_is_watched(watch: ProtectedWatch) -> None:
    with watch.watching(()) as moved:
        assert (count_watches(), moved) == (0, [])


def test_a_command_that_plants_without_end_fills_no_memory(
    root: Path, watch: ProtectedWatch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(protected_watch, "MAX_NAMED", 2)
    with watch.watching(PROTECTED) as moved:
        for _ in range(4):
            put(root / ".zshenv")
            wait_until(lambda: not (root / ".zshenv").exists())
    assert len(moved) == 2


def test_without_inotify_the_command_is_not_run_and_nothing_is_left(
    watch: ProtectedWatch, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: FolderWatch) -> None:
        raise OSError(24, "Too many open files")

    with monkeypatch.context() as patched:
        patched.setattr(FolderWatch, "__init__", fail)
        with pytest.raises(OSError, match="Too many"), watch.watching(PROTECTED):
            raise AssertionError("it ran")
    assert not watch._absent
    with watch.watching(PROTECTED):
        assert count_watches() == 1


def test_as_an_ordinary_user() -> None:
    with open_user_folder() as folder:
        run_tests(folder, __file__)
