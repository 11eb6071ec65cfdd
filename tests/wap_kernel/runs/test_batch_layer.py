"""The one layer of an atomic or simulated run: kept through pauses and restarts, applied whole, or gone."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

from tests.support.run_workspace import DELETE, PERSON, WAIT, Scene, create, play, types, until
from wap_kernel.model.errors import Conflict, NotFound, ProviderUnavailable
from wap_kernel.model.run import RunStatus
from wap_kernel.policy import presets
from wap_kernel.providers.layers.layer import Layer, LayerStore
from wap_kernel.runs.batch_layer import BatchLayer, find_batch_layer, open_batch_files


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    (tmp_path / "ws" / "data").mkdir(parents=True)
    (tmp_path / "ws" / "data" / "x.txt").write_text("x")
    return Scene(tmp_path / "ws", tmp_path / "state", provider="bubblewrap")


def shell(command: str, **more: Any) -> dict[str, Any]:
    return {"type": "shell", "command": command, **more}


def list_layers(scene: Scene) -> list[str]:
    return sorted(name for name in os.listdir(scene.state / "layers") if name.startswith("layer_"))


BEFORE = {"data": None, "data/x.txt": "x"}


@pytest.mark.parametrize("option", ["atomic", "dryRun"])
def test_where_a_layer_cannot_be_mounted_nothing_is_written(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, option: str
) -> None:
    """Also not by the steps after the first one."""

    def fail(_: Layer) -> int:
        raise ProviderUnavailable("The layer could not be mounted.")

    monkeypatch.setattr(Layer, "hold", fail)

    async def scenario(scene: Scene) -> None:
        message = await scene.run(create("a"), create("b"), create("c"), **{option: True})
        assert not any(event.get("success") for event in message["events"])

    play(scene, scenario)
    assert (scene.tree(), list_layers(scene)) == (BEFORE, [])


def test_an_atomic_run_whose_layer_is_gone_fails_and_changes_nothing(scene: Scene) -> None:
    async def scenario(scene: Scene) -> None:
        message = await scene.run(create("a"), DELETE, create("b"), atomic=True)
        (name,) = list_layers(scene)
        scene.runner.workspace.discard_layer(name)
        with pytest.raises(NotFound):
            await scene.decide(message["runId"], True)
        denied = await scene.decide(message["runId"], False)
        assert denied["status"] == "error"

    play(scene, scenario)
    assert scene.tree() == BEFORE


def test_several_atomic_runs_are_decided_at_the_same_time_each_with_its_own_layer(scene: Scene) -> None:
    count = 6

    async def scenario(scene: Scene) -> None:
        asked = [
            await scene.run(
                create(f"made-{number}"),
                shell(f"mkdir t; rm -r t; cat made-{number} > seen-{number}", id="delete"),
                create(f"last-{number}"),
                atomic=True,
            )
            for number in range(count)
        ]
        assert {message["status"] for message in asked} == {"awaiting_approval"}
        assert len(list_layers(scene)) == count
        done = await asyncio.gather(*(scene.decide(message["runId"], True) for message in asked))
        assert [message["status"] for message in done] == ["completed"] * count

    play(scene, scenario)
    assert list_layers(scene) == []
    made = {f"{name}-{number}": "new" for name in ("made", "seen", "last") for number in range(count)}
    assert scene.tree() == {**BEFORE, **made}


def test_two_decisions_at_the_same_time_are_one(scene: Scene) -> None:
    async def scenario(scene: Scene) -> None:
        asked = await scene.run(create("made"), DELETE, atomic=True)
        decided = await asyncio.gather(*(scene.decide(asked["runId"], True) for _ in range(4)), return_exceptions=True)
        assert sum(isinstance(each, Conflict) for each in decided) == 3, decided
        assert (await scene.runner.get(asked["runId"], PERSON)).status is RunStatus.COMPLETED

    play(scene, scenario)
    assert (scene.tree(), list_layers(scene)) == ({"made": "new"}, [])


def test_a_run_on_a_layer_does_not_go_on_without_layers(scene: Scene) -> None:
    """The server was started with another provider meanwhile."""
    asked: list[str] = []

    async def ask(scene: Scene) -> None:
        asked.append((await scene.run(create("made"), DELETE, create("last"), atomic=True))["runId"])

    async def decide(scene: Scene) -> None:
        with pytest.raises(ProviderUnavailable, match="layer"):
            await scene.decide(asked[0], True)
        assert (await scene.runner.get(asked[0], PERSON)).status is RunStatus.AWAITING_APPROVAL
        denied = await scene.decide(asked[0], False)
        assert (denied["status"], types(denied)[-1]) == ("error", "error")

    play(scene, ask)
    scene.options["provider"] = "local"
    play(scene, decide)
    assert scene.tree() == BEFORE


def test_a_run_that_began_without_layers_goes_on_without_them(scene: Scene) -> None:
    asked: list[str] = []
    scene.options |= {"provider": "local", "policy": presets.load_preset("standard")}

    async def ask(scene: Scene) -> None:
        file = create(".vscode/tasks.json", id="delete")
        asked.append((await scene.run(create("made"), file, create("last"), atomic=True))["runId"])

    async def decide(scene: Scene) -> None:
        assert (await scene.decide(asked[0], True))["status"] == "completed"
        await scene.runner.wait((await scene.runner.revert(asked[0], PERSON)).id, WAIT)

    play(scene, ask)
    assert (scene.root / "made").exists()
    scene.options["provider"] = "bubblewrap"
    play(scene, decide)
    assert scene.tree() == BEFORE


@pytest.mark.parametrize("how", ["cancelled", "stopped"])
def test_a_dry_run_that_is_ended_leaves_no_layer(scene: Scene, how: str) -> None:
    async def scenario(scene: Scene) -> None:
        run = await scene.start(create("made"), shell("touch begun; sleep 60"), dryRun=True)
        await until(lambda: any((scene.state / "layers").glob("*/upper/begun")))
        if how == "cancelled":
            await scene.runner.cancel(run.id, PERSON)
            assert list_layers(scene) == []

    play(scene, scenario)
    assert (scene.tree(), list_layers(scene)) == (BEFORE, [])


def test_the_files_of_a_run_that_waits_are_those_of_its_layer(scene: Scene) -> None:
    async def scenario(scene: Scene) -> None:
        asked = await scene.run(create("made", "first"), DELETE, atomic=True)
        run, workspace = await scene.runner.get(asked["runId"], PERSON), scene.runner.workspace
        with open_batch_files(workspace, run) as files:
            assert files is not None
            with files.open("made") as file:
                assert file.read() == b"first"
            assert files.lstat("data") is None
        batch = find_batch_layer(workspace, run)
        assert isinstance(batch, BatchLayer)
        layer = batch.open()
        assert batch.open() is layer
        batch.release()
        plain = await scene.run(create("plain"))
        with open_batch_files(workspace, await scene.runner.get(plain["runId"], PERSON)) as files:
            assert files is None

    play(scene, scenario)


def test_a_layer_is_made_by_the_first_step_only(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []
    make = LayerStore.create

    def counted(self: LayerStore) -> Layer:
        layer = make(self)
        made.append(layer.id)
        return layer

    monkeypatch.setattr(LayerStore, "create", counted)

    async def scenario(scene: Scene) -> None:
        await scene.run(create("a"), shell("cat a > b"), create("c"), shell("cat c > d"), atomic=True)

    play(scene, scenario)
    assert len(made) == 1
    assert scene.tree().keys() == {*BEFORE, "a", "b", "c", "d"}
