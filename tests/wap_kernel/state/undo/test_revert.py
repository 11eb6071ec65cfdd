"""Reverts: exact, refused by name with nothing changed, forced, repeated, taken back; on one filesystem and on two."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.support.change_workspace import ATTACK, SCENE, ChangeWorkspace, make_state_folder
from wap_kernel.files.contained.copies import copy_entry
from wap_kernel.model.changes import FileImage
from wap_kernel.model.errors import Conflict, PermissionDenied
from wap_kernel.model.operations import CopyFile, CreateDirectory, DeleteFile, MoveFile, Operation, WriteFile
from wap_kernel.model.policy import FilesystemPolicy, Policy
from wap_kernel.policy.effective import EffectivePolicy
from wap_kernel.policy.paths.guard import PolicyGuard
from wap_kernel.policy.paths.protected import ProtectedPaths
from wap_kernel.state.changes import tree_manifest
from wap_kernel.state.undo.inversion import Inverter
from wap_kernel.state.undo.report import describe_changes


@pytest.fixture(params=["near", "far"])
def workspace(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ChangeWorkspace]:
    """A workspace with its state on the same filesystem, or on another one."""
    with make_state_folder(tmp_path, is_far=request.param == "far") as state:
        workspace = ChangeWorkspace(tmp_path / "w", state)
        yield workspace
        workspace.close()


def make_guard(**filesystem: Any) -> PolicyGuard:
    """Return what binds a caller under a policy, besides what is protected always."""
    protected = ProtectedPaths(frozenset(), frozenset())
    return PolicyGuard(protected, EffectivePolicy((Policy(filesystem=FilesystemPolicy(**filesystem)),)))


def list_changes(workspace: ChangeWorkspace, run: str) -> dict[str, str]:
    described = describe_changes(workspace.history, workspace.reverter, run, lambda _: True)
    return {entry["path"]: entry["change"] for entry in described["changes"]}


# -- exactness


def test_a_command_is_reverted_and_reverted_again_byte_for_byte(workspace: ChangeWorkspace) -> None:
    workspace.run_directly(SCENE)
    before = workspace.tree()
    assert workspace.command("run", ATTACK).conflicts == ()
    after = workspace.tree()
    assert after != before
    for undone, into, expected in (
        ("run", "a", before),
        ("a", "b", after),
        ("run", "c", before),
        ("c", "d", after),
        ("d", "e", before),
        ("run", "f", before),
    ):
        assert workspace.revert(undone, into).left is None
        assert workspace.tree() == expected
    assert workspace.revert("run", "again").restored == []
    assert workspace.leftovers() == []


def test_two_copies_of_a_file_are_told_apart(tmp_path: Path) -> None:
    """A copy may get the inode of a removed file; with its size and time it would count as that file."""
    folder = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    (tmp_path / "old").write_text("old")
    os.utime(tmp_path / "old", ns=(0, 1_000_000_123))
    for name in ("first", "second"):
        copy_entry(folder, "old", folder, name)
    os.close(folder)
    first, second = [(tmp_path / name).stat().st_mtime_ns for name in ("first", "second")]
    assert first != second and first // 1_000_000 == second // 1_000_000 == 1000


def test_a_revert_can_be_reverted_again_when_its_effect_is_there_again(workspace: ChangeWorkspace) -> None:
    workspace.command("run", "echo 1 > f; mkdir d; echo 1 > d/g")
    made = workspace.tree()
    for undone, into in (("run", "first"), ("first", "back"), ("run", "second")):
        assert workspace.revert(undone, into).left is None
    assert workspace.revert("first", "again").restored == ["d", "d/g", "f"]
    assert workspace.tree() == made


def test_a_folder_goes_into_the_store_and_back_by_one_rename(tmp_path: Path) -> None:
    workspace = ChangeWorkspace(tmp_path / "w", tmp_path / "state")
    workspace.run_directly("mkdir d; touch d/{1..50}; echo 1 > d/1")
    inode = (workspace.folder / "d/1").stat().st_ino
    workspace.command("run", "rm -r d")
    (stored,) = os.listdir(f"{workspace.state}/images")
    assert os.stat(f"{workspace.state}/images/{stored}/1").st_ino == inode
    assert len(workspace.history.log.read("run")) == 1
    workspace.revert("run", "revert")
    assert (workspace.folder / "d/1").stat().st_ino == inode
    workspace.close()


OPERATIONS: list[tuple[Operation, dict[str, str]]] = [
    (WriteFile(path="new", content=b"1"), {"new": "created"}),
    (WriteFile(path="f", content=b"1"), {"f": "modified"}),
    (WriteFile(path="f", content=b"more", mode="append"), {"f": "modified"}),
    (
        WriteFile(path="x/y/z", content=b"1", create_directories=True),
        {"x": "folder created", "x/y": "folder created", "x/y/z": "created"},
    ),
    (WriteFile(path="link", content=b"1"), {"f": "modified"}),
    (DeleteFile(path="f"), {"f": "deleted"}),
    (DeleteFile(path="link"), {"link": "deleted"}),
    (DeleteFile(path="d", recursive=True), {"d": "folder deleted", "d/e": "folder deleted", "d/e/g": "deleted"}),
    (MoveFile(source="f", destination="d/h"), {"d/h": "moved"}),
    (MoveFile(source="f", destination="d/e/g", overwrite=True), {"d/e/g": "moved"}),
    (MoveFile(source="d", destination="moved"), {"moved": "moved"}),
    (CopyFile(source="f", destination="d/e/g", overwrite=True), {"d/e/g": "modified"}),
    (CreateDirectory(path="p/q"), {"p": "folder created", "p/q": "folder created"}),
]


@pytest.mark.parametrize(("operation", "expected"), OPERATIONS)
def test_a_file_operation_is_named_and_reverted(
    workspace: ChangeWorkspace, operation: Operation, expected: dict[str, str]
) -> None:
    workspace.run_directly("mkdir -p d/e; echo f > f; echo g > d/e/g; ln -s f link; chmod 600 d/e/g")
    before = workspace.tree()
    workspace.do("run", operation)
    assert list_changes(workspace, "run") == expected
    after = workspace.tree()
    assert workspace.revert("run", "revert").left is None
    assert workspace.tree() == before
    assert workspace.revert("revert", "redo").left is None
    assert workspace.tree() == after


def test_changes_of_several_steps_are_undone_in_turn(workspace: ChangeWorkspace) -> None:
    workspace.run_directly("mkdir -p d/e; echo one > log; echo x > d/e/x")
    before = workspace.tree()
    workspace.do("run", WriteFile(path="log", content=b"two\n", mode="append"))
    workspace.command("run", "echo three >> log; mv d/e d/f; echo y > d/f/y; touch -d 2001-01-01 log; chmod 600 log")
    workspace.do("run", MoveFile(source="log", destination="d/f/x", overwrite=True))
    workspace.command("run", "mkdir log; mv d/f/x log; rm -r d; chmod 777 .")
    assert workspace.revert("run", "revert").left is None
    assert workspace.tree() == before


# -- what others change


@pytest.mark.parametrize(
    ("script", "foreign", "named"),
    [
        ("echo new > f", "echo mine > f", ["f"]),
        ("echo new > f", "rm f", ["f"]),
        ("echo new > n", "echo mine > n", ["n"]),
        ("mkdir n; echo 1 > n/1", "echo mine > n/2", ["n/2"]),
        ("mkdir n; echo 1 > n/1", "echo mine > n/1", ["n/1"]),
        ("rm f", "echo mine > f", ["f"]),
        ("rm -r d", "mkdir d; echo mine > d/own", ["d"]),
        ("chmod 700 f", "chmod 640 f", ["f"]),
        ("chmod 700 .", "chmod 750 .", ["."]),
        ("ln -s f l", "ln -sfn d l", ["l"]),
    ],
)
def test_a_later_change_refuses_the_revert_and_is_stored_by_force(
    workspace: ChangeWorkspace, script: str, foreign: str, named: list[str]
) -> None:
    workspace.run_directly("echo old > f; mkdir d; echo x > d/x; chmod 755 .; echo other > other")
    before = workspace.tree()
    workspace.command("run", f"{script}; echo changed > other")
    workspace.run_directly(foreign)
    after = workspace.tree()
    for attempt in (workspace.reverter.check, partial(workspace.reverter.revert, into="refused")):
        with pytest.raises(Conflict) as refused:
            attempt("run", make_guard())
        assert refused.value.details["paths"] == named
    assert workspace.tree() == after
    assert workspace.revert("run", "forced", force=True).left is None
    assert workspace.tree() == before
    assert workspace.revert("forced", "back", force=True).left is None
    assert workspace.tree() == after


def test_a_new_folder_with_the_inode_of_a_deleted_one_is_another_folder(
    workspace: ChangeWorkspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A filesystem gives the inodes of deleted folders to new ones."""
    workspace.run_directly("mkdir d; echo x > d/x")
    inode = (workspace.folder / "d").stat().st_ino
    workspace.command("run", "rm -r d")
    workspace.run_directly("mkdir d; echo mine > d/own")
    make_image = tree_manifest.make_image

    def reuse(found: os.stat_result, target: str | None = None) -> FileImage:
        image = make_image(found, target)
        return replace(image, stamp=str(inode)) if image.kind == "folder" else image

    monkeypatch.setattr(tree_manifest, "make_image", reuse)
    with pytest.raises(Conflict):
        workspace.revert("run", "refused")
    assert workspace.revert("run", "forced", force=True).left is None
    assert (workspace.folder / "d/x").read_text() == "x\n" and not (workspace.folder / "d/own").exists()


def test_what_others_undid_themselves_is_no_conflict(workspace: ChangeWorkspace) -> None:
    workspace.run_directly("echo old > f")
    workspace.command("run", "echo new > n; mkdir d; chmod 600 f")
    workspace.run_directly("rm n; rmdir d; chmod 644 f")
    assert workspace.revert("run", "revert").restored == []


@pytest.mark.parametrize("moment", range(5))
def test_a_save_during_the_revert_is_left_and_named(
    workspace: ChangeWorkspace, monkeypatch: pytest.MonkeyPatch, moment: int
) -> None:
    workspace.run_directly("for n in a b c; do echo old > $n; done")
    workspace.command("run", "for n in a b; do echo new > $n; done; rm c; echo d > d")
    invert, inverted = Inverter.invert, list[str]()

    def save_first(self: Inverter, row: Any) -> bool:
        if len(inverted) == moment:
            for name in {"a", "b", "c", "d"}.difference(inverted):
                (workspace.folder / name).write_text("mine")
        inverted.append(row.path)
        return invert(self, row)

    monkeypatch.setattr(Inverter, "invert", save_first)
    reverted = workspace.revert("run", "revert")
    assert sorted(reverted.left or ()) == sorted(inverted[moment:])
    for name in reverted.left or ():
        assert (workspace.folder / name).read_text() == "mine"


def test_a_folder_that_is_missing_is_made_again_and_goes_when_the_revert_is_reverted(
    workspace: ChangeWorkspace,
) -> None:
    workspace.run_directly("mkdir -p d/e; echo 1 > d/e/f")
    workspace.do("run", DeleteFile(path="d/e/f"))
    shutil.rmtree(workspace.folder / "d")
    without = workspace.tree()
    assert workspace.revert("run", "revert").restored == ["d/e/f"]
    assert list_changes(workspace, "revert") == {"d": "folder created", "d/e": "folder created", "d/e/f": "created"}
    workspace.revert("revert", "again")
    assert workspace.tree() == without


def test_of_reverts_at_the_same_time_one_does_it_and_the_others_find_it_done(workspace: ChangeWorkspace) -> None:
    workspace.run_directly(SCENE)
    before = workspace.tree()
    workspace.command("run", ATTACK)
    with ThreadPoolExecutor(4) as pool:
        done = list(pool.map(lambda number: workspace.revert("run", f"revert-{number}"), range(4)))
    assert workspace.tree() == before
    assert [one.left for one in done] == [None] * 4
    assert sorted(bool(one.restored) for one in done) == [False, False, False, True]


def test_content_that_is_not_stored_any_more_is_named_and_the_rest_reverted_by_force(
    workspace: ChangeWorkspace,
) -> None:
    workspace.run_directly("echo old > f; echo old > g")
    workspace.command("run", "echo new > f; echo new > g")
    row = next(row for row in workspace.history.log.read("run") if row.path == "f")
    workspace.history.store.remove(row.token)
    with pytest.raises(Conflict) as refused:
        workspace.revert("run", "refused")
    assert refused.value.details["paths"] == ["f"]
    reverted = workspace.revert("run", "revert", force=True)
    assert (reverted.restored, reverted.left) == (["g"], ["f"])


# -- policy


def test_what_policy_closes_is_refused_by_name_and_put_back_with_force(workspace: ChangeWorkspace) -> None:
    workspace.run_directly("mkdir shut; echo old > data; echo old > shut/a; echo old > shut/b; ln -s data link")
    before = workspace.tree()
    workspace.command(
        "run", "for f in data shut/a shut/b new.env shut/new; do echo new > $f; done; mkdir shut/made; rm link"
    )
    guard = make_guard(denied_paths=("*.env", "shut/**"))
    after = workspace.tree()
    with pytest.raises(PermissionDenied) as refused:
        workspace.revert("run", "refused", guard=guard)
    assert refused.value.details["paths"] == ["shut/a", "shut/b"]
    assert workspace.tree() == after
    assert workspace.revert("run", "revert", force=True, guard=guard).left is None
    assert workspace.tree() == before


def test_what_the_run_made_is_removed_though_policy_closes_it(workspace: ChangeWorkspace) -> None:
    workspace.run_directly("echo old > data")
    before = workspace.tree()
    workspace.command("run", "echo new > data; echo new > new.env; mkdir -p shut/made; echo new > shut/f")
    guard = make_guard(denied_paths=("*.env", "shut", "shut/**"))
    assert workspace.revert("run", "revert", guard=guard).left is None
    assert workspace.tree() == before


def test_a_deleted_folder_is_not_put_back_where_policy_closes_something_in_it(workspace: ChangeWorkspace) -> None:
    workspace.run_directly("mkdir d; echo 1 > d/.env")
    workspace.command("run", "rm -r d")
    with pytest.raises(PermissionDenied) as refused:
        workspace.revert("run", "refused", guard=make_guard(denied_paths=("**/.env",)))
    assert refused.value.details["paths"] == ["d"]


def test_what_somebody_put_in_place_of_a_new_file_that_policy_closes_is_left(workspace: ChangeWorkspace) -> None:
    workspace.command("run", "echo 1 > new.env; echo 1 > f")
    (workspace.folder / "new.env").write_text("theirs")
    reverted = workspace.revert("run", "revert", force=True, guard=make_guard(denied_paths=("*.env",)))
    assert (reverted.restored, reverted.left) == (["f"], ["new.env"])


def test_what_is_protected_always_is_left_and_keeps_nothing_else_from_being_undone(workspace: ChangeWorkspace) -> None:
    workspace.run_directly("mkdir sealed; echo PRECIOUS > data")
    before = workspace.tree()
    workspace.command("run", "echo gone > data; echo x > sealed/f")
    guard = ProtectedPaths(frozenset(), frozenset({("sealed",)}))
    with pytest.raises(PermissionDenied) as refused:
        workspace.revert("run", "refused", guard=guard)
    assert refused.value.details["paths"] == ["sealed/f"]
    assert workspace.revert("run", "revert", force=True, guard=guard).left == ["sealed/f"]
    (workspace.folder / "sealed/f").unlink()
    assert workspace.tree() == before


def test_a_link_does_not_lead_a_removal_elsewhere(workspace: ChangeWorkspace, monkeypatch: pytest.MonkeyPatch) -> None:
    workspace.run_directly("mkdir d shut; echo theirs > shut/a")
    workspace.do("run", WriteFile(path="d/a", content=b"1"))
    invert = Inverter.invert

    def swap(self: Inverter, row: Any) -> bool:
        (workspace.folder / "d").rename(workspace.folder / "moved")
        (workspace.folder / "d").symlink_to("shut")
        return invert(self, row)

    monkeypatch.setattr(Inverter, "invert", swap)
    workspace.revert("run", "revert")
    assert (workspace.folder / "shut/a").read_text() == "theirs\n"


# -- atomic runs


def test_an_atomic_run_is_taken_back_except_for_what_others_changed(workspace: ChangeWorkspace) -> None:
    workspace.run_directly("mkdir shut; echo old > shut/a; echo old > data; echo old > theirs")
    before = workspace.tree()
    workspace.command("run", "for f in data shut/a new.env theirs; do echo new > $f; done; rm -r shut")
    workspace.do("run", WriteFile(path="data", content=b"more", mode="append"))
    (workspace.folder / "theirs").write_text("mine")
    guard = make_guard(denied_paths=("*.env", "shut", "shut/**"), access="read")
    assert workspace.reverter.take_back("run", guard).left == ["theirs"]
    assert workspace.tree() == {**before, "theirs": (*before["theirs"][:2], b"mine")}
    assert list_changes(workspace, "run") == {"theirs": "modified"}
    assert workspace.reverter.take_back("run", guard).restored == []


def test_a_folder_that_the_run_closed_is_opened_and_what_is_in_it_restored(workspace: ChangeWorkspace) -> None:
    workspace.run_directly("mkdir d; echo old > d/f; echo old > g")
    before = workspace.tree()
    for script in ("echo new > d/f; echo n > d/n; chmod 0 d", "echo new > g"):
        workspace.command("run", script)
    assert workspace.revert("run", "revert").left is None
    assert workspace.tree() == before
