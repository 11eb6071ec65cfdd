"""Undo that nothing can block and that says what it did not undo: policy, others meanwhile, kills, atomic runs."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.undo_workspace import ATTACK, SCENE, Undoable, dying, paths
from wap_kernel.files.contained.handles import LocalFolder
from wap_kernel.files.contained.root import Root
from wap_kernel.files.interface import LinkStat
from wap_kernel.model.caller import Caller
from wap_kernel.model.errors import Conflict, PermissionDenied
from wap_kernel.model.operations import DeleteFile
from wap_kernel.policy.paths.protected import ProtectedPaths
from wap_kernel.state.undo.revert_apply import RevertExecutor
from wap_kernel.state.undo.revert_plan import RevertStep
from wap_kernel.state.undo.undo import Undo


@pytest.fixture
def undo(tmp_path: Path) -> Iterator[Undoable]:
    undo = Undoable(tmp_path / "ws", tmp_path / "state")
    yield undo
    undo.close()


# -- what policy and protection close


def test_what_policy_closes_is_refused_by_name_and_put_back_with_force(undo: Undoable) -> None:
    undo.command("scene", "mkdir shut; echo old > data; echo old > shut/a; echo old > shut/b; ln -s data link")
    before = undo.tree()
    undo.command(
        "run", "for f in data shut/a shut/b new.env shut/new; do echo new > $f; done; mkdir shut/made; rm link"
    )
    guard = undo.policy(denied_paths=("*.env", "shut/**"))
    after = undo.tree()
    for attempt in (undo.reverting.check, partial(undo.reverting.revert, into="refused")):
        with pytest.raises(PermissionDenied) as refused:
            attempt("run", guard)
        assert refused.value.details["paths"] == ["shut/a", "shut/b"]
    assert undo.tree() == after
    assert undo.reverting.revert("run", guard, into="revert", force=True).left is None
    assert undo.tree() == before


def test_what_the_run_made_is_removed_though_policy_closes_it(undo: Undoable) -> None:
    (undo.folder / "data").write_text("old")
    before = undo.tree()
    undo.command("run", "echo new > data; echo new > new.env; mkdir -p shut/made; echo new > shut/f")
    guard = undo.policy(denied_paths=("*.env", "shut", "shut/**"))
    assert undo.reverting.revert("run", guard, into="revert").left is None
    assert undo.tree() == before


def test_a_folder_that_policy_closes_is_not_changed_for_what_the_run_made_in_it(undo: Undoable) -> None:
    undo.command("scene", "mkdir shut")
    undo.command("run", "echo 1 > shut/f; chmod 700 shut")
    with pytest.raises(PermissionDenied) as refused:
        undo.reverting.check("run", undo.policy(denied_paths=("shut", "shut/**")))
    assert refused.value.details["paths"] == ["shut"]


def test_what_somebody_put_in_place_of_a_new_file_that_policy_closes_is_left(undo: Undoable) -> None:
    undo.command("run", "echo 1 > new.env; echo 1 > f")
    (undo.folder / "new.env").write_text("theirs")
    reverted = undo.reverting.revert("run", undo.policy(denied_paths=("*.env",)), into="revert", force=True)
    assert (reverted.restored, reverted.left) == (["f"], ["new.env"])


@pytest.mark.parametrize("name", [".cws-policy.json", "kept/f"])
def test_what_is_protected_always_is_left_and_keeps_nothing_else_from_being_undone(undo: Undoable, name: str) -> None:
    undo.command("scene", "mkdir kept; echo PRECIOUS > data")
    before = undo.tree()
    undo.command("run", f"echo gone > data; echo '{{' > {name}")
    guard = ProtectedPaths(frozenset(), frozenset({("kept",)}))
    with pytest.raises(PermissionDenied) as refused:
        undo.reverting.revert("run", guard, into="refused")
    assert refused.value.details["paths"] == [name]
    assert undo.reverting.revert("run", guard, into="revert", force=True).left == [name]
    (undo.folder / name).unlink()
    assert undo.tree() == before


def test_a_link_does_not_lead_an_allowed_removal_to_a_file_that_policy_closes(
    undo: Undoable, monkeypatch: pytest.MonkeyPatch
) -> None:
    undo.command("scene", "mkdir d shut; echo theirs > shut/a.env")
    undo.command("run", "echo 1 > d/a.env")
    do = RevertExecutor._do

    def swap(self: RevertExecutor, step: RevertStep) -> bool:
        (undo.folder / "d").rename(undo.folder / "aside")
        (undo.folder / "d").symlink_to("shut")
        return do(self, step)

    monkeypatch.setattr(RevertExecutor, "_do", swap)
    guard = undo.policy(denied_paths=("*.env",))
    assert undo.reverting.revert("run", guard, into="revert").left == ["d/a.env"]
    assert (undo.folder / "shut/a.env").read_text() == "theirs\n"


def test_a_path_that_cannot_be_put_back_does_not_keep_the_others_from_it(
    undo: Undoable, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in "abc":
        (undo.folder / name).write_text("old")
    undo.command("run", "rm b; for n in a b c; do echo new > $n; done")
    restore = Root.restore

    def busy(self: Root, path: str, data: bytes, mode: int) -> None:
        if path == "b":
            raise OSError(errno.EBUSY, "busy")
        restore(self, path, data, mode)

    monkeypatch.setattr(Root, "restore", busy)
    reverted = undo.revert("run", into="revert")
    assert (reverted.restored, reverted.left) == (["a", "c"], ["b"])


# -- what is not undone


def test_the_answer_says_that_git_and_installed_packages_are_not_undone(undo: Undoable) -> None:
    undo.command("scene", "git init -q .; mkdir -p node_modules/m; echo 1 > node_modules/m/i.js; mkdir other.venv")
    undo.command("run", "echo 2 > node_modules/m/i.js; git config user.x y; echo 1 > f")
    reverted = undo.revert("run", into="revert")
    assert (reverted.restored, reverted.left) == (["f"], None)
    assert reverted.not_undone == [".git", "node_modules"]
    undo.command("other", "echo 1 > f; git log || true")
    assert undo.revert("other", into="again").not_undone is None


def test_a_run_with_an_interrupted_command_is_reverted_by_force_only(undo: Undoable) -> None:
    undo.write("run", "f", b"1")
    undo.interrupted_command("run", "echo 1 > unknown")
    (unknown,) = undo.describe("run")["notKept"]
    assert "under way or was interrupted" in unknown["reason"]  # nobody knows here which of the two
    for attempt in (undo.reverting.check, partial(undo.reverting.revert, into="refused")):
        with pytest.raises(Conflict) as refused:
            attempt("run", undo.guard)
        assert refused.value.details["paths"] == ["."]
    assert (undo.folder / "f").exists()
    reverted = undo.revert("run", into="revert", force=True)
    assert (reverted.restored, reverted.not_undone) == (["f"], ["."])


def test_what_a_revert_cannot_keep_of_the_present_is_named(tmp_path: Path) -> None:
    undo = Undoable(tmp_path / "ws", tmp_path / "state", per_file=10)
    (undo.folder / "f").write_text("old")
    undo.write("run", "f", b"x" * 11)
    undo.reverting.revert("run", undo.guard, into="revert", notice=undo.notices.append)
    assert [notice.files for notice in undo.notices] == [{"f": "it has 11 bytes, more than 10"}]
    assert [item["path"] for item in undo.describe("revert")["notKept"]] == ["f"]
    undo.close()


# -- folders on the way, and others who revert the same run


@pytest.mark.parametrize("force", [False, True])
def test_a_folder_that_a_revert_makes_again_goes_when_the_revert_is_reverted(undo: Undoable, force: bool) -> None:
    undo.command("scene", "mkdir -p d/e; echo 1 > d/e/f")
    undo.do("run", DeleteFile(path="d/e/f"))
    shutil.rmtree(undo.folder / "d")
    without = undo.tree()
    assert undo.revert("run", into="revert", force=force).restored == ["d/e/f"]
    assert paths(undo.describe("revert")) == {"d": "folder created", "d/e": "folder created", "d/e/f": "created"}
    undo.revert("revert", into="again")
    assert undo.tree() == without


def test_of_reverts_at_the_same_time_one_does_it_and_the_others_find_it_done(undo: Undoable) -> None:
    undo.command("scene", SCENE)
    before = undo.tree()
    undo.command("run", ATTACK)
    with ThreadPoolExecutor(4) as pool:
        runs = [f"revert-{number}" for number in range(4)]
        done = list(pool.map(lambda into: undo.revert("run", into=into), runs))
    assert undo.tree() == before
    assert [one.left for one in done] == [None] * 4
    assert sorted(bool(one.restored) for one in done) == [False, False, False, True]


def test_what_somebody_puts_back_meanwhile_counts_and_what_they_change_is_left(
    undo: Undoable, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in "abc":
        (undo.folder / name).write_text("old")
    undo.command("run", "for n in a b c; do echo new > $n; done")
    keep = undo.snapshots.keep

    def meanwhile(*arguments: Any) -> Any:
        kept = keep(*arguments)
        (undo.folder / "a").write_text("old")
        (undo.folder / "b").write_text("mine")
        return kept

    monkeypatch.setattr(undo.snapshots, "keep", meanwhile)
    reverted = undo.revert("run", into="revert")
    assert (reverted.restored, reverted.left) == (["a", "c"], ["b"])
    assert (undo.folder / "b").read_text() == "mine"


@pytest.mark.parametrize("scripts", [["echo new > d/f; chmod 0 d"], ["echo new > d/f", "chmod 0 d"]], ids=len)
def test_a_folder_that_the_run_closed_to_us_is_opened_and_what_is_in_it_restored(
    undo: Undoable, monkeypatch: pytest.MonkeyPatch, scripts: list[str]
) -> None:
    """Root may look anywhere, so what other users are refused is refused here."""
    undo.command("scene", "mkdir d; echo old > d/f; echo old > g")
    before = undo.tree()
    look, enter = Root.lstat, LocalFolder.enter

    def refuse(folder: str, mode: int) -> None:
        if os.stat(undo.folder / folder).st_mode & mode != mode:
            raise PermissionError(errno.EACCES, "closed")

    def looking(self: Root, path: str) -> LinkStat | None:
        refuse(os.path.dirname(path), 0o100)
        return look(self, path)

    def entering(self: LocalFolder, name: str) -> LocalFolder:
        refuse(os.path.join(self.path, name), 0o500)
        return enter(self, name)

    monkeypatch.setattr(Root, "lstat", looking)
    monkeypatch.setattr(LocalFolder, "enter", entering)
    for script in [*scripts, "echo new > g"]:
        undo.command("run", script)
    with pytest.raises(Conflict) as refused:
        undo.revert("run", into="refused")
    assert refused.value.details["paths"] == ["d/f"]
    reverted = undo.revert("run", into="revert", force=True)
    assert (reverted.restored, reverted.left) == (["d", "d/f", "g"], None)
    assert undo.tree() == before


# -- atomic runs


@pytest.mark.parametrize("survived", [0, 1, 2, 20])
def test_an_atomic_undo_that_dies_is_finished_by_the_next(
    undo: Undoable, monkeypatch: pytest.MonkeyPatch, survived: int
) -> None:
    undo.command("scene", SCENE)
    before = undo.tree()
    undo.command("run", ATTACK)
    undo.write("run", "one/two", b"1", create_directories=True)
    with dying(monkeypatch, survived):
        undo.take_back("run")
    assert undo.take_back("run").left is None
    assert undo.tree() == before
    assert undo.describe("run")["changes"] == []
    assert undo.take_back("run").restored == []


def test_an_atomic_undo_is_not_bound_by_policy_and_names_what_it_leaves(undo: Undoable) -> None:
    undo.command("scene", "mkdir shut; echo old > shut/a; echo old > data; echo old > theirs; chmod 500 shut")
    before = undo.tree()
    undo.command("run", "for f in data shut/a new.env theirs .cws-policy.json; do echo new > $f; done; rm -r shut")
    (undo.folder / "theirs").write_text("mine")
    reverted = undo.reverting.take_back("run", undo.policy(denied_paths=("*.env", "shut", "shut/**"), access="read"))
    assert reverted.left == [".cws-policy.json", "theirs"]
    after = undo.tree()
    assert {path: after.pop(path, ()) and None for path in reverted.left} and after == {
        path: was for path, was in before.items() if path != "theirs"
    }
    assert set(paths(undo.describe("run"))) == {".cws-policy.json", "theirs"}


def test_an_atomic_undo_names_what_it_cannot_know(tmp_path: Path) -> None:
    undo = Undoable(tmp_path / "ws", tmp_path / "state", per_file=10)
    undo.command("scene", "git init -q .; mkdir node_modules; echo large-enough > large")
    undo.command("run", "git config user.x y; echo 1 > node_modules/f; echo 1 > large; echo 1 > f")
    undo.interrupted_command("run", "echo 1 > g")
    run = SimpleNamespace(id="run", caller=Caller())
    undoing = Undo(undo.snapshots, undo.locks, lambda _: undo.guard)
    assert undoing.take_back(run) == [".", ".git", "large", "node_modules"]  # type: ignore[arg-type]
    assert not (undo.folder / "f").exists()
    undo.close()
