"""Reverting a run: the tree is what it was; a later change is not lost; a revert can be reverted."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.undo_workspace import ATTACK, SCENE, Undoable, clear, dying
from wap_kernel.model.edits import ReplaceText
from wap_kernel.model.errors import Conflict, WapError
from wap_kernel.model.operations import (
    CopyFile,
    CreateDirectory,
    DeleteFile,
    ModifyFile,
    MoveFile,
    Operation,
    WriteFile,
)
from wap_kernel.state.undo.change_store import RecordedChange, collapse_changes
from wap_kernel.state.undo.file_image import ABSENT, FileImage
from wap_kernel.state.undo.revert_plan import StepKind, plan_revert


@pytest.fixture
def undo(tmp_path: Path) -> Iterator[Undoable]:
    undo = Undoable(tmp_path / "ws", tmp_path / "state")
    yield undo
    undo.close()


def test_a_batch_with_a_command_is_undone_byte_for_byte(tmp_path: Path) -> None:
    """Revert creates, edits, deletes and a command that rewrites, deletes, creates, chmods and links files.

    Among them are ignored files, CRLF, mode 0600, empty folders and a nested repository; the state folder is below the
    root.
    """
    undo = Undoable(tmp_path / "ws", tmp_path / "ws" / ".local" / "state")
    undo.command("scene", SCENE)
    before = undo.tree()
    undo.write("run", "made-by-op/deep/f.txt", b"created", mode="create", create_directories=True)
    undo.do("run", ModifyFile(path="crlf.txt", edits=(ReplaceText(old_content="one", new_content="1"),)))
    undo.do("run", DeleteFile(path="sp ace", recursive=True))
    undo.do("run", MoveFile(source="token", destination="moved/token", create_directories=True))
    undo.do("run", MoveFile(source="moved/token", destination="token"))
    undo.command("run", ATTACK.replace("'sp ace'", "no-such"))
    undo.write("run", "src/a.py", b"again")
    undo.do("run", CopyFile(source="src/a.py", destination="made/new", overwrite=True))
    after = undo.tree()
    assert undo.revert("run", into="revert").left is None
    assert undo.tree() == before
    assert undo.describe("run")["changes"] != []  # what it changed is still told
    assert undo.revert("revert", into="again", force=True).left == ["made/pipe"]  # only a command makes pipes
    assert undo.tree() == {path: was for path, was in after.items() if path != "made/pipe"}
    undo.close()


def test_a_command_is_undone_alone_and_together_with_its_mode_changes(undo: Undoable) -> None:
    undo.command("scene", SCENE)
    before = undo.tree()
    undo.command("run", ATTACK)
    assert undo.tree() != before
    undo.revert("run", into="revert")
    assert undo.tree() == before


def test_a_later_change_is_a_conflict_that_names_every_file_and_force_overrides(undo: Undoable) -> None:
    for name in ("a", "b", "c", "d"):
        (undo.folder / name).write_text("old")
    (undo.folder / "l").symlink_to("a")
    before = undo.tree()
    undo.command("run", "for n in a b c d; do echo new > $n; done; ln -sfn b l; mkdir made; echo x > made/f")
    (undo.folder / "a").write_text("mine")
    (undo.folder / "b").chmod(0o600)
    (undo.folder / "c").unlink()
    (undo.folder / "l").unlink()
    (undo.folder / "l").symlink_to("elsewhere")
    (undo.folder / "made/g").write_text("mine")
    later = undo.tree()
    with pytest.raises(Conflict) as refused:
        undo.revert("run", into="revert")
    assert refused.value.details["paths"] == ["a", "b", "c", "l"]
    assert undo.tree() == later
    described = {entry["path"]: entry.get("conflict", False) for entry in undo.describe("run")["changes"]}
    assert described == {"a": True, "b": True, "c": True, "d": False, "l": True, "made": False, "made/f": False}
    reverted = undo.revert("run", into="forced", force=True)
    assert reverted.left == ["made"]  # somebody else's file is in it
    assert undo.tree() == {**before, "made": later["made"], "made/g": later["made/g"]}
    undo.revert("forced", into="back")
    assert undo.tree() == later | {"made/f": undo.tree()["made/f"]}


def test_somebody_elses_change_between_two_of_the_run_is_not_lost(undo: Undoable) -> None:
    undo.write("run", "f", b"1")
    undo.write("other", "f", b"2")
    undo.write("run", "f", b"3")
    with pytest.raises(Conflict) as refused:
        undo.revert("run", into="revert")
    assert refused.value.details["paths"] == ["f"]


def test_a_folder_that_became_a_link_is_not_written_through(undo: Undoable) -> None:
    undo.command("scene", "mkdir d other; echo old > d/x; echo theirs > other/x")
    undo.write("run", "d/x", b"new")
    shutil.rmtree(undo.folder / "d")
    (undo.folder / "d").symlink_to("other")
    with pytest.raises(Conflict):
        undo.revert("run", into="revert")
    assert undo.revert("run", into="forced", force=True).left == ["d/x"]
    assert (undo.folder / "other/x").read_text() == "theirs\n"


def test_a_folder_with_somebody_elses_files_does_not_give_way_to_a_file(undo: Undoable) -> None:
    (undo.folder / "f").write_text("old")
    undo.command("run", "rm f; mkdir f; echo 1 > f/ours")
    (undo.folder / "f/theirs").write_text("mine")
    with pytest.raises(Conflict) as refused:
        undo.revert("run", into="revert")
    assert refused.value.details["paths"] == ["f/theirs"]
    assert undo.revert("run", into="forced", force=True).left == ["f"]
    assert os.listdir(undo.folder / "f") == ["theirs"]


def test_what_was_not_kept_is_refused_and_left_alone_with_force(tmp_path: Path) -> None:
    undo = Undoable(tmp_path / "ws", tmp_path / "state", per_file=10)
    (undo.folder / "large").write_text("x" * 11)
    (undo.folder / "small").write_text("x")
    (undo.folder / "mode").write_text("x" * 11)
    undo.command("run", "echo 1 > large; echo 1 > small; chmod 600 mode")
    assert {entry["path"]: entry["revertible"] for entry in undo.describe("run")["changes"]} == {
        **{"large": False, "small": True, "mode": True}
    }
    with pytest.raises(Conflict) as refused:
        undo.revert("run", into="revert")
    assert refused.value.details["paths"] == ["large"]
    reverted = undo.revert("run", into="forced", force=True)
    assert (reverted.restored, reverted.left) == (["mode", "small"], ["large"])
    assert (undo.folder / "large").read_text() == "1\n"
    assert (undo.folder / "small").read_text() == "x"
    assert (undo.folder / "mode").stat().st_mode & 0o777 == 0o644
    undo.close()


def test_a_damaged_content_is_noticed(undo: Undoable) -> None:
    (undo.folder / "f").write_text("old")
    undo.write("run", "f", b"new")
    (blob,) = (stored.path for stored in undo.snapshots.blobs.all())
    Path(blob).write_text("dld")
    assert undo.revert("run", into="revert").left == ["f"]
    assert (undo.folder / "f").read_text() == "new"


@pytest.mark.parametrize("survived", range(0, 40, 3))
def test_a_revert_that_dies_can_be_repeated(undo: Undoable, monkeypatch: pytest.MonkeyPatch, survived: int) -> None:
    undo.command("scene", SCENE)
    before = undo.tree()
    undo.command("run", ATTACK)
    with dying(monkeypatch, survived):
        undo.revert("run", into="revert")
    undo.revert("run", into="repeated")
    assert undo.tree() == before


def test_the_rollback_of_a_run_into_itself_leaves_no_change(undo: Undoable) -> None:
    (undo.folder / "f").write_text("old")
    before = undo.tree()
    undo.write("run", "f", b"new")
    undo.write("run", "d/e/g", b"new", create_directories=True)
    assert undo.revert("run", into="run").restored == ["d", "d/e", "d/e/g", "f"]
    assert undo.tree() == before
    assert undo.describe("run")["changes"] == []


# -- the plan alone


def file(digest: str, mode: int = 0o644) -> FileImage:
    return FileImage("file", mode, 1, digest=digest, stamp=digest)


FOLDER = FileImage("folder", 0o755)


def test_the_order_of_steps() -> None:
    changes = [
        RecordedChange("d", FOLDER, file("1")),
        RecordedChange("d/x", file("2"), ABSENT),
        RecordedChange("new", ABSENT, FOLDER),
        RecordedChange("new/sub", ABSENT, FOLDER),
        RecordedChange("new/sub/f", ABSENT, file("3")),
    ]
    made = plan_revert(changes, {change.path: change.after or ABSENT for change in changes})
    assert [(step.do, step.path) for step in made.steps] == [
        (StepKind.REMOVE, "new/sub/f"),
        (StepKind.REMOVE, "d"),
        (StepKind.REMOVE_FOLDER, "new/sub"),
        (StepKind.REMOVE_FOLDER, "new"),
        (StepKind.MAKE_FOLDER, "d"),
        (StepKind.WRITE, "d/x"),
        (StepKind.SET_FOLDER_MODE, "d"),
    ]


def test_changes_of_one_path_come_to_one() -> None:
    one, two, three = file("1"), file("2"), file("3")
    assert collapse_changes([RecordedChange("f", one, two), RecordedChange("f", two, three)]) == [
        RecordedChange("f", one, three)
    ]
    assert collapse_changes([RecordedChange("f", one, two), RecordedChange("f", two, one)]) == []
    assert collapse_changes([RecordedChange("f", one, None), RecordedChange("f", two, three)]) == [
        RecordedChange("f", one, three, is_broken=True)
    ]


# -- any sequence of operations

_names = st.sampled_from(["a", "b", "d", "d/a", "d/b", "d/e", "d/e/a", "l", "m", "é"])
_contents = st.sampled_from([b"", b"1", b"2\r\n", b"\xff\0"])
_operations: st.SearchStrategy[Operation] = st.one_of(
    st.builds(
        WriteFile,
        path=_names,
        content=_contents,
        mode=st.sampled_from(["create", "overwrite", "append"]),
        create_directories=st.booleans(),
    ),
    st.builds(DeleteFile, path=_names, recursive=st.booleans()),
    st.builds(
        ModifyFile,
        path=_names,
        edits=st.just((ReplaceText(old_content="1", new_content="one"),)),
    ),
    st.builds(MoveFile, source=_names, destination=_names, overwrite=st.booleans(), create_directories=st.booleans()),
    st.builds(CopyFile, source=_names, destination=_names, overwrite=st.booleans(), create_directories=st.booleans()),
    st.builds(CreateDirectory, path=_names),
)


@pytest.fixture(scope="module")
def playground() -> Iterator[Undoable]:
    with tempfile.TemporaryDirectory() as folder:
        undo = Undoable(Path(folder) / "ws", Path(folder) / "state")
        yield undo
        undo.close()


_runs = iter(range(10**9))


@settings(max_examples=60)
@given(prepared=st.lists(_operations, max_size=6), operations=st.lists(_operations, min_size=1, max_size=8))
def test_any_operations_then_revert_is_the_tree_as_it_was(
    playground: Undoable, prepared: list[Operation], operations: list[Operation]
) -> None:
    undo = playground
    clear(undo.folder)
    (undo.folder / "d").mkdir()
    (undo.folder / "l").symlink_to("d/a")
    (undo.folder / "m").symlink_to("d")
    scene, run, revert, again = (f"run-{next(_runs)}" for _ in range(4))
    for name, sequence in ((scene, prepared), (run, operations)):
        before = undo.tree()
        for operation in sequence:
            with suppress(WapError, OSError):
                undo.do(name, operation)
    after = undo.tree()
    undo.revert(run, into=revert)
    assert undo.tree() == before
    undo.revert(revert, into=again)
    assert undo.tree() == after
