"""Moving away what was created at protected paths; as root and as an ordinary user."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.support.guards import NoJournal
from tests.support.ordinary_user import open_user_folder, run_tests
from wap_kernel.files.contained.root import Root
from wap_kernel.files.interface import NullGuard
from wap_kernel.policy.paths.quarantine import MARK, find_missing, open_ancestors, quarantine_files

PROTECTED = (".bashrc", ".config/git/config", ".git/hooks")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "root"
    folder.mkdir()
    return folder


@pytest.fixture
def descriptor(root: Path) -> Iterator[int]:
    opened = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    before = set(os.listdir("/proc/self/fd"))
    yield opened
    assert set(os.listdir("/proc/self/fd")) == before, "no descriptor is left"
    os.close(opened)


def put(path: Path, content: str = "evil") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)


def check(root: Path, moved: list[tuple[str, str]], *expected: str) -> None:
    """Assert that these paths were moved away, each to a name beside it."""
    assert [old for old, _ in moved] == list(expected)
    for old, new in moved:
        assert new.startswith(f"{old}.{MARK}-")
        assert not os.path.lexists(root / old)
        assert os.path.lexists(root / new)


def test_files_and_folders_are_moved_and_others_stay(root: Path, descriptor: int) -> None:
    put(root / ".bashrc")
    put(root / ".git" / "hooks" / "post-commit")
    put(root / ".config" / "git" / "ignore")
    moved = quarantine_files(descriptor, PROTECTED)
    check(root, moved, ".bashrc", ".git/hooks")
    assert (root / moved[1][1] / "post-commit").read_text() == "evil"
    assert (root / ".config" / "git" / "ignore").exists()
    assert quarantine_files(descriptor, PROTECTED) == []


def test_a_folder_takes_along_what_is_below(root: Path, descriptor: int) -> None:
    put(root / ".git" / "hooks" / "post-commit")
    check(root, quarantine_files(descriptor, (".git/hooks/post-commit", ".git/hooks")), ".git/hooks")


@pytest.mark.parametrize("target", ["nowhere", "other", "/etc/hostname"])
def test_a_link_at_the_path_itself_is_moved(root: Path, descriptor: int, target: str) -> None:
    put(root / "other")
    (root / ".bashrc").symlink_to(target)
    check(root, quarantine_files(descriptor, PROTECTED), ".bashrc")
    assert (root / "other").read_text() == "evil"


@pytest.mark.parametrize("is_absolute", [False, True])
def test_behind_a_link_what_it_leads_to_is_moved(root: Path, descriptor: int, is_absolute: bool) -> None:
    """The link may be the person's own, and may lead through further links."""
    put(root / "evil" / "git" / "config")
    (root / "between").symlink_to(root / "evil" if is_absolute else "evil")
    (root / ".config").symlink_to("between")
    check(root, quarantine_files(descriptor, PROTECTED), "evil/git/config")
    assert os.readlink(root / ".config") == "between"


def test_a_link_that_leads_nowhere_yet_stays(root: Path, descriptor: int) -> None:
    (root / ".config").symlink_to("evil")
    assert quarantine_files(descriptor, PROTECTED) == []
    put(root / "evil" / "git" / "config")
    check(root, quarantine_files(descriptor, PROTECTED), "evil/git/config")


def test_a_link_that_leads_out_is_moved_itself(root: Path, descriptor: int, tmp_path: Path) -> None:
    put(tmp_path / "outside" / "git" / "config")
    (root / ".config").symlink_to("../outside")
    check(root, quarantine_files(descriptor, PROTECTED), ".config")
    assert (tmp_path / "outside" / "git" / "config").exists()


def test_a_circle_of_links_is_no_error(root: Path, descriptor: int) -> None:
    (root / ".config").symlink_to(".config")
    assert quarantine_files(descriptor, PROTECTED) == []


@pytest.mark.parametrize("mode", [0o555, 0o500, 0o111, 0o000])
def test_a_folder_that_was_closed_is_no_shelter(root: Path, descriptor: int, mode: int) -> None:
    put(root / ".config" / "git" / "config")
    closed = (root / ".config" / "git", root / ".config", root)
    for folder in closed:
        folder.chmod(mode)
    moved = quarantine_files(descriptor, PROTECTED)
    assert [oct(os.stat(f"/proc/self/fd/{descriptor}").st_mode & 0o777)] == [oct(mode)], "its mode is restored"
    for folder in reversed(closed):
        folder.chmod(0o700)
    check(root, moved, ".config/git/config")


def test_a_closed_folder_without_anything_keeps_its_mode(root: Path, descriptor: int) -> None:
    (root / ".config").mkdir(mode=0)
    assert quarantine_files(descriptor, PROTECTED) == []
    assert (root / ".config").stat().st_mode & 0o777 == 0


def test_a_file_on_the_way_is_no_error(root: Path, descriptor: int) -> None:
    put(root / ".config")
    assert quarantine_files(descriptor, PROTECTED) == []


def test_missing_paths_are_found(root: Path) -> None:
    put(root / ".bashrc")
    (root / ".config").symlink_to("nowhere")
    with closing(Root(str(root), guard=NullGuard(), journal=NoJournal())) as files:
        assert find_missing(files, PROTECTED) == PROTECTED[1:]


def test_the_folders_on_the_way_are_opened_as_far_as_they_exist(root: Path, descriptor: int) -> None:
    put(root / ".config" / "other")

    def names() -> list[str]:
        return [os.path.basename(os.readlink(f"/proc/self/fd/{each}")) for each in open_ancestors(descriptor, PATH)]

    assert names() == ["root", ".config"]
    (root / ".config" / "git").symlink_to("/etc")
    assert names() == ["root", ".config"]
    (root / ".config" / "git").unlink()
    (root / ".config" / "git").mkdir()
    assert names() == ["root", ".config", "git"]


PATH = ".config/git/config"


def test_as_an_ordinary_user() -> None:
    with open_user_folder() as folder:
        run_tests(folder, __file__)
