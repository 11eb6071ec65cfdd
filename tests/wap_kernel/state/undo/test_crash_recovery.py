"""After a crash: what an operation left is told from what somebody else did, so that all of it can be taken back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.undo_workspace import Undoable
from wap_kernel.model.caller import Caller
from wap_kernel.model.edits import RegexReplace, ReplaceText
from wap_kernel.model.operations import (
    CopyFile,
    CreateDirectory,
    DeleteFile,
    ModifyFile,
    MoveFile,
    Operation,
    WriteFile,
)
from wap_kernel.model.run import BatchOptions, Run, RunStatus, Step, dump_steps
from wap_kernel.state.undo.crash_recovery import recover_changes

FIRST = WriteFile(path="first", content=b"1")
"""What the run does before it is interrupted."""
EDITS = (ReplaceText(old_content="one", new_content="two"), RegexReplace(pattern="t(.)o", replacement="$1"))
OPERATIONS = {
    "create": WriteFile(path="new", content=b"new", mode="create"),
    "create in a new folder": WriteFile(path="x/y/new", content=b"new", create_directories=True),
    "overwrite": WriteFile(path="old", content=b"new"),
    "append": WriteFile(path="old", content=b"more", mode="append"),
    "append to nothing": WriteFile(path="new", content=b"more", mode="append"),
    "edit": ModifyFile(path="old", edits=EDITS),
    "edit through a link": ModifyFile(path="link", edits=EDITS),
    "delete": DeleteFile(path="old"),
    "delete a link": DeleteFile(path="link"),
    "delete a folder": DeleteFile(path="folder", recursive=True),
    "make folders": CreateDirectory(path="x/y"),
    "copy": CopyFile(source="old", destination="x/copy", create_directories=True),
    "copy over": CopyFile(source="old", destination="other", overwrite=True),
    "move": MoveFile(source="old", destination="x/moved", create_directories=True),
    "move over": MoveFile(source="old", destination="other", overwrite=True),
    "move a folder": MoveFile(source="folder", destination="moved"),
}
SCENE = """
echo one > old; chmod 600 old; echo other > other; ln -s old link
mkdir -p folder/deep folder/empty; echo in > folder/deep/in; ln -s nowhere folder/l
"""


@pytest.fixture
def undo(tmp_path: Path) -> Iterator[Undoable]:
    undo = Undoable(tmp_path / "ws", tmp_path / "state")
    undo.command("scene", SCENE)
    undo.write("run", FIRST.path, FIRST.content)
    yield undo
    undo.close()


def _run(operation: Operation, position: int = 3) -> Run:
    """Of operations that are counted from the scene on, from 1."""
    steps = tuple(Step(f"op-{number}", "", one) for number, one in enumerate((FIRST, FIRST, FIRST, operation)))
    return Run(
        number=1,
        id="run",
        status=RunStatus.RUNNING,
        caller=Caller(),
        dialect="",
        options=BatchOptions(),
        count=len(steps),
        operations=dump_steps(steps),
        position=position,
        owner=None,
        cancel_requested=False,
        started_at="",
    )


@pytest.mark.parametrize("is_done", [True, False])
@pytest.mark.parametrize("operation", OPERATIONS.values(), ids=OPERATIONS.keys())
def test_what_was_under_way_is_undone_whether_it_was_done_or_not(
    undo: Undoable, operation: Operation, is_done: bool
) -> None:
    before = {path: found for path, found in undo.tree().items() if path != FIRST.path}
    undo.interrupted("run", operation, is_done=is_done)
    assert is_done is (undo.tree() != {**before, FIRST.path: undo.tree()[FIRST.path]})
    assert recover_changes(undo.snapshots, _run(operation)) == [3]
    assert all(change.after is not None for change in undo.snapshots.changes.of("run"))
    assert undo.revert("run", into="revert").left is None
    assert undo.tree() == before


@pytest.mark.parametrize("operation", OPERATIONS.values(), ids=OPERATIONS.keys())
def test_what_somebody_else_put_there_is_left_to_them(undo: Undoable, operation: Operation) -> None:
    undo.interrupted("run", operation, is_done=False)
    last = max(begun.path for begun in undo.snapshots.changes.under_way("run"))
    theirs = undo.folder / last
    theirs.parent.mkdir(parents=True, exist_ok=True)
    theirs.unlink(missing_ok=True)
    theirs.write_text("theirs")
    recover_changes(undo.snapshots, _run(operation))
    assert last in (undo.take_back("run").left or ())
    assert theirs.read_text() == "theirs"
    assert not (undo.folder / FIRST.path).exists()


def test_what_an_earlier_operation_failed_to_record_is_not_taken_for_known(undo: Undoable) -> None:
    """The state could not be written for a while. That it looks as it did says nothing once others came after it."""
    edit = ModifyFile(path="old", edits=EDITS)
    undo.interrupted("run", edit, is_done=True)
    undo.write("run", "old", b"one\n")
    assert recover_changes(undo.snapshots, _run(edit, position=4)) == [3]
    (unknown,) = undo.snapshots.changes.under_way("run")
    assert unknown.path == "old"
