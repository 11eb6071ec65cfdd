"""Layers that wait for a decision, or to be applied after all: they do not fill the disk."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.run_workspace import PERSON, WAIT, Scene, play, types, until
from wap_kernel.engine import layered_commands
from wap_kernel.engine.effects import approval

MEGABYTE = 1024 * 1024
FILL = f"head -c {MEGABYTE} /dev/urandom > big"


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    (tmp_path / "root").mkdir()
    return Scene(tmp_path / "root", tmp_path / "state", provider="bubblewrap")


def list_layers(scene: Scene) -> list[Path]:
    return sorted((scene.state / "layers").glob("layer_*"))


@pytest.mark.parametrize("atomic", [False, True])
@pytest.mark.parametrize(
    ("name", "limit", "kept"), [("MAX_RETAINED_BYTES", 5 * MEGABYTE // 2, 2), ("MAX_RETAINED_LAYERS", 3, 3)]
)
def test_the_oldest_layers_that_were_not_applied_go(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, name: str, limit: int, kept: int, atomic: bool
) -> None:
    monkeypatch.setattr(layered_commands, name, limit)

    async def scenario(scene: Scene) -> None:
        for number in range(4):
            command = {"type": "shell", "command": f"{FILL}; touch filled-{number}; sleep 60"}
            run = await scene.start(command, atomic=atomic)
            filled = f"layer_*/upper/filled-{number}"
            await until(lambda filled=filled: bool(list((scene.state / "layers").glob(filled))))  # type: ignore[misc]
            await scene.runner.cancel(run.id, PERSON)
            await scene.runner.wait(run.id, WAIT)
        left = {path.name for path in (scene.state / "layers").glob("layer_*/upper/filled-*")}
        assert left == {f"filled-{number}" for number in range(4 - kept, 4)}

    play(scene, scenario)


def test_what_waits_for_a_person_does_not_fill_the_disk(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(approval, "MAX_RETAINED_BYTES", 5 * MEGABYTE // 2)

    async def scenario(scene: Scene) -> None:
        command = {"type": "shell", "command": f"{FILL}; rm -rf none"}
        asked = [await scene.run(command) for _ in range(3)]
        assert [message["status"] for message in asked] == ["awaiting_approval", "awaiting_approval", "completed"]
        assert "wait for a person take more than" in str(asked[2]["events"][-1])
        assert len(list_layers(scene)) == 2
        await scene.decide(asked[0]["runId"], False, approval_id=asked[0]["pendingApproval"]["approvalId"])
        again = await scene.run(command)
        assert (again["status"], types(again)) == ("awaiting_approval", ["approvalRequired"])

    play(scene, scenario)
