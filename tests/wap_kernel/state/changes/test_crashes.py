"""kill -9 and a full disk at every step: afterwards all or nothing, nothing torn and nothing lost."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.budgets import choose_budget
from tests.support.change_workspace import ChangeWorkspace, Layered, make_state_folder, read_tree
from wap_kernel.model.errors import NoSpace
from wap_kernel.model.operations import DeleteFile, MoveFile, WriteFile

Tree = dict[str, tuple[Any, ...]]
STRIDE = choose_budget(suite=3, soak=1)
"""In `make test` every third step is the last one, in each test another third."""

pytestmark = pytest.mark.soak
SMALL = """
mkdir -p d/e; echo a > a; echo b > b; echo x > d/e/x; echo y > d/y; ln -s a l; mkdir gone; echo g > gone/g
git init -q --template=; git -c user.name=n -c user.email=e commit -q --allow-empty -m first
"""
CHANGES = """
echo A > a; rm b; echo new > new; mkdir t; echo t > t/t; rm -r gone; rm d/y; mkdir d/y; echo z > d/y/z; chmod 700 d
ln -sfn new l; touch -d 2001-01-01 d/e/x; chmod 711 .
git -c user.name=n -c user.email=e commit -q --allow-empty -m second
"""
FEW_CHANGES = "echo A > a; rm b; echo new > new; rm -r gone; chmod 700 d; ln -sfn new l; touch -d 2001-01-01 d/e/x"
MOVES = "mv d q; mkdir p; mv q/e p/f; mv gone d; echo m > p/f/x"


@pytest.fixture(params=["near", "far"])
def state(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """The state folder, on the workspace's filesystem or on another one."""
    with make_state_folder(tmp_path, is_far=request.param == "far") as folder:
        yield folder


class Killer:
    """Kills the process after so many steps, counted while it is armed."""

    def __init__(self, survived: int) -> None:
        self.left = survived
        self.is_armed = True

    def __call__(self, step: str) -> None:
        if not self.is_armed:
            return
        if self.left == 0:
            os._exit(9)
        self.left -= 1


def run_in_child(work: Callable[[], None]) -> int:
    """Do the work in a process of its own, and return its exit code."""
    child = os.fork()
    if child == 0:
        try:
            work()
        except BaseException:  # noqa: BLE001 - the parent sees the exit code
            import traceback

            traceback.print_exc()
            os._exit(3)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def reset(folder: Path, state: Path, template: Path) -> None:
    for path in (folder, state):
        shutil.rmtree(path, ignore_errors=True)
    shutil.copytree(template, folder, symlinks=True)


def kill_at_every_step(
    tmp_path: Path, state: Path, act: Callable[[ChangeWorkspace], None], check: Callable[[ChangeWorkspace], None]
) -> int:
    """Kill a process that does `act` after each of its steps, and `check` what another one finds; return the steps."""
    folder, template = tmp_path / "w", tmp_path / "template"
    for survived in range(len(tmp_path.name) % STRIDE, 1000, STRIDE):
        reset(folder, state, template)

        def work(survived: int = survived) -> None:
            killer = Killer(survived)
            act(ChangeWorkspace(folder, state, step=killer))

        code = run_in_child(work)
        assert code in (0, 9), code
        workspace = ChangeWorkspace(folder, state)
        log = workspace.history.log
        workspace.lease.remove_leftovers(lambda name, path, log=log: log.is_staged(name) or _remove(folder / path))
        check(workspace)
        workspace.close()
        if code == 0:
            return survived
    raise AssertionError("the work does not end")


def _remove(path: Path) -> bool:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
    return True


@pytest.fixture
def template(tmp_path: Path, state: Path) -> Tree:
    workspace = ChangeWorkspace(tmp_path / "template", tmp_path / "template-state")
    workspace.run_directly(SMALL)
    workspace.close()
    return workspace.tree()


@pytest.mark.parametrize(("script", "atomic"), [(CHANGES, True), (MOVES, False)])
def test_a_kill_while_changes_are_applied_leaves_all_or_nothing(
    tmp_path: Path, state: Path, template: Tree, script: str, atomic: bool
) -> None:
    goal: list[Tree] = []

    def act(workspace: ChangeWorkspace) -> None:
        workspace.command("r", script, atomic=atomic)

    def check(workspace: ChangeWorkspace) -> None:
        workspace.history.recover("r")
        now = workspace.tree()
        if workspace.history.log.read("r"):
            goal.append(_without_git(now))
            assert goal[0] == goal[-1]
            assert workspace.revert("r", "R").left is None
            assert workspace.tree() == template
        assert _without_git(workspace.tree()) == _without_git(template)
        assert workspace.history.log.read_unfinished("r") == []
        assert workspace.history.log.read_applies("r") == []

    steps = kill_at_every_step(tmp_path, state, act, check)
    assert steps > 15
    assert goal and goal[0] != _without_git(template)


def _without_git(tree: Tree) -> Tree:
    """Leave out what has a time or a random name in it."""
    return {path: entry for path, entry in tree.items() if not path.startswith(".git/")}


def test_a_kill_while_a_run_is_reverted_can_be_repeated(tmp_path: Path, state: Path, template: Tree) -> None:
    def act(workspace: ChangeWorkspace) -> None:
        killer = workspace.history.step
        assert isinstance(killer, Killer)
        killer.is_armed = False
        workspace.command("r", CHANGES)
        killer.is_armed = True
        workspace.revert("r", "R")

    def check(workspace: ChangeWorkspace) -> None:
        workspace.history.recover("R")
        assert workspace.revert("r", "R2").left is None
        assert workspace.tree() == template

    assert kill_at_every_step(tmp_path, state, act, check) > 20


def test_a_kill_in_a_file_operation_leaves_old_or_new(tmp_path: Path, state: Path, template: Tree) -> None:
    operations = [
        WriteFile(path="a", content=b"new"),
        WriteFile(path="deep/er/file", content=b"new", create_directories=True),
        WriteFile(path="a", content=b"more", mode="append"),
        MoveFile(source="a", destination="d/y", overwrite=True),
        DeleteFile(path="d", recursive=True),
        DeleteFile(path="b"),
    ]

    def act(workspace: ChangeWorkspace) -> None:
        for operation in operations:
            workspace.do("r", operation)

    def check(workspace: ChangeWorkspace) -> None:
        workspace.history.recover("r")
        assert workspace.history.log.read_unfinished("r") == []
        assert workspace.leftovers() == []
        assert workspace.revert("r", "R").left is None
        assert workspace.tree() == template

    assert kill_at_every_step(tmp_path, state, act, check) > 30


@pytest.mark.parametrize("survived", range(4))
@pytest.mark.parametrize("kind", ["file", "folder"])
def test_a_kill_within_an_exchange_in_steps_leaves_old_or_new(tmp_path: Path, survived: int, kind: str) -> None:
    """Die between the renames where a filesystem has no exchange."""
    folder, state = tmp_path / "w", tmp_path / "state"
    folder.mkdir()
    (folder / "a").write_text("old")
    script = "echo new > a" if kind == "file" else "rm a; mkdir a; echo new > a/new"
    template = read_tree(folder)

    def work() -> None:
        workspace = ChangeWorkspace(folder, state, use_exchange=False)
        layer = workspace.run_on_layer(script)
        left = [survived]
        for name in ("link", "rename"):
            call = getattr(os, name)

            def count(*arguments: Any, call: Any = call, **more: Any) -> None:
                if str(arguments[1]).endswith("-old.tmp") or str(arguments[1]) == "a" or left[0] < survived:
                    if left[0] == 0:
                        os._exit(9)
                    left[0] -= 1
                call(*arguments, **more)

            setattr(os, name, count)
        workspace.apply("r", layer)

    assert run_in_child(work) in (0, 9)
    workspace = ChangeWorkspace(folder, state, use_exchange=False)
    workspace.history.recover("r")
    assert workspace.leftovers() == []
    assert workspace.history.log.read("r") and (folder / "a").exists()
    assert workspace.revert("r", "R").left is None
    assert workspace.tree() == template
    workspace.close()


class FullDisk:
    """Raises ENOSPC after so many steps, once."""

    def __init__(self, survived: int) -> None:
        self.left = survived
        self.has_raised = False

    def __call__(self, step: str) -> None:
        if step in ("rolling back", "unmade", "exchanged back", "finished"):
            return
        if self.left == 0:
            self.left = -1
            self.has_raised = True
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self.left -= 1


def test_a_full_disk_at_any_step_of_applying_leaves_the_workspace_as_before(
    tmp_path: Path, state: Path, template: Tree
) -> None:
    folder = tmp_path / "w"
    for survived in range(len(tmp_path.name) % STRIDE, 1000, STRIDE):
        reset(folder, state, tmp_path / "template")
        disk = FullDisk(survived)
        workspace = ChangeWorkspace(folder, state, step=disk)
        layer: Layered = workspace.run_on_layer(CHANGES)
        try:
            workspace.apply("r", layer)
        except NoSpace:
            assert disk.has_raised
            workspace.history.recover("r")
            assert workspace.tree() == template
            # The renames back count as changes since the layer began, so a person has to confirm.
            confirmed = [change.path for change in layer.read()]
            assert workspace.apply("r2", layer, overwrite=confirmed).conflicts == ()
            assert (folder / "d/y/z").read_text() == "z\n"
        workspace.close()
        if not disk.has_raised:
            assert survived > 20
            return
    raise AssertionError("the work does not end")


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts a filesystem")
def test_a_workspace_that_is_really_full_is_left_as_it_is(tmp_path: Path) -> None:
    """Fill a small filesystem that has the workspace, with the state elsewhere: the copies do not fit."""
    import subprocess
    import sys

    program = f"""
import os, subprocess, sys
from pathlib import Path
from tests.support.budgets import choose_budget
from tests.support.change_workspace import ChangeWorkspace
from wap_kernel.model.errors import NoSpace
small = Path({str(tmp_path)!r}) / "small"; small.mkdir()
subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(small)], check=True)
workspace = ChangeWorkspace(small / "w", Path({str(tmp_path)!r}) / "state")
workspace.run_directly("echo a > a; head -c 1000000 /dev/zero > big")
before = workspace.tree()
try:
    workspace.command("r", "echo A > a; rm big; for i in 1 2 3 4 5; do head -c 1000000 /dev/zero > n$i; done")
except NoSpace:
    assert workspace.tree() == before, workspace.leftovers()
    print("as before")
"""
    found = subprocess.run(
        ["unshare", "-m", sys.executable, "-c", program], capture_output=True, text=True, cwd=Path(__file__).parents[4]
    )
    assert found.stdout == "as before\n", found.stderr


def test_a_revert_on_a_full_disk_is_an_error_at_any_step(tmp_path: Path, state: Path) -> None:
    disk = FullDisk(-1)
    workspace = ChangeWorkspace(tmp_path / "w", state, step=disk)
    workspace.run_directly(SMALL)
    before = workspace.tree()
    for survived in range(1000):
        workspace.command(f"r{survived}", FEW_CHANGES)
        disk.left, disk.has_raised = survived, False
        try:
            workspace.revert(f"r{survived}", f"R{survived}")
        except NoSpace:
            assert disk.has_raised
            workspace.history.recover(f"R{survived}")
            assert workspace.revert(f"r{survived}", f"again{survived}").left is None
        assert workspace.tree() == before == read_tree(tmp_path / "w")
        if not disk.has_raised:
            assert survived > 20
            workspace.close()
            return
    raise AssertionError("the work does not end")
