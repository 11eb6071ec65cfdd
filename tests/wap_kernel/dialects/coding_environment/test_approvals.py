"""Approvals by a person in Jupyter: calls that wait, are decided or withdrawn."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.support.coding_environment import CLIENT, WAIT, Coding, User, play, until
from wap_kernel.model.policy import Policy
from wap_kernel.model.run import RunStatus
from wap_kernel.policy import presets
from wap_kernel.policy.parse import merge_policy

ASKING = merge_policy(presets.load_preset("permissive"), {"shell": {"unconfined": "allow"}})
"""Allows what the tests do, and asks for recursive deletion."""
DELETE = {"command": "rm", "args": ["-r", "data"]}


def _data(coding: Coding) -> None:
    (coding.root / "data").mkdir()


@pytest.mark.parametrize("options", [{}, {"confirmed": True}])
def test_the_ask_of_a_preset_is_for_a_person_in_jupyter(coding: Coding, options: dict[str, Any]) -> None:
    _data(coding)
    coding.policy(confirmationRequired=["runCommand"])

    async def scenario(coding: Coding) -> None:
        user = User(True)
        error = await coding.refuse("runCommand", {**DELETE, "options": options}, confirm=user.confirm)
        assert error.code == -32005 and error.data["runId"] and error.data["approvalId"]
        assert "getRun" in error.data["hint"] and "the same run" in error.data["hint"] and user.asked == []
        again = await coding.refuse("runCommand", {**DELETE, "options": options}, confirm=user.confirm)
        assert again.data["runId"] == error.data["runId"], "an agent that asks again does not ask for something else"
        await coding.decide(error.data["runId"], True)
        run = await coding.call("getRun", {"runId": error.data["runId"], "wait": WAIT})
        assert run["response"]["command"] == "rm" and run["response"]["exitCode"] == 0
        assert not (coding.root / "data").exists()

    play(coding, scenario, policy=ASKING)


def test_so_is_an_administrators_confirmation(coding: Coding) -> None:
    administrator = Policy(name="administrator", confirmation_required=("runCommand",))

    async def scenario(coding: Coding) -> None:
        user = User(True)
        run = {"command": "true", "options": {"confirmed": True}}
        error = await coding.refuse("runCommand", run, confirm=user.confirm)
        assert error.data["runId"] and user.asked == []

    play(coding, scenario, policy=administrator)


@pytest.mark.parametrize("approved", [True, False])
def test_a_call_can_wait_for_the_decision(coding: Coding, approved: bool) -> None:
    _data(coding)

    async def scenario(coding: Coding) -> None:
        reports: list[str] = []

        async def progress(_: float, __: float | None, words: str) -> None:
            reports.append(words)

        waiting = asyncio.ensure_future(coding.outcome("runCommand", DELETE, wait=WAIT, progress=progress))
        await coding.decide(await coding.waiting(), approved)
        if approved:
            outcome = await waiting
            assert outcome.structured["args"] == ["-r", "data"]
        else:
            assert "denied" in str((await waiting).error)
        assert (coding.root / "data").exists() is not approved

    play(coding, scenario, policy=ASKING)


def test_a_cancelled_call_asks_nobody_any_more(coding: Coding) -> None:
    _data(coding)

    async def scenario(coding: Coding) -> None:
        waiting = asyncio.ensure_future(coding.outcome("runCommand", DELETE, wait=WAIT))
        run_id = await coding.waiting()
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert (await coding.runner.get(run_id, CLIENT)).status is RunStatus.CANCELLED
        assert (coding.root / "data").exists()

    play(coding, scenario, policy=ASKING)


@pytest.mark.parametrize("first_waits", [True, False])
def test_a_cancelled_call_leaves_the_question_to_others_who_asked_it(coding: Coding, first_waits: bool) -> None:
    _data(coding)
    other = CLIENT.model_copy(update={"session": "s2"})

    async def scenario(coding: Coding) -> None:
        first = asyncio.ensure_future(coding.outcome("runCommand", DELETE, wait=WAIT if first_waits else 0))
        run_id = await coding.waiting()
        if not first_waits:
            assert (await first).error is not None
        for _ in range(2):  # whoever asks again after having cancelled has not asked anew either
            second = asyncio.ensure_future(coding.outcome("runCommand", DELETE, caller=other, wait=WAIT))
            await until(lambda: coding.runner._pending_calls.is_shared(run_id))
            second.cancel()
            with pytest.raises(asyncio.CancelledError):
                await second
        await coding.decide(run_id, True)
        if first_waits:
            assert (await first).error is None
        else:
            await coding.call("getRun", {"runId": run_id, "wait": WAIT})
        assert not (coding.root / "data").exists()

    play(coding, scenario, policy=ASKING)


def test_whoever_waits_is_told_that_the_question_was_withdrawn(coding: Coding) -> None:
    _data(coding)

    async def scenario(coding: Coding) -> None:
        waiting = asyncio.ensure_future(coding.outcome("runCommand", DELETE, wait=WAIT))
        run_id = await coding.waiting()
        await coding.runner.cancel(run_id, CLIENT)
        error = (await waiting).error
        assert error is not None
        assert (error.code, error.data["code"], error.data["runId"]) == (-32005, "APPROVAL_REQUIRED", run_id)
        assert error.message.startswith("The run was cancelled. Nothing was done. Call again")
        again = await coding.refuse("runCommand", DELETE)
        assert again.data["runId"] != run_id

    play(coding, scenario, policy=ASKING)
