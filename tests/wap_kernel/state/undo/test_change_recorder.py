"""Keeping what an operation will change, before it does: everything, once, or the operation is refused."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.undo_workspace import NAMES, Undoable, paths
from wap_kernel.files.contained.handles import LocalFolder
from wap_kernel.files.interface import LinkStat
from wap_kernel.files.write import Writer
from wap_kernel.model.command import Deadline
from wap_kernel.model.edits import ReplaceText
from wap_kernel.model.errors import NoSpace, WapError
from wap_kernel.model.operations import (
    CopyFile,
    CreateDirectory,
    DeleteFile,
    ModifyFile,
    MoveFile,
    Operation,
    RunCommand,
    WriteFile,
)
from wap_kernel.model.results import Limits
from wap_kernel.state.undo.blob_store import BlobStore
from wap_kernel.state.undo.imager import Imager


@pytest.fixture
def undo(tmp_path: Path) -> Iterator[Undoable]:
    undo = Undoable(tmp_path / "ws", tmp_path / "state")
    (undo.folder / "d").mkdir()
    for name in ("f", "g", "d/a"):
        (undo.folder / name).write_text(f"{name}\n")
    (undo.folder / "link").symlink_to("d/a")
    (undo.folder / "dangling").symlink_to("d/new")
    (undo.folder / "to-folder").symlink_to("d")
    yield undo
    undo.close()


CASES: list[tuple[Operation, dict[str, str]]] = [
    (WriteFile(path="new", content=b"x"), {"new": "created"}),
    (WriteFile(path="f", content=b"x"), {"f": "modified"}),
    (WriteFile(path="f", content=b"f\n"), {}),
    (WriteFile(path="f", content=b"x", mode="append"), {"f": "modified"}),
    (WriteFile(path="link", content=b"x"), {"d/a": "modified"}),
    (WriteFile(path="dangling", content=b"x"), {"d/new": "created"}),
    (WriteFile(path="to-folder/b", content=b"x"), {"d/b": "created"}),
    (
        WriteFile(path="to-folder/n/m/b", content=b"x", create_directories=True),
        {"d/n": "folder created", "d/n/m": "folder created", "d/n/m/b": "created"},
    ),
    (ModifyFile(path="link", edits=(ReplaceText(old_content="a", new_content="b"),)), {"d/a": "modified"}),
    (DeleteFile(path="link"), {"link": "deleted"}),
    (DeleteFile(path="f"), {"f": "deleted"}),
    (DeleteFile(path="d", recursive=True), {"d": "folder deleted", "d/a": "deleted"}),
    (MoveFile(source="f", destination="h"), {"f": "deleted", "h": "created"}),
    (MoveFile(source="f", destination="g", overwrite=True), {"f": "deleted", "g": "modified"}),
    (MoveFile(source="link", destination="h"), {"link": "deleted", "h": "created"}),
    (
        MoveFile(source="d", destination="n/e", create_directories=True),
        {
            **{"d": "folder deleted", "d/a": "deleted"},
            **{"n": "folder created", "n/e": "folder created", "n/e/a": "created"},
        },
    ),
    (CopyFile(source="f", destination="link", overwrite=True), {"d/a": "modified"}),
    (CopyFile(source="f", destination="n/h", create_directories=True), {"n": "folder created", "n/h": "created"}),
    (CreateDirectory(path="n/m"), {"n": "folder created", "n/m": "folder created"}),
    (CreateDirectory(path="n/../d/o"), {"n": "folder created", "d/o": "folder created"}),
    (CreateDirectory(path="d"), {}),
]


@pytest.mark.parametrize(("operation", "expected"), CASES, ids=lambda case: repr(case)[:60])
def test_what_a_file_operation_changes_is_known_and_undone(
    undo: Undoable, operation: Operation, expected: dict[str, str]
) -> None:
    before = undo.tree()
    undo.do("run", operation)
    assert paths(undo.describe("run")) == expected
    undo.revert("run", into="revert")
    assert undo.tree() == before
    assert undo.notices == []


@pytest.mark.parametrize(
    "operation",
    [
        WriteFile(path="f", content=b"x", mode="create"),
        WriteFile(path="f", content=b"as", mode="create"),  # of the same size as what is there
        WriteFile(path="no/such", content=b"x"),
        WriteFile(path="f/below", content=b"x", create_directories=True),
        WriteFile(path="d", content=b"x"),
        WriteFile(path="f", content=b"x", expected_hash="sha256:" + "0" * 64),
        ModifyFile(path="f", edits=(ReplaceText(old_content="zzz", new_content="b"),)),
        DeleteFile(path="d"),
        DeleteFile(path="gone"),
        MoveFile(source="f", destination="g"),
        MoveFile(source="gone", destination="h"),
        MoveFile(source="f", destination="no/such"),
        CopyFile(source="gone", destination="h"),
        WriteFile(path="../out", content=b"x"),
    ],
    ids=repr,
)
def test_an_operation_that_fails_fails_as_it_would_and_leaves_no_change(undo: Undoable, operation: Operation) -> None:
    before = undo.tree()
    with pytest.raises((WapError, OSError)) as expected:
        getattr(Writer(undo.files, undo.locks, Limits()), NAMES[type(operation)])(operation)
    with pytest.raises(expected.type) as failed:
        undo.do("run", operation)
    assert str(failed.value) == str(expected.value)
    assert undo.tree() == before
    assert undo.describe("run")["changes"] == []


def test_a_new_file_costs_one_row_and_no_content(undo: Undoable) -> None:
    undo.write("run", "new", b"content")
    assert list(undo.snapshots.blobs.all()) == []
    rows = undo.database.write(lambda connection: connection.execute("SELECT path, before FROM changes").fetchall())
    assert rows == [("new", '{"kind": "absent"}')]


def test_the_before_image_is_stored_before_the_operation(undo: Undoable) -> None:
    operation = WriteFile(path="f", content=b"x")
    with undo.snapshots.around(operation, "run", 0, Deadline(10), undo.notices.append):
        (change,) = undo.snapshots.changes.of("run")
        assert change.after is None and undo.snapshots.blobs.read(change.before.digest or "") == b"f\n"


@pytest.mark.parametrize("operation", [WriteFile(path="f", content=b"x"), RunCommand(command="true")], ids=repr)
def test_what_cannot_be_kept_for_lack_of_space_is_not_changed(
    undo: Undoable, monkeypatch: pytest.MonkeyPatch, operation: Operation
) -> None:
    def full(self: BlobStore, *_: Any) -> None:
        raise NoSpace("No space left.")

    monkeypatch.setattr(BlobStore, "put", full)
    before = undo.tree()
    with pytest.raises(NoSpace):
        undo.do("run", operation)
    assert undo.tree() == before


# -- commands


def test_what_could_not_be_kept_is_named_before_the_command_runs(tmp_path: Path) -> None:
    undo = Undoable(tmp_path / "ws", tmp_path / "state", per_file=10, total=25)
    subprocess.run("mkdir .git node_modules", shell=True, cwd=undo.folder, check=True)
    for name, size in {"large": 11, "a": 9, "b": 10, "c": 10}.items():
        (undo.folder / name).write_bytes(b"x" * (size - 1) + name[:1].encode())
    with undo.snapshots.around(RunCommand(command=":"), "run", 0, Deadline(10), undo.notices.append):
        (notice,) = undo.notices
        assert notice.files == {
            "large": "it has 11 bytes, more than 10",
            "c": "all that is kept together would be more than 25 bytes",
        }
        assert notice.folders.keys() == {".git", "node_modules"}
        assert undo.describe("run")["notKept"][-1]["path"] == "."  # if the server died now
    described = undo.describe("run")
    assert sorted(item["path"] for item in described["notKept"]) == [".git", "c", "large", "node_modules"]
    assert described["notUndone"] == []
    undo.close()


def test_changes_of_git_and_new_environments_are_told_and_not_undone(undo: Undoable) -> None:
    subprocess.run(["git", "init", "-q", "sub"], cwd=undo.folder, check=True)
    undo.command("run", "cd sub; echo 1 > f; git add f; mkdir -p ../env; touch ../env/pyvenv.cfg")
    described = undo.describe("run")
    assert paths(described) == {"sub/f": "created"}
    assert described["notUndone"] == ["env", "sub/.git"]
    undo.revert("run", into="revert")
    assert not (undo.folder / "sub/f").exists() and (undo.folder / "env/pyvenv.cfg").exists()


def test_what_a_failed_command_changed_is_known_too(undo: Undoable) -> None:
    with pytest.raises(subprocess.CalledProcessError):
        undo.command("run", "echo x > f; exit 1")
    assert paths(undo.describe("run")) == {"f": "modified"}


def test_content_that_changes_within_one_tick_of_the_clock_is_noticed(
    undo: Undoable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which the file system would tell by nothing at all."""
    (undo.folder / "f").write_text("f\n")
    same = undo.files.lstat("f")
    with undo.snapshots.around(RunCommand(command=":"), "run", 0, Deadline(10), undo.notices.append):
        assert same is not None
        (undo.folder / "f").write_text("F\n")
        os.utime(undo.folder / "f", ns=(same.mtime_ns, same.mtime_ns))
        look = LocalFolder.lstat

        def frozen(self: LocalFolder, name: str) -> LinkStat:
            assert same is not None
            found = look(self, name)
            return same if name == "f" else found

        monkeypatch.setattr(LocalFolder, "lstat", frozen)
    assert paths(undo.describe("run")) == {"f": "modified"}


def test_a_touched_or_rewritten_file_with_the_same_content_is_no_change(undo: Undoable) -> None:
    undo.command("run", "touch f; cp g g2; mv g2 g; chmod 600 d/a; chmod 644 d/a")
    assert undo.describe("run")["changes"] == []


def test_what_other_runs_change_meanwhile_is_not_the_commands(undo: Undoable) -> None:
    (undo.folder / "both").write_text("0")
    begun = undo.snapshots.around(WriteFile(path="begun", content=b"x"), "third", 0, Deadline(10), undo.notices.append)
    begun.__enter__()
    with undo.snapshots.around(RunCommand(command=":"), "run", 0, Deadline(10), undo.notices.append):
        undo.write("other", "f", b"theirs")
        undo.do("other", DeleteFile(path="g"))
        undo.write("other", "both", b"theirs")
        (undo.folder / "both").write_text("ours")
        (undo.folder / "own").write_text("ours")
        (undo.folder / "begun").write_text("x")
        begun.__exit__(None, None, None)
    assert paths(undo.describe("run")) == {"both": "modified", "own": "created"}
    assert paths(undo.describe("other")) == {"both": "modified", "f": "modified", "g": "deleted"}
    assert paths(undo.describe("third")) == {"begun": "created"}


def test_what_another_run_makes_while_a_command_is_prepared_is_not_the_commands(
    undo: Undoable, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep_all = undo.snapshots._keep_all

    def slowly(*arguments: Any) -> Any:
        undo.write("other", "new", b"theirs")
        return keep_all(*arguments)

    monkeypatch.setattr(undo.snapshots, "_keep_all", slowly)
    with undo.snapshots.around(RunCommand(command=":"), "run", 0, Deadline(10), undo.notices.append):
        (undo.folder / "own").write_text("ours")
    assert paths(undo.describe("run")) == {"own": "created"}


def test_what_another_run_is_still_at_is_not_the_commands_unless_that_run_is_over(undo: Undoable) -> None:
    undo.database.write(
        lambda connection: connection.executemany(
            "INSERT INTO runs (id, workspace, status, caller, asker, dialect, options, operations, count, started_at)"
            " VALUES (?, 'w', ?, '{}', '', 'd', '{}', '[]', 0, '')",
            [("alive", "running"), ("dead", "error")],
        )
    )
    for run in ("alive", "dead"):
        undo.interrupted(run, WriteFile(path=f"of {run}", content=b"x"), is_done=False)
    with undo.snapshots.around(RunCommand(command=":"), "run", 0, Deadline(10), undo.notices.append):
        for run in ("alive", "dead"):
            (undo.folder / f"of {run}").write_text("x")
    assert paths(undo.describe("run")) == {"of dead": "created"}


def test_unchanged_files_are_read_once(undo: Undoable, monkeypatch: pytest.MonkeyPatch) -> None:
    for path in undo.folder.rglob("*"):
        if path.is_file() and not path.is_symlink():
            os.utime(path, (0, 0))
    read: list[str] = []
    keep = Imager._store

    def counted(self: Imager, file: Any, limit: int) -> str | None:
        read.append(file.stat.path)
        return keep(self, file, limit)

    monkeypatch.setattr("wap_kernel.state.undo.imager.RACY_NS", -(10**12))  # as if all had been there for long
    monkeypatch.setattr(Imager, "_store", counted)
    undo.command("run", "true")
    assert sorted(read) == ["d/a", "f", "g"]
    undo.command("run", "echo 1 > f")
    undo.command("run", "true")
    assert sorted(read) == ["d/a", "f", "f", "g"]


def test_a_collected_content_is_kept_again(undo: Undoable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wap_kernel.state.undo.imager.RACY_NS", -(10**12))
    undo.command("run", "true")
    for stored in undo.snapshots.blobs.all():
        os.unlink(stored.path)
    undo.command("run", "echo 1 > f")
    undo.revert("run", into="revert")
    assert (undo.folder / "f").read_text() == "f\n"
