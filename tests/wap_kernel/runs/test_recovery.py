"""Runs that no process executes any more: each is recovered, whatever is wrong with the others."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Callable
from contextlib import closing
from functools import partial
from typing import Any

import pytest

from tests.support.run_workspace import DELETE, PERSON, WAIT, Scene, create, fill_disk, play, types
from wap_kernel.model.caller import Caller
from wap_kernel.model.errors import InvalidArgument, NoSpace, WapError
from wap_kernel.model.limits import MAX_PENDING_APPROVALS
from wap_kernel.model.run import Run, RunStatus
from wap_kernel.runs import recovery
from wap_kernel.runs import runner as runner_module
from wap_kernel.runs.step_execution import StepExecution


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner_module, "UPKEEP_SECONDS", 0.05)


def execute(scene: Scene, *statements: str) -> None:
    def work(statement: str, connection: sqlite3.Connection) -> None:
        connection.execute(statement)

    for statement in statements:
        scene.runner.workspace.database.write(partial(work, statement))


async def eventually(look: Callable[[], Any], enough: Callable[[Any], bool]) -> Any:
    async def poll() -> Any:
        while not enough(found := await look()):  # noqa: ASYNC110 - of a run there is no event to await here
            await asyncio.sleep(0.05)
        return found

    return await asyncio.wait_for(poll(), WAIT)


def ended(scene: Scene, run_id: str) -> Any:
    return eventually(lambda: scene.runner.get(run_id, PERSON), lambda run: run.status.is_final)


GONE = "UPDATE runs SET status = 'running', owner = 'gone', completed_at = NULL"
"""Comes last: from then on a run is settled, at any moment."""


def test_one_that_cannot_be_undone_holds_up_nobody(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(scene: Scene) -> None:
        first = await scene.run(create("a"), create("b"), atomic=True)
        second = await scene.run(create("c"), create("d"))
        execute(scene, "UPDATE positions SET position = 1", GONE)

        def refuse(run: Run) -> list[str]:
            raise WapError("no")

        monkeypatch.setattr(scene.runner.workspace.undo, "take_back", refuse)
        for run_id in (first["runId"], second["runId"]):
            message = await scene.message(await ended(scene, run_id))
            assert message["status"] == "error"
        message = await scene.message(await scene.runner.get(first["runId"], PERSON))
        assert "could not be undone" in message["events"][-1]["message"]

    play(scene, scenario)


def test_a_run_that_died_after_its_last_operation_is_completed(scene: Scene) -> None:
    async def scenario(scene: Scene) -> None:
        message = await scene.run(create("a"))
        execute(scene, GONE)
        assert (await ended(scene, message["runId"])).status is RunStatus.COMPLETED

    play(scene, scenario)


def test_who_asks_while_the_first_still_waits_finds_everything_settled(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also when the first does not wait for it to the end."""
    recover, is_recovering, may_recover = recovery.recover_runs, threading.Event(), threading.Event()

    def slow(*arguments: Any) -> None:
        is_recovering.set()
        assert may_recover.wait(WAIT)
        recover(*arguments)

    async def scenario() -> None:
        async with scene.opened():
            await scene.run(create("a"))
        with closing(sqlite3.connect(scene.state / "state.db")) as connection, connection:
            connection.execute(GONE)
        monkeypatch.setattr(recovery, "recover_runs", slow)
        monkeypatch.setattr(runner_module, "UPKEEP_SECONDS", WAIT)  # the upkeep would recover it as well
        async with scene.opened():
            first, second = [
                asyncio.ensure_future(scene.runner.page(PERSON, RunStatus.RUNNING, 10, None)) for _ in range(2)
            ]
            assert await asyncio.to_thread(is_recovering.wait, WAIT)
            first.cancel()
            await asyncio.wait({second}, timeout=0.2)  # it has every chance to answer too early
            may_recover.set()
            assert await second == ([], None)

    asyncio.run(scenario())


def test_what_could_not_be_settled_is_tried_again_by_who_comes_next(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    recover, failures = recovery.recover_runs, iter([NoSpace("No space left.")])

    def failing(*arguments: Any) -> None:
        if (failure := next(failures, None)) is not None:
            raise failure
        recover(*arguments)

    async def scenario() -> None:
        async with scene.opened():
            await scene.run(create("a"))
        with closing(sqlite3.connect(scene.state / "state.db")) as connection, connection:
            connection.execute(GONE)
        monkeypatch.setattr(recovery, "recover_runs", failing)
        monkeypatch.setattr(runner_module, "UPKEEP_SECONDS", WAIT)
        async with scene.opened():
            with pytest.raises(NoSpace):
                await scene.runner.page(PERSON, RunStatus.RUNNING, 10, None)
            assert await scene.runner.page(PERSON, RunStatus.RUNNING, 10, None) == ([], None)

    asyncio.run(scenario())


@pytest.mark.parametrize("atomic", [False, True])
def test_a_run_whose_end_could_not_be_stored_does_not_run_for_ever(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, atomic: bool
) -> None:
    async def scenario(scene: Scene) -> None:
        store = scene.runner._store
        monkeypatch.setattr(store, "change_status", fill_disk(store.change_status, 3))
        run = await scene.start(create("a"), atomic=atomic)
        stored = await ended(scene, run.id)
        if not atomic:  # its last operation was stored, so nothing is missing
            assert stored.status is RunStatus.COMPLETED
            return
        assert stored.status is RunStatus.ERROR
        texts = [event.get("message", "") for event in (await scene.message(stored))["events"]]
        assert "could not be stored" in "".join(texts)
        assert "process that executed this run ended" not in "".join(texts), "it lives"
        assert "a" not in scene.tree()

    play(scene, scenario)
    assert "a run could not be recovered, and the next round tries again: No space left." in caplog.text
    assert "Traceback" not in caplog.text, "a full disk is no bug"


def test_looking_after_runs_survives_anything(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(scene: Scene) -> None:
        store = scene.runner._store
        with_status, failures = store.with_status, iter(range(3))

        def broken(status: RunStatus) -> list[Run]:
            if next(failures, None) is not None:
                raise OSError(24, "Too many open files")
            return with_status(status)

        message = await scene.run(create("a"), create("b"))
        monkeypatch.setattr(store, "with_status", broken)
        execute(scene, "UPDATE positions SET position = 1", GONE)
        await eventually(lambda: scene.runner.wait(message["runId"], 0), lambda run: run.status.is_final)

    play(scene, scenario)


def test_questions_expire_by_themselves(scene: Scene) -> None:
    scene.options["provider"] = "bubblewrap"

    async def scenario(scene: Scene) -> None:
        message = await scene.run(create("a"), DELETE, atomic=True)
        run = await eventually(lambda: scene.runner.wait(message["runId"], 0), lambda run: run.status.is_final)
        assert run.status is RunStatus.CANCELLED
        assert not (scene.root / "a").exists()

    play(scene, scenario, approval_seconds=0.2)


def test_an_atomic_run_is_undone_when_the_server_stops(scene: Scene) -> None:
    before = scene.tree()
    scene.options["provider"] = "bubblewrap"

    async def scenario() -> None:
        async with scene.opened():
            run = await scene.start(create("a"), {"type": "shell", "command": "echo begun; sleep 60"}, atomic=True)
            async for live in scene.runner.stream_events(run.id, None, PERSON):
                if live.name == "output":
                    break
        async with scene.opened():
            message = await scene.message(await scene.runner.get(run.id, PERSON))
        assert (message["status"], message["events"][-1]["details"]["atomic"]) == ("error", True)
        assert scene.tree() == before

    asyncio.run(scenario())


def test_a_stop_names_the_command_that_it_ended_and_not_the_next_one(scene: Scene) -> None:
    first = {"id": "first", "type": "shell", "command": "echo begun; sleep 60"}

    async def scenario() -> None:
        async with scene.opened():
            run = await scene.start(first, create("second"), create("third"))
            async for live in scene.runner.stream_events(run.id, None, PERSON):
                if live.name == "output":
                    break
        async with scene.opened():
            ended, said = (await scene.message(await scene.runner.get(run.id, PERSON)))["events"]
        assert (ended["operationId"], ended["success"]) == ("first", False)
        assert (said["category"], said["details"]["operationId"], said["details"]["position"]) == ("system", "first", 1)
        assert said["message"].endswith('It was at operation "first" (shell).')

    asyncio.run(scenario())
    assert "second" not in scene.tree()


def test_a_stop_before_an_operation_begins_names_none(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        async with scene.opened():
            step = StepExecution.perform

            def stopped(self: StepExecution, *arguments: Any) -> Any:
                ((execution, _),) = scene.runner._executions.values()
                runner_module._stop(execution)
                return step(self, *arguments)

            monkeypatch.setattr(StepExecution, "perform", stopped)
            message = await scene.run(create("first", overwrite=True), create("second", overwrite=True))
        assert message["status"] == "error"
        done, said = message["events"]
        assert done["success"] and done["path"] == "first"
        assert said["details"] == {"code": "PROVIDER_UNAVAILABLE", "position": 1}
        assert "It was at" not in said["message"]

    asyncio.run(scenario())


def test_a_cancel_does_not_wait_for_a_free_thread(scene: Scene) -> None:
    sleep = {"type": "shell", "command": "sleep 1000", "timeout": 600_000}

    async def scenario(scene: Scene) -> None:
        busy = [await scene.start(sleep) for _ in range(16)]
        await eventually(lambda: _running(scene), lambda count: count >= 16)
        queued = await scene.start(sleep, create("never"))
        cancelled = await asyncio.wait_for(scene.runner.cancel(queued.id, PERSON), WAIT)
        assert cancelled.status is RunStatus.CANCELLED
        await asyncio.gather(*(scene.runner.cancel(run.id, PERSON) for run in busy))
        assert not (scene.root / "never").exists()

    play(scene, scenario)


async def _running(scene: Scene) -> int:
    return scene.runner.running


def test_what_a_token_began_ends_with_the_token(scene: Scene) -> None:
    scene.options["allow_unconfined"] = True

    async def scenario(scene: Scene) -> None:
        run = await scene.start({"type": "shell", "command": "sleep 60"}, caller=Caller(token="t"))
        await scene.runner.end_work_of("other")
        assert (await scene.runner.get(run.id, PERSON)).status is RunStatus.RUNNING
        assert await scene.runner.list_tokens_with_work() == {"t"}
        await scene.runner.end_work_of("t")
        assert (await scene.runner.wait(run.id, WAIT)).status is RunStatus.CANCELLED

    play(scene, scenario)


def test_changes_of_status_are_announced(scene: Scene) -> None:
    told: list[str] = []
    scene.options["provider"] = "bubblewrap"

    async def scenario(scene: Scene) -> None:
        message = await scene.run(create("a"), DELETE, atomic=True)
        await scene.decide(message["runId"], False)

    play(scene, scenario, changed=lambda run: told.append(run.status.value))
    assert told == ["running", "awaiting_approval", "running", "error"]


def test_they_are_announced_in_the_order_in_which_they_are_stored(scene: Scene) -> None:
    """Somebody sees that the run waits, and ends it, before anybody is told that it waits."""
    told: list[str] = []
    all_told = threading.Event()

    def changed(run: Run) -> None:
        if run.status is RunStatus.AWAITING_APPROVAL:
            end = partial(scene.runner._store.change_status, run, RunStatus.AWAITING_APPROVAL, RunStatus.CANCELLED)
            hurried = threading.Thread(target=end)
            hurried.start()
            hurried.join(0.2)  # it has every chance to be first
        told.append(run.status.value)
        if len(told) == 3:
            all_told.set()

    async def scenario(scene: Scene) -> None:
        await scene.run(DELETE)
        assert await asyncio.to_thread(all_told.wait, WAIT)

    play(scene, scenario, changed=changed)
    assert told == ["running", "awaiting_approval", "cancelled"]


def test_what_an_atomic_run_took_back_is_recorded(scene: Scene) -> None:
    async def scenario(scene: Scene) -> None:
        from wap_kernel.state.audit.query import AuditQuery

        await scene.run(create("a"), {"type": "readFile", "path": "missing"}, atomic=True)
        page = await scene.runner.workspace.audit_page(AuditQuery(limit=10))
        assert [record["tool"] for record in page["records"]] == ["undo", "readFile", "createFile"]

    play(scene, scenario)


def test_an_atomic_run_needs_undo(scene: Scene) -> None:
    scene.options["undo"] = False

    async def scenario(scene: Scene) -> None:
        with pytest.raises(InvalidArgument, match="atomic"):
            await scene.run(create("a"), atomic=True)

    play(scene, scenario)


def test_one_agent_asks_a_bounded_number_of_questions(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    assert MAX_PENDING_APPROVALS == 100
    monkeypatch.setattr("wap_kernel.runs.step_execution.MAX_PENDING_APPROVALS", 3)
    scene.options["allow_unconfined"] = True
    agent = Caller(token="t")

    async def scenario(scene: Scene) -> None:
        messages = [await scene.run(DELETE, create(f"f{number}"), caller=agent) for number in range(5)]
        assert [message["status"] for message in messages] == ["awaiting_approval"] * 3 + ["completed"] * 2
        assert messages[-1]["events"][0]["code"] == "RATE_LIMITED"
        assert types(messages[-1]) == ["shell", "createFile"]

    play(scene, scenario)


def test_the_output_of_a_run_that_was_killed_can_be_followed(scene: Scene) -> None:
    async def scenario(scene: Scene) -> None:
        message = await scene.run({"type": "shell", "id": "s", "command": "echo all of it"})
        execute(scene, "DELETE FROM positions", "DELETE FROM run_log WHERE kind = 'event'", GONE)
        await ended(scene, message["runId"])
        lives = [live async for live in scene.runner.stream_events(message["runId"], None, PERSON)]
        assert "all of it\n" in [live.data.get("chunk") for live in lives]

    play(scene, scenario)
