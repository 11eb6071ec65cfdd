"""The sweep of layers: those of dead processes go, those in use or needed by a run stay, others go after a day."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.support.run_workspace import DELETE, PERSON, WAIT, Scene, create, play, until
from wap_kernel.model.limits import LAYER_RETENTION_SECONDS
from wap_kernel.model.run import RunStatus
from wap_kernel.runs import recovery

PROJECT = Path(__file__).parents[3]


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    (tmp_path / "ws" / "data").mkdir(parents=True)
    (tmp_path / "ws" / "data" / "x.txt").write_text("x")
    (tmp_path / "ws" / "go").write_text("")
    return Scene(tmp_path / "ws", tmp_path / "state", provider="bubblewrap")


def shell(command: str, **more: Any) -> dict[str, Any]:
    return {"type": "shell", "command": command, **more}


def list_layers(scene: Scene) -> list[Path]:
    return sorted((scene.state / "layers").glob("layer_*"))


def sweep(scene: Scene) -> None:
    recovery.sweep_layers(scene.runner._services)


def age(scene: Scene, seconds: float) -> None:
    for layer in list_layers(scene):
        os.utime(layer, (time.time() - seconds,) * 2)


KILLED = """
import asyncio, os, signal, sys
from pathlib import Path
from tests.support.run_workspace import PERSON, Scene, create, play, until

folder = Path(sys.argv[1])
scene = Scene(folder / "ws", folder / "state", provider="bubblewrap")

async def scenario(scene):
    command = {"type": "shell", "command": "touch begun; sleep 60"}
    for options in ({}, {"atomic": True}, {"dryRun": True}):
        await scene.start(create(f"made-{len(options)}-{'atomic' in options}"), command, **options)
    await until(lambda: len(list((folder / "state" / "layers").glob("layer_*/upper/begun"))) == 3)
    os.kill(os.getpid(), signal.SIGKILL)

play(scene, scenario)
"""


def test_what_a_killed_server_left_is_removed(scene: Scene, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", KILLED, str(tmp_path)],
        cwd=PROJECT,
        env={**os.environ, "PYTHONPATH": str(PROJECT)},
        timeout=WAIT,
        check=False,
        capture_output=True,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr.decode()
    assert len(list_layers(scene)) == 3

    async def scenario(scene: Scene) -> None:
        runs, _ = await scene.runner.page(PERSON, None, 10, None)
        assert [run.status for run in runs] == [RunStatus.ERROR] * 3
        sweep(scene)

    play(scene, scenario)
    assert list_layers(scene) == []
    assert scene.tree() == {"data": None, "data/x.txt": "x", "go": "", "made-0-False": "new"}


@pytest.mark.parametrize("options", [{}, {"atomic": True}], ids=["single", "atomic"])
def test_a_layer_in_use_stays_whoever_sweeps(scene: Scene, options: dict[str, Any]) -> None:
    wait = "echo y > made; touch begun; until [ -s go ]; do sleep 0.01; done"

    async def scenario() -> None:
        neighbour = Scene(scene.root, scene.state, provider="bubblewrap")
        async with scene.opened(), neighbour.opened():
            run = await scene.start(shell(wait), **options)
            await until(lambda: any((scene.state / "layers").glob("*/upper/begun")))
            age(scene, 10 * LAYER_RETENTION_SECONDS)
            for each in (scene, neighbour):
                await asyncio.to_thread(sweep, each)
            (scene.root / "go").write_text("now")
            assert (await scene.runner.wait(run.id, WAIT)).status is RunStatus.COMPLETED
        assert (scene.root / "made").read_text() == "y\n"

    asyncio.run(scenario())
    assert list_layers(scene) == []


@pytest.mark.parametrize("options", [{}, {"atomic": True}], ids=["single", "atomic"])
def test_the_layer_of_a_pending_approval_stays_until_the_run_has_ended(scene: Scene, options: dict[str, Any]) -> None:
    asked: list[str] = []

    async def ask(scene: Scene) -> None:
        asked.append((await scene.run(create("made"), DELETE, **options))["runId"])

    async def decide(scene: Scene) -> None:
        age(scene, 10 * LAYER_RETENTION_SECONDS)
        sweep(scene)
        assert len(list_layers(scene)) == 1
        await scene.runner.cancel(asked[0], PERSON)
        sweep(scene)

    play(scene, ask)
    play(scene, decide)
    if options:  # what a cancelled run changed can still be applied
        assert len(list_layers(scene)) == 1
    else:
        assert list_layers(scene) == []


def test_what_can_still_be_applied_goes_after_a_day(scene: Scene) -> None:
    async def scenario(scene: Scene) -> None:
        run = await scene.start(shell("touch begun; sleep 60"))
        await until(lambda: any((scene.state / "layers").glob("*/upper/begun")))
        await scene.runner.cancel(run.id, PERSON)
        age(scene, LAYER_RETENTION_SECONDS - 3600)
        sweep(scene)
        assert len(list_layers(scene)) == 1
        age(scene, LAYER_RETENTION_SECONDS + 3600)
        sweep(scene)
        applied = await scene.runner.apply(run.id, None, PERSON)
        message = await scene.message(await scene.runner.wait(applied.id, WAIT))
        assert message["events"][-1]["code"] == "NOT_FOUND"

    play(scene, scenario)
    assert list_layers(scene) == []


def test_a_layer_whose_run_is_about_to_be_stored_stays(scene: Scene) -> None:
    """A call that asks is stored as a run after its command has run on the layer."""

    async def scenario(scene: Scene) -> None:
        asked = await scene.run(DELETE)
        database = scene.runner.workspace.database
        database.write(lambda connection: connection.execute("DELETE FROM runs WHERE id = ?", (asked["runId"],)))
        sweep(scene)
        assert len(list_layers(scene)) == 1
        age(scene, 3600)
        sweep(scene)
        assert list_layers(scene) == []

    play(scene, scenario)


def test_without_layers_there_is_nothing_to_sweep(scene: Scene) -> None:
    scene.options["provider"] = "local"

    async def scenario(scene: Scene) -> None:
        sweep(scene)

    play(scene, scenario)
