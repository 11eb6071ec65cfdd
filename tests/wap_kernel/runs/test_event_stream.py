"""Streams of events that resume with an id which this run, or this state folder, never sent."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

import pytest

from tests.support.run_workspace import PERSON, WAIT, Scene, create, play
from wap_kernel.model.errors import InvalidArgument
from wap_kernel.runs.event_stream import StreamEvent

NEVER_SENT = ["999999999999999999", "999999999999999999-0-7-7", "0-999999999-5-5"]


async def _all(events: AsyncGenerator[StreamEvent, None]) -> list[StreamEvent]:
    return [live async for live in events]


def test_an_id_of_another_run_leaves_nothing_out(scene: Scene) -> None:
    async def scenario(scene: Scene) -> None:
        shell = {"type": "shell", "command": "echo some; echo more >&2"}
        runs = [(await scene.run(create(name), shell))["runId"] for name in ("a", "b")]
        first, second = [await _all(scene.runner.stream_events(run, None, PERSON)) for run in runs]
        assert [live.name for live in first] == ["status", "event", "output", "output", "event", "status"]
        for foreign in (second[0].id, second[-1].id, *NEVER_SENT):
            assert await _all(scene.runner.stream_events(runs[0], foreign, PERSON)) == first, foreign
        for number, live in enumerate(first):
            assert await _all(scene.runner.stream_events(runs[0], live.id, PERSON)) == first[number + 1 :]

    play(scene, scenario)


def test_an_id_from_before_the_state_began_anew_does_not_make_deaf(scene: Scene) -> None:
    async def scenario(scene: Scene) -> None:
        before = (await scene.run(create("a")))["runId"]
        everything = await scene.runner.stream_all_events(NEVER_SENT[0], PERSON)
        told = [await asyncio.wait_for(anext(everything), WAIT) for _ in range(3)]
        assert {live.data["runId"] for live in told} == {before}
        after = (await scene.run(create("b")))["runId"]
        assert (await asyncio.wait_for(anext(everything), WAIT)).data["runId"] == after
        await everything.aclose()
        last = await scene.runner.stream_all_events(told[-1].id, PERSON)
        assert (await asyncio.wait_for(anext(last), WAIT)).data["runId"] == after, "what was seen is not told again"
        await last.aclose()
        with pytest.raises(InvalidArgument):
            await scene.runner.stream_all_events("\u0663", PERSON)

    play(scene, scenario)


def test_a_stream_begins_when_it_is_opened_and_not_when_it_is_first_read(scene: Scene) -> None:
    async def scenario(scene: Scene) -> None:
        opened = await scene.runner.stream_all_events(None, PERSON)
        run = (await scene.run(create("a")))["runId"]
        assert (await asyncio.wait_for(anext(opened), WAIT)).data["runId"] == run
        await opened.aclose()

    play(scene, scenario)
