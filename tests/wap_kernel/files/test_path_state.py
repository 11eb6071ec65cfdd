"""The state of a path differs when what stands there does, also where size and mtime are the same."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.guards import NoJournal, OpenGuard
from wap_kernel.files import path_state
from wap_kernel.files.contained.root import Root
from wap_kernel.files.path_state import ABSENT, TOO_LARGE, describe_path
from wap_kernel.model.command import Deadline
from wap_kernel.model.errors import PermissionDenied
from wap_kernel.model.paths import Access


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("top/file", "top/sub/deep/file", "outer/file", "alone"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("old")
    (tmp_path / "top/link").symlink_to("../alone")
    (tmp_path / "top/sub/link").symlink_to("../../outer")
    (tmp_path / "top/gone").symlink_to("nowhere")
    (tmp_path / "top/loop").symlink_to(".")
    (tmp_path / "top/out").symlink_to("/etc")
    return tmp_path


@pytest.fixture
def root(folder: Path) -> Iterator[Root]:
    root = Root(str(folder), guard=OpenGuard(), journal=NoJournal())
    yield root
    root.close()


def describe(root: Root, path: str, seconds: float = 60) -> str:
    return describe_path(root, path, Deadline(seconds))


def rewrite(path: Path) -> None:
    before = path.stat()
    path.write_text("new")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def relink(path: Path, target: str) -> None:
    path.unlink()
    path.symlink_to(target)


CHANGES: dict[str, Callable[[Path], object]] = {
    "content": lambda top: rewrite(top / "top/file"),
    "content further down": lambda top: rewrite(top / "top/sub/deep/file"),
    "content behind a link": lambda top: rewrite(top / "alone"),
    "content in a folder behind a link": lambda top: rewrite(top / "outer/file"),
    "a new file": lambda top: (top / "top/sub/new").touch(),
    "a new folder": lambda top: (top / "top/sub/new").mkdir(),
    "a file less": lambda top: (top / "top/sub/deep/file").unlink(),
    "another name": lambda top: (top / "top/file").rename(top / "top/renamed"),
    "another target": lambda top: relink(top / "top/link", "../outer/file"),
    "another text of a link": lambda top: relink(top / "top/link", ".././alone"),
    "a target that was not there": lambda top: (top / "top/nowhere").touch(),
}


@pytest.mark.parametrize("hashes", [0, 1, 2000])
@pytest.mark.parametrize("change", CHANGES)
def test_a_folder_has_another_state_after_a_change(
    folder: Path, root: Root, change: str, hashes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(path_state, "MAX_TREE_HASHES", hashes)
    before = describe(root, "top")
    assert describe(root, "top") == before
    CHANGES[change](folder)
    assert describe(root, "top") != before


def test_a_folder_has_the_same_state_when_its_content_has(folder: Path, root: Root) -> None:
    before = describe(root, "top")
    os.utime(folder / "top/file", (1, 1))
    (folder / "top/sub/new").touch()
    (folder / "top/sub/new").unlink()
    (folder / "outer.txt").touch()
    assert describe(root, "top") == before


@pytest.mark.parametrize("largest", [0, 1 << 20])
def test_a_file_has_another_state_after_a_change(
    folder: Path, root: Root, largest: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(path_state, "MAX_FILE_HASHED_BYTES", largest)
    before = describe(root, "alone")
    rewrite(folder / "alone")
    assert describe(root, "alone") != before
    assert before.startswith("alone sha256:" if largest else "alone file:3:")


def test_a_large_tree_is_too_large(root: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    assert describe(root, "top", seconds=0) == f"top {TOO_LARGE}"
    monkeypatch.setattr(path_state, "MAX_TREE_ENTRIES", 8)
    assert describe(root, "top") == f"top {TOO_LARGE}"
    assert describe(root, "outer").startswith("outer folder:")


def test_what_is_not_there_or_leads_out_is_absent(root: Root) -> None:
    assert describe(root, "nothing") == f"nothing {ABSENT}"
    assert describe(root, "no/thing") == ABSENT
    assert describe(root, "top/out") == ABSENT


def test_a_pipe_is_not_opened(folder: Path, root: Root) -> None:
    os.mkfifo(folder / "top/pipe")
    assert describe(root, "top/pipe").startswith("top/pipe special:")
    assert describe(root, "top").startswith("top folder:")


def test_a_closed_file_is_not_read(folder: Path, root: Root) -> None:
    class Closing(OpenGuard):
        def check(self, path: str, access: Access, *, folder: bool = False) -> None:
            if path == "alone":
                raise PermissionDenied("It is closed.")

    guarded = root.guarded_by(Closing())
    before = describe(guarded, "alone"), describe(guarded, "top")
    assert before[0] == "alone closed"
    rewrite(folder / "alone")
    assert (describe(guarded, "alone"), describe(guarded, "top")) == before
