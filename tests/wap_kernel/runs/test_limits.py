"""Limits of what one run and one agent may store."""

from __future__ import annotations

import pytest

from tests.support.run_workspace import PERSON, Scene, create, play
from wap_kernel.model.caller import Caller
from wap_kernel.model.errors import RateLimited


def test_the_events_of_a_run_are_bounded(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wap_kernel.runs.execution.MAX_RUN_EVENT_CHARACTERS", 10_000)
    (scene.root / "big.txt").write_text("x" * 4_000)

    async def scenario(scene: Scene) -> None:
        reads = [{"type": "readFile", "path": "big.txt"} for _ in range(4)]
        message = await scene.run(*reads, create("made"))
        assert [event["success"] for event in message["events"]] == [True, True, False, False, True]
        refused = message["events"][2]
        assert refused["code"] == "SIZE_LIMIT_EXCEEDED"
        assert "another run" in refused["error"]

    play(scene, scenario)


def test_what_the_runs_of_an_agent_hold_is_bounded(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wap_kernel.runs.run_creation.MAX_PENDING_OPERATION_CHARACTERS", 1_000)
    scene.options["allow_unconfined"] = True
    agent = Caller(token="t")
    ask = {"type": "shell", "command": "rm -rf data"}

    async def scenario(scene: Scene) -> None:
        waiting = await scene.run(ask, create("a", "x" * 2_000), caller=agent)
        assert waiting["status"] == "awaiting_approval"
        with pytest.raises(RateLimited, match="not ended"):
            await scene.run(create("b"), caller=agent)
        assert (await scene.run(create("c")))["status"] == "completed", "a person is not limited"
        await scene.runner.cancel(waiting["runId"], PERSON)
        assert (await scene.run(create("b"), caller=agent))["status"] == "completed"

    play(scene, scenario)
