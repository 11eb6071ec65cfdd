"""Runs that end early: cancelled, undone after a failure, left by a process that died."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.support.run_workspace import DELETE, PERSON, WAIT, Scene, create, play, types
from wap_kernel.model.errors import Conflict
from wap_kernel.model.run import RunStatus
from wap_kernel.policy import presets
from wap_kernel.state.audit.query import AuditQuery

# -- cancelling


def test_cancelling_ends_the_command_and_leaves_the_rest_undone(scene: Scene) -> None:
    async def scenario(scene: Scene) -> None:
        run = await scene.start(create("a"), {"type": "shell", "command": "echo begun; sleep 60"}, create("b"))
        async for live in scene.runner.stream_events(run.id, None, PERSON):
            if live.name == "output":
                break
        cancelled = await scene.message(await scene.runner.cancel(run.id, PERSON))
        assert (cancelled["status"], types(cancelled)) == ("cancelled", ["createFile", "shell"])
        assert cancelled["events"][1].items() >= {"success": False, "stdout": "begun\n"}.items()
        assert (await scene.runner.cancel(run.id, PERSON)).status is RunStatus.CANCELLED
        page = await scene.runner.workspace.audit_page(AuditQuery(limit=10))
        (told,) = [record for record in page["records"] if record["tool"] == "cancelRun"]
        assert (told["user"], told["summary"]) == ("ada", {"action": "cancelRun", "subject": run.id})
        assert scene.tree() == {"a": "new", "data": None, "data/x.txt": "x"}

    play(scene, scenario)


def test_cancelling_what_waits_answers_the_question(scene: Scene) -> None:
    async def scenario(scene: Scene) -> None:
        message = await scene.run(DELETE, create("b"))
        message = await scene.message(await scene.runner.cancel(message["runId"], PERSON))
        assert (message["status"], types(message)) == ("cancelled", ["approvalRequired", "policyDenied"])
        with pytest.raises(Conflict):
            await scene.decide(message["runId"], True)

    play(scene, scenario)


def test_what_has_ended_cannot_be_cancelled(scene: Scene) -> None:
    async def scenario(scene: Scene) -> None:
        message = await scene.run(create("a"))
        with pytest.raises(Conflict):
            await scene.runner.cancel(message["runId"], PERSON)

    play(scene, scenario)


# -- all or nothing


@pytest.mark.parametrize(
    "failing",
    [
        create("data/x.txt"),
        {"type": "readFile", "path": "missing"},
        {"type": "shell", "command": "echo more >> data/x.txt; exit 3"},
        {"type": "shell", "command": "sudo id"},
    ],
    ids=["exists", "missing", "exit code", "denied"],
)
def test_the_first_failure_of_an_atomic_run_undoes_everything(scene: Scene, failing: dict[str, Any]) -> None:
    before = scene.tree()
    scene.options["provider"] = "bubblewrap"

    async def scenario(scene: Scene) -> None:
        edit = {"type": "editFile", "path": "data/x.txt", "edits": [{"oldContent": "x", "newContent": "y"}]}
        command = {"type": "shell", "command": "mkdir -p made; echo 1 > made/file; rm -f a"}
        message = await scene.run(create("a"), edit, command, failing, create("never"), atomic=True)
        assert message["status"] == "error"
        error = message["events"][-1]
        assert (error["type"], error["category"]) == ("error", "execution")
        assert error["message"] == "An operation failed, so everything was undone."
        assert scene.tree() == before

    play(scene, scenario)


@pytest.mark.parametrize("failing", [create("data/x.txt"), {"type": "readFile", "path": "missing"}])
def test_without_layers_the_first_failure_takes_the_log_back(scene: Scene, failing: dict[str, Any]) -> None:
    before = scene.tree()

    async def scenario(scene: Scene) -> None:
        edit = {"type": "editFile", "path": "data/x.txt", "edits": [{"oldContent": "x", "newContent": "y"}]}
        delete = {"type": "deleteFile", "path": "data/x.txt"}
        message = await scene.run(create("a"), edit, create("new/deep/b"), delete, failing, atomic=True)
        if failing["type"] == "createFile":  # it is free by then
            assert message["status"] == "completed"
            await scene.runner.wait((await scene.runner.revert(message["runId"], PERSON)).id, WAIT)
        else:
            assert message["events"][-1]["message"] == "An operation failed, so everything was undone."
        assert scene.tree() == before

    play(scene, scenario)


ASKED_FILE = create(".vscode/tasks.json", id="delete")
"""A file operation that a person is asked about."""


def test_without_layers_what_somebody_else_changed_is_left_alone_and_named(scene: Scene) -> None:
    scene.options["policy"] = presets.load_preset("standard")

    async def scenario(scene: Scene) -> None:
        message = await scene.run(create("a"), create("b"), ASKED_FILE, atomic=True)
        assert (scene.root / "a").exists()
        (scene.root / "a").write_text("mine now")
        message = await scene.decide(message["runId"], False)
        assert message["status"] == "error"
        assert message["events"][-1]["details"]["notUndone"] == ["a"]
        assert scene.tree() == {"a": "mine now", "data": None, "data/x.txt": "x"}

    play(scene, scenario)


@pytest.mark.parametrize("provider", ["local", "bubblewrap"])
def test_cancelling_an_atomic_run_undoes_it(scene: Scene, provider: str) -> None:
    scene.options |= {"policy": presets.load_preset("standard"), "provider": provider}

    async def scenario(scene: Scene) -> None:
        message = await scene.run(create("a"), ASKED_FILE, atomic=True)
        assert message["status"] == "awaiting_approval"
        message = await scene.message(await scene.runner.cancel(message["runId"], PERSON))
        assert message["status"] == "cancelled"
        assert scene.tree() == {"data": None, "data/x.txt": "x"}

    play(scene, scenario)


# -- processes


def test_a_run_of_a_dead_process_is_marked_and_says_what_was_under_way(scene: Scene, tmp_path: Path) -> None:
    async def scenario(scene: Scene) -> None:
        message = await scene.run(create("a"))
        database = scene.runner.workspace.database
        update = "DELETE FROM positions; UPDATE runs SET status = 'running', owner = 'gone', completed_at = NULL"
        for statement in update.split(";"):
            database.write(partial(_execute, statement))
        run = await scene.runner.get(message["runId"], PERSON)
        told = await scene.message(run)
        assert told["status"] == "error"
        error = told["events"][-1]
        assert (error["category"], error["details"]["operationId"]) == ("system", "op-1")
        assert '"op-1" (createFile)' in error["message"]

    play(scene, scenario)


def _execute(statement: str, connection: sqlite3.Connection) -> None:
    connection.execute(statement)


def test_the_run_of_a_living_neighbour_is_left_alone_and_can_be_cancelled(scene: Scene) -> None:
    async def scenario() -> None:
        neighbour = Scene(scene.root, scene.state)
        async with scene.opened(), neighbour.opened():
            run = await scene.start({"type": "shell", "command": "echo begun; sleep 60"})
            assert (await neighbour.runner.get(run.id, PERSON)).status is RunStatus.RUNNING
            seen = [live async for live in _until_output(neighbour, run.id)]
            assert seen[-1].data["chunk"] == "begun\n"
            assert (await neighbour.runner.cancel(run.id, PERSON)).status is RunStatus.CANCELLED

    asyncio.run(scenario())


async def _until_output(scene: Scene, run_id: str) -> AsyncIterator[Any]:
    async for live in scene.runner.stream_events(run_id, None, PERSON):
        yield live
        if live.name == "output":
            return


def test_a_run_that_the_server_stops_in_says_so(scene: Scene) -> None:
    async def scenario() -> None:
        async with scene.opened():
            run = await scene.start({"type": "shell", "command": "sleep 60"}, create("b"))
        async with scene.opened():
            message = await scene.message(await scene.runner.get(run.id, PERSON))
        assert message["status"] == "error"
        assert message["events"][-1]["category"] == "system"
        assert not (scene.root / "b").exists()

    asyncio.run(scenario())


def test_a_list_tells_which_runs_had_problems(scene: Scene) -> None:
    missing, failing = {"type": "readFile", "path": "missing"}, {"type": "shell", "command": "exit 3"}
    denied = create(".git/config")
    scene.options["provider"] = "bubblewrap"

    async def scenario(scene: Scene) -> None:
        counted = {
            (await scene.run(create("a"), {"type": "message", "content": "hello"}))["runId"]: 0,
            (await scene.run(missing, create("b"), failing, denied, missing))["runId"]: 4,
            (await scene.run(missing, create("c"), atomic=True))["runId"]: 2,
            (await scene.run(failing, missing, dryRun=True))["runId"]: 2,
        }
        waiting = await scene.run(missing, DELETE, missing)
        counted[waiting["runId"]] = 1
        page, _ = await scene.runner.page(PERSON, None, 10, None)
        told = await scene.runner.summaries(page, PERSON)
        assert {run["runId"]: run["problems"] for run in told} == counted
        await scene.decide(waiting["runId"], False)
        assert (await scene.runner.get(waiting["runId"], PERSON)).problems == 3

    play(scene, scenario)
