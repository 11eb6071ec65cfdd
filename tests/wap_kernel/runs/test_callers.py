"""Runs of agents and people: an agent sees its own runs only, and admission limits it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tests.support.run_workspace import PERSON, Scene, create, play
from wap_kernel.model.caller import Caller
from wap_kernel.model.errors import NotFound, RateLimited
from wap_kernel.model.operations import Operation, RunCommand


def test_an_agent_sees_its_own_runs_only(scene: Scene) -> None:
    async def scenario(scene: Scene) -> None:
        mine, other = Caller(token="one"), Caller(token="two")
        run_id = (await scene.run(create("a"), caller=mine))["runId"]
        assert (await scene.runner.get(run_id, mine)).id == run_id
        assert (await scene.runner.get(run_id, PERSON)).id == run_id
        for question in (
            scene.runner.get(run_id, other),
            scene.runner.cancel(run_id, other),
            scene.runner.revert(run_id, other),
            scene.runner.changes(run_id, other),
            scene.runner.output(run_id, "op-1", "stdout", 0, 10, other),
        ):
            with pytest.raises(NotFound):
                await question
        assert (await scene.runner.page(other, None, 10, None))[0] == []
        assert len((await scene.runner.page(PERSON, None, 10, None))[0]) == 1

    play(scene, scenario)


def test_operations_that_are_not_admitted_fail_alone(scene: Scene) -> None:
    @asynccontextmanager
    async def admit(caller: Caller, operation: Operation) -> AsyncIterator[None]:
        if isinstance(operation, RunCommand):
            raise RateLimited("Slower.", retryAfterMs=1000)
        yield

    async def scenario(scene: Scene) -> None:
        shell = {"type": "shell", "command": "touch never"}
        message = await scene.run(create("a"), shell, create("b"), caller=Caller(token="one"))
        assert message["status"] == "completed"
        assert [event["success"] for event in message["events"]] == [True, False, True]
        assert message["events"][1]["code"] == "RATE_LIMITED"
        assert not (scene.root / "never").exists()

    play(scene, scenario, admission=admit)


def test_who_asks_is_listed_without_credentials(scene: Scene) -> None:
    secret = "ghp_" + 36 * "a"

    async def scenario(scene: Scene) -> None:
        await scene.run(create("a"), caller=Caller(user=f"ada {secret}", agent=f"copilot {secret}"))
        page, _ = await scene.runner.page(PERSON, None, 10, None)
        (listed,) = await scene.runner.summaries(page, PERSON)
        assert (listed["user"][:3], listed["agent"][:7]) == ("ada", "copilot")
        assert secret not in str(listed)

    play(scene, scenario)
