"""File operations that are recorded: what they log, what they refuse, and saves of others at any moment."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.change_workspace import ChangeWorkspace, make_state_folder
from wap_kernel.files.contained.renames import exchange_in_steps, spare_name
from wap_kernel.files.content_hash import hash_bytes
from wap_kernel.model.changes import ABSENT, ChangeKind
from wap_kernel.model.edits import ReplaceText
from wap_kernel.model.errors import Conflict, WapError
from wap_kernel.model.operations import DeleteFile, ModifyFile, MoveFile, Operation, WriteFile
from wap_kernel.state.changes import image_store
from wap_kernel.state.changes.image_store import NotStorable


@pytest.fixture(params=["near", "far", "without exchange"])
def workspace(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ChangeWorkspace]:
    with make_state_folder(tmp_path, is_far=request.param == "far") as state:
        workspace = ChangeWorkspace(tmp_path / "w", state, use_exchange=request.param != "without exchange")
        yield workspace
        assert workspace.leftovers() == []
        workspace.close()


def test_a_new_file_costs_one_row_and_no_content(workspace: ChangeWorkspace) -> None:
    workspace.write("run", "new", b"1")
    (row,) = workspace.history.log.read("run")
    assert (row.change.kind, row.change.before) == (ChangeKind.CREATED, ABSENT)
    assert os.listdir(f"{workspace.state}/images") == []


def test_the_displaced_file_itself_is_stored(tmp_path: Path) -> None:
    workspace = ChangeWorkspace(tmp_path / "w", tmp_path / "state")
    (workspace.folder / "f").write_text("old")
    inode = (workspace.folder / "f").stat().st_ino
    workspace.write("run", "f", b"new")
    (stored,) = os.listdir(f"{workspace.state}/images")
    assert os.stat(f"{workspace.state}/images/{stored}").st_ino == inode
    workspace.close()


@pytest.mark.parametrize("content", [b"new and longer than before", b"", b"n"])
def test_a_file_that_is_written_in_place_keeps_its_inode_and_can_be_undone(
    workspace: ChangeWorkspace, content: bytes
) -> None:
    file = workspace.folder / "f"
    file.write_bytes(b"old content")
    os.chmod(file, 0o640)
    with open(file, "rb") as reader:
        inode = os.fstat(reader.fileno()).st_ino
        workspace.do(
            "run", WriteFile(path="f", content=content, atomic=False, expected_hash=hash_bytes(b"old content"))
        )
        assert reader.read() == content
    assert (file.stat().st_ino, file.stat().st_mode & 0o777, file.read_bytes()) == (inode, 0o640, content)
    workspace.revert("run", "undo")
    assert file.read_bytes() == b"old content"


def test_a_file_with_several_names_is_replaced_also_in_place(workspace: ChangeWorkspace) -> None:
    """What is written in place would show at the other name, which no policy has judged."""
    file, other = workspace.folder / "f", workspace.folder.parent / "other name"
    file.write_bytes(b"old")
    os.link(file, other)
    workspace.do("run", WriteFile(path="f", content=b"new", atomic=False))
    assert (file.read_bytes(), other.read_bytes()) == (b"new", b"old")


def test_a_new_file_is_created_also_in_place(workspace: ChangeWorkspace) -> None:
    workspace.do("run", WriteFile(path="f", content=b"new", atomic=False))
    assert (workspace.folder / "f").read_bytes() == b"new"
    workspace.revert("run", "undo")
    assert not (workspace.folder / "f").exists()


def test_a_save_before_a_write_in_place_is_a_conflict(
    workspace: ChangeWorkspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = workspace.folder / "f"
    file.write_bytes(b"old")
    original = image_store.ImageStore.copy

    def copy_and_save(store: image_store.ImageStore, *arguments: Any) -> None:
        original(store, *arguments)
        file.write_bytes(b"saved by a person")

    monkeypatch.setattr(image_store.ImageStore, "copy", copy_and_save)
    with pytest.raises(Conflict):
        workspace.do("run", WriteFile(path="f", content=b"new", atomic=False))
    assert file.read_bytes() == b"saved by a person"
    assert workspace.history.log.read("run") == [] and os.listdir(f"{workspace.state}/images") == []


@pytest.mark.parametrize(
    "operation",
    [
        WriteFile(path="f", content=b"1", mode="create"),
        WriteFile(path="d", content=b"1", atomic=False),
        WriteFile(path="d", content=b"1"),
        WriteFile(path="missing/f", content=b"1"),
        WriteFile(path="f", content=b"1", expected_hash=hash_bytes(b"other")),
        DeleteFile(path="missing"),
        DeleteFile(path="d"),
        DeleteFile(path="f", expected_hash=hash_bytes(b"other")),
        MoveFile(source="f", destination="g"),
        MoveFile(source="missing", destination="h"),
        MoveFile(source="f", destination="d", overwrite=True),
        MoveFile(source="d", destination="d/e"),
        ModifyFile(path="f", edits=(ReplaceText(old_content="missing", new_content="x"),)),
        DeleteFile(path="f/below"),
    ],
)
def test_an_operation_that_fails_leaves_no_change(workspace: ChangeWorkspace, operation: Operation) -> None:
    workspace.run_directly("echo f > f; echo g > g; mkdir d; echo x > d/x")
    before = workspace.tree()
    with pytest.raises((OSError, WapError)):
        workspace.do("run", operation)
    assert workspace.tree() == before
    assert workspace.history.log.read("run") == workspace.history.log.read_unfinished("run") == []
    assert os.listdir(f"{workspace.state}/images") == []


def test_a_link_is_deleted_by_the_hash_of_its_target(workspace: ChangeWorkspace) -> None:
    workspace.run_directly("printf f > f; ln -s f l")
    workspace.do("run", DeleteFile(path="l", expected_hash=hash_bytes(b"f")))
    assert sorted(workspace.tree()) == [".", "f"]


# -- saves of others


@pytest.mark.parametrize("in_place", [True, False])
@pytest.mark.parametrize("kind", ["write", "modify", "delete"])
def test_a_save_after_the_read_is_never_lost(tmp_path: Path, kind: str, in_place: bool) -> None:
    """Save after each step of an operation that expects what it read: a conflict, or the save comes last."""
    moment, is_over = 0, False
    while not is_over:
        folder, left = tmp_path / str(moment), [moment]
        folder.mkdir()

        def save(step: str, folder: Path = folder, left: list[int] = left) -> None:
            if left[0] == 0:
                saved = folder / "w" / ("f" if in_place else "saved")
                saved.write_text("mine")
                saved.replace(folder / "w/f")
            left[0] -= 1

        workspace = ChangeWorkspace(folder / "w", folder / "state")
        (workspace.folder / "f").write_text("old")
        expected = hash_bytes(b"old")
        operation: Operation = {
            "write": WriteFile(path="f", content=b"agent", expected_hash=expected),
            "delete": DeleteFile(path="f", expected_hash=expected),
            "modify": ModifyFile(path="f", edits=(ReplaceText(old_content="old", new_content="agent"),)),
        }[kind]
        workspace.close()
        workspace = ChangeWorkspace(folder / "w", folder / "state", step=save)
        is_conflict = False
        try:
            workspace.do("run", operation)
        except Conflict:
            is_conflict = True
        is_over = left[0] >= 0
        if is_over:
            assert not is_conflict
        else:
            assert (workspace.folder / "f").read_text() == "mine"
        workspace.close()
        moment += 1
    assert moment > 3


def test_a_save_without_an_expectation_is_stored(workspace: ChangeWorkspace) -> None:
    """Overwrite in a loop while another thread saves: every save is in the workspace or in the store."""
    (workspace.folder / "f").write_text("0")
    is_over = threading.Event()
    saved = ["0"]

    def save() -> None:
        for number in range(1, 200):
            (workspace.folder / "saved").write_text(str(number))
            os.replace(workspace.folder / "saved", workspace.folder / "f")
            saved.append(str(number))
        is_over.set()

    thread = threading.Thread(target=save)
    thread.start()
    while not is_over.is_set():
        workspace.write("run", "f", b"agent")
    thread.join()
    contents = {path.read_text() for path in Path(f"{workspace.state}/images").iterdir()}
    contents.add((workspace.folder / "f").read_text())
    replaced_by_another_save = set(saved) - contents
    assert saved[-1] in contents
    assert len(replaced_by_another_save) < len(saved)  # of two saves in turn the first is replaced by the second


# -- another filesystem, and one without an exchange


def test_what_is_too_large_for_the_store_is_not_displaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(image_store, "MAX_COPIED_FILE_BYTES", 3)
    with make_state_folder(tmp_path, is_far=True) as state:
        workspace = ChangeWorkspace(tmp_path / "w", state)
        workspace.run_directly("echo large > large; mkdir d; echo large > d/f")
        before = workspace.tree()
        for operation in (
            WriteFile(path="large", content=b"1"),
            DeleteFile(path="large"),
            DeleteFile(path="d", recursive=True),
        ):
            with pytest.raises(NotStorable) as refused:
                workspace.do("run", operation)
            assert refused.value.details["paths"] in (["large"], ["d/f"])
        assert workspace.tree() == before and workspace.history.log.read("run") == []
        lost = workspace.root.recording(workspace.history.record("run", 0, allows_loss=True))
        lost.unlink("large")
        assert "large" not in workspace.tree()
        workspace.close()


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_an_exchange_in_steps_exchanges(tmp_path: Path, kind: str) -> None:
    for name in "ab":
        if kind == "folder":
            (tmp_path / name).mkdir()
            (tmp_path / name / name).touch()
        else:
            (tmp_path / name).write_text(name)
    folder = os.open(tmp_path, os.O_RDONLY)
    inodes = {name: (tmp_path / name).stat().st_ino for name in "ab"}
    exchange_in_steps(folder, "a", folder, "b")
    assert {name: (tmp_path / name).stat().st_ino for name in "ab"} == {"a": inodes["b"], "b": inodes["a"]}
    assert sorted(os.listdir(tmp_path)) == ["a", "b"]
    assert not (tmp_path / spare_name(inodes["a"])).exists()
    os.close(folder)


def test_an_append_changes_a_file_at_one_of_its_names(workspace: ChangeWorkspace) -> None:
    """Policy has judged the name that the operation names; and the store keeps a file that has other names."""
    workspace.run_directly("echo 1 > a; ln a b")
    workspace.write("append", "a", b"2\n", mode="append")
    assert ((workspace.folder / "a").read_text(), (workspace.folder / "b").read_text()) == ("1\n2\n", "1\n")
    workspace.revert("append", "revert")
    assert (workspace.folder / "a").read_text() == "1\n"
    workspace.root.append("b", b"3\n")  # without a record
    assert ((workspace.folder / "a").read_text(), (workspace.folder / "b").read_text()) == ("1\n", "1\n3\n")
