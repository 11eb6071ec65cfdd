"""Kill a process at every step of building, judging, applying and reverting a layer: nothing torn, half or lost."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.budgets import SOAK
from tests.support.kill_points import KillPoints, run_until_killed
from tests.support.run_workspace import DELETE, PERSON, WAIT, Scene, create, play
from wap_kernel.files.contained import atomic_write
from wap_kernel.model.run import Run, RunStatus
from wap_kernel.runs import recovery

STRIDE = 1 if SOAK else 6
"""In `make test` every so many points are tried."""
MOST_POINTS = 400

Tree = dict[str, str]
pytestmark = pytest.mark.soak


def shell(command: str, **more: Any) -> dict[str, Any]:
    return {"type": "shell", "command": command, **more}


CHANGES = (
    "echo 2 >> f; rm gone; mkdir -p new/deep; echo n > new/deep/n; mv d e; chmod 600 mode; ln -s f link; rm -f x/*"
)
OPERATIONS = [
    create("made", "made"),
    {"type": "editFile", "path": "f", "edits": [{"oldContent": "1", "newContent": "one"}]},
    shell(CHANGES),
]


class Place:
    """A workspace that is made anew for every kill."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.scene = Scene(folder / "ws", folder / "state", provider="bubblewrap")

    def reset(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
        root = self.scene.root
        for folder in ("d/sub", "x", "data"):
            (root / folder).mkdir(parents=True)
        for name in ("f", "gone", "mode", "d/one", "d/sub/two", "x/1", "x/2", "data/x.txt"):
            (root / name).write_text("1\n")

    def tree(self) -> Tree:
        found = sorted(self.scene.root.rglob("*"))
        return {
            str(path.relative_to(self.scene.root)): _describe(path)
            for path in found
            if not atomic_write.is_temporary(path.name)
        }

    def leftovers(self) -> list[str]:
        return [path.name for path in self.scene.root.rglob("*") if atomic_write.is_temporary(path.name)]


def _describe(path: Path) -> str:
    if path.is_symlink():
        return f"-> {path.readlink()}"
    return f"{path.stat().st_mode:o} {path.read_text() if path.is_file() else ''}"


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path / "place")


def kill_everywhere(
    place: Place, prepare: Callable[[], None], act: Callable[[KillPoints], None], check: Callable[[int], None]
) -> int:
    """Kill `act` at its points, and `check` in a new process each time; return the number of points."""
    offset = 0 if SOAK else len(place.folder.parent.name) % STRIDE
    for number in range(offset, MOST_POINTS, STRIDE):
        place.reset()
        prepare()
        is_done = run_until_killed(act, number)
        check(number)
        if is_done:
            return number
    raise AssertionError("the work does not end")


async def recover(scene: Scene) -> list[Run]:
    """All runs as the next process finds them, newest first; it also sweeps the layers."""
    runs, _ = await scene.runner.page(PERSON, None, 50, None)
    recovery.sweep_layers(scene.runner._services)
    return runs


async def revert(scene: Scene, run_id: str) -> None:
    reverting = await scene.runner.wait((await scene.runner.revert(run_id, PERSON)).id, WAIT)
    assert reverting.status is RunStatus.COMPLETED, await scene.message(reverting)


def check_layers(scene: Scene) -> None:
    """One whose making was not ended is removed a minute later."""
    assert list((scene.state / "layers").glob("layer_*/layer.json")) == [], "a layer is left"


def find_goal(place: Place, *operations: dict[str, Any], **options: Any) -> tuple[Tree, Tree]:
    """The tree before and after what is done when nothing is killed."""
    place.reset()
    before = place.tree()

    async def scenario(scene: Scene) -> None:
        message = await scene.run(*operations, **options)
        assert message["status"] == "completed", message

    play(place.scene, scenario)
    return before, place.tree()


@pytest.mark.parametrize("is_atomic", [True, False], ids=["atomic", "single"])
def test_a_kill_leaves_a_run_applied_whole_or_not_at_all(place: Place, is_atomic: bool) -> None:
    operations = OPERATIONS if is_atomic else OPERATIONS[-1:]
    before, after = find_goal(place, *operations, atomic=is_atomic)
    assert before != after
    ends: list[RunStatus] = []

    def act(points: KillPoints) -> None:
        points.is_armed = False

        async def scenario(scene: Scene) -> None:
            points.is_armed = True
            await scene.run(*operations, atomic=is_atomic)
            points.is_armed = False

        play(place.scene, scenario)

    def check(number: int) -> None:
        async def scenario(scene: Scene) -> None:
            runs = await recover(scene)
            found = place.tree()
            assert found in (before, after), f"half of it after {number} points"
            assert place.leftovers() == []
            if not runs:
                assert found == before
                return
            (run,) = runs
            assert run.status.is_final
            ends.append(run.status)
            if is_atomic or run.status is RunStatus.COMPLETED:
                assert (run.status is RunStatus.COMPLETED) == (found == after), f"after {number} points"
            if found == after:
                await revert(scene, run.id)
                assert place.tree() == before

        play(place.scene, scenario)
        check_layers(place.scene)

    assert kill_everywhere(place, lambda: None, act, check) > 20
    assert {RunStatus.ERROR, RunStatus.COMPLETED} <= set(ends)


def test_a_kill_after_a_decision_leaves_a_run_applied_whole_or_not_at_all(place: Place) -> None:
    place.reset()
    before, asked = place.tree(), list[str]()

    def prepare() -> None:
        async def ask(scene: Scene) -> None:
            asked.append((await scene.run(create("made"), DELETE, create("last"), atomic=True))["runId"])

        play(place.scene, ask)

    def act(points: KillPoints) -> None:
        points.is_armed = False

        async def decide(scene: Scene) -> None:
            points.is_armed = True
            await scene.decide(asked[-1], True)
            points.is_armed = False

        play(place.scene, decide)

    def check(number: int) -> None:
        async def scenario(scene: Scene) -> None:
            (run,) = await recover(scene)
            found = place.tree()
            assert found in (before, after), f"half of it after {number} points"
            if run.status is RunStatus.AWAITING_APPROVAL:
                assert found == before
                assert (await scene.decide(run.id, True))["status"] == "completed"
                assert place.tree() == after
            else:
                assert (run.status is RunStatus.COMPLETED) == (found == after)

        play(place.scene, scenario)
        check_layers(place.scene)

    kept = {path: text for path, text in before.items() if not path.startswith("data")}
    after = dict(sorted({**kept, "made": "100644 new", "last": "100644 new"}.items()))
    assert kill_everywhere(place, prepare, act, check) > 10


def test_a_kill_in_a_revert_loses_nothing_and_a_second_revert_ends_it(place: Place) -> None:
    before, after = find_goal(place, *OPERATIONS, atomic=True)
    done: list[str] = []

    def prepare() -> None:
        async def scenario(scene: Scene) -> None:
            done.append((await scene.run(*OPERATIONS, atomic=True))["runId"])

        play(place.scene, scenario)
        assert place.tree() == after

    def act(points: KillPoints) -> None:
        points.is_armed = False

        async def scenario(scene: Scene) -> None:
            points.is_armed = True
            await revert(scene, done[-1])
            points.is_armed = False

        play(place.scene, scenario)

    def check(_: int) -> None:
        async def scenario(scene: Scene) -> None:
            runs = await recover(scene)
            assert all(run.status.is_final for run in runs)
            assert place.leftovers() == []
            await revert(scene, done[-1])
            assert place.tree() == before

        play(place.scene, scenario)

    assert kill_everywhere(place, prepare, act, check) > 10


def test_a_person_who_changed_a_file_before_the_recovery_keeps_it_and_nothing_is_half(place: Place) -> None:
    """What an atomic run had applied of it is taken back, and the conflict is named."""
    before, after = find_goal(place, *OPERATIONS, atomic=True)
    seen: list[str] = []

    def act(points: KillPoints) -> None:
        points.is_armed = False

        async def scenario(scene: Scene) -> None:
            points.is_armed = True
            await scene.run(*OPERATIONS, atomic=True)
            points.is_armed = False

        play(place.scene, scenario)

    def check(number: int) -> None:
        (place.scene.root / "f").write_text("person")

        async def scenario(scene: Scene) -> None:
            runs = await recover(scene)
            found = place.tree()
            assert found.pop("f", "").endswith("person")
            rest = [{path: text for path, text in tree.items() if path != "f"} for tree in (before, after)]
            assert found in rest, f"half of it after {number} points"
            for run in runs:
                assert (run.status is RunStatus.COMPLETED) == (found == rest[1])
                events = (await scene.message(await scene.runner.get(run.id, PERSON)))["events"]
                if run.status is RunStatus.ERROR and "conflicts" in events[-1].get("details", {}):
                    seen.append(events[-1]["details"]["conflicts"])

        play(place.scene, scenario)

    kill_everywhere(place, lambda: None, act, check)
    assert ["f"] in seen
