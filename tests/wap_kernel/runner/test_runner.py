"""Runs from start to end, in process: approvals, cancels, all or nothing, dry runs, restarts, single calls."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.wap_kernel.runner.scene import ASKING, DELETE, PERSON, WAIT, Scene, create, play, types
from wap_kernel.caller import Caller
from wap_kernel.dialects import wap
from wap_kernel.errors import (
    ApprovalRequired,
    Conflict,
    FileMissing,
    InvalidArgument,
    NotFound,
    PermissionDenied,
    RateLimited,
)
from wap_kernel.operations import Operation, RunCommand
from wap_kernel.policy import presets
from wap_kernel.policy.reading import merge
from wap_kernel.runner import Decision
from wap_kernel.runs.model import Run, Status

# -- approvals


def test_an_operation_that_asks_pauses_the_run_and_approval_lets_it_go_on(scene: Scene) -> None:
    async def scenario(scene: Scene) -> None:
        message = await scene.run(create("a"), DELETE, create("b"))
        assert (message["status"], types(message)) == ("awaiting_approval", ["createFile", "approvalRequired"])
        asked = message["events"][-1]
        assert (asked["reason"], asked["operationType"]) == ("Destructive command requires approval", "shell")
        assert asked["details"].items() >= {"command": "rm -rf data/", "policy": "shell.approvalRequired"}.items()
        pending = message["pendingApproval"]
        assert pending.items() >= {"user": "ada", "agent": "copilot", "operationId": "delete"}.items()
        assert pending["approvalId"] == asked["details"]["approvalId"]
        assert not (scene.root / "b").exists()

        message = await scene.decide(message["runId"], True)
        assert (message["status"], types(message)[2:]) == ("completed", ["shell", "createFile"])
        assert scene.tree() == {"a": "new", "b": "new"}
        assert "pendingApproval" not in message

    play(scene, scenario)


def test_what_is_denied_is_skipped_with_the_reason_and_the_rest_goes_on(scene: Scene) -> None:
    async def scenario(scene: Scene) -> None:
        message = await scene.run(DELETE, create("b"))
        message = await scene.decide(message["runId"], False, operation_id="delete", reason="Keep the data.")
        assert (message["status"], types(message)) == ("completed", ["approvalRequired", "policyDenied", "createFile"])
        assert message["events"][1]["reason"] == "Keep the data."
        assert scene.tree() == {"data": None, "data/x.txt": "x", "b": "new"}

    play(scene, scenario)


def test_a_decision_counts_once(scene: Scene) -> None:
    async def scenario(scene: Scene) -> None:
        message = await scene.run(DELETE)
        approval = message["pendingApproval"]["approvalId"]
        with pytest.raises(NotFound):
            await scene.decide(message["runId"], True, approval_id="apr_other")
        with pytest.raises(PermissionDenied):
            await scene.decide(message["runId"], True, Caller(token="t"))
        await scene.decide(message["runId"], False, approval_id=approval)
        for approved in (True, False):
            with pytest.raises(Conflict):
                await scene.decide(message["runId"], approved, approval_id=approval)
        assert (scene.root / "data").exists()

    play(scene, scenario)


def test_two_decisions_at_once_are_one(scene: Scene) -> None:
    async def scenario(scene: Scene) -> None:
        message = await scene.run(DELETE)
        decisions = (scene.runner.decide(message["runId"], Decision(True, operation_id="delete"), PERSON),) * 1
        more = [scene.runner.decide(message["runId"], Decision(True, operation_id="delete"), PERSON) for _ in range(7)]
        answers = await asyncio.gather(*decisions, *more, return_exceptions=True)
        assert sum(isinstance(answer, Run) for answer in answers) == 1
        assert sum(isinstance(answer, Conflict) for answer in answers) == 7

    play(scene, scenario)


def test_an_approval_is_for_the_file_that_was_shown(scene: Scene) -> None:
    policy = merge(presets.load("permissive"), {"confirmationRequired": ["writeFile", "modifyFile", "deleteFile"]})
    scene.options["policy"] = policy
    (scene.root / "a.txt").write_text("one\n")

    async def scenario(scene: Scene) -> None:
        edit = {"type": "editFile", "id": "e", "path": "a.txt", "edits": [{"oldContent": "one", "newContent": "two"}]}
        message = await scene.run(edit)
        pending = message["pendingApproval"]
        assert pending["path"] == "a.txt"
        assert "-one\n+two\n" in pending["diff"]

        (scene.root / "a.txt").write_text("one, changed\n")
        with pytest.raises(Conflict) as refused:
            await scene.decide(message["runId"], True, operation_id="e")
        assert refused.value.details["paths"] == ["a.txt"]
        again = await scene.message(await scene.runner.get(message["runId"], PERSON))
        assert again["status"] == "awaiting_approval"
        assert "+two, changed" in again["pendingApproval"]["diff"]
        with pytest.raises(Conflict):
            await scene.decide(message["runId"], True, approval_id=pending["approvalId"])
        message = await scene.decide(message["runId"], True, approval_id=again["pendingApproval"]["approvalId"])
        assert (message["status"], (scene.root / "a.txt").read_text()) == ("completed", "two, changed\n")

    play(scene, scenario)


def test_an_approval_expires_by_the_clock_and_ends_the_run(scene: Scene) -> None:
    async def scenario(scene: Scene) -> None:
        message = await scene.run(DELETE, create("b"))
        with pytest.raises(Conflict, match="expired"):
            await scene.decide(message["runId"], True)
        message = await scene.message(await scene.runner.get(message["runId"], PERSON))
        assert (message["status"], types(message)) == ("cancelled", ["approvalRequired", "policyDenied"])
        assert scene.tree() == {"data": None, "data/x.txt": "x"}

    play(scene, scenario, approval_seconds=0.0)


def test_what_is_remembered_is_not_asked_again_until_it_is_revoked(scene: Scene) -> None:
    scene.options["policy"] = merge(presets.load("standard"), {"shell": {"unconfined": "allow"}})
    scene.options["provider"] = "local"
    ask = {"type": "shell", "id": "ask", "command": "factor 12"}

    async def scenario(scene: Scene) -> None:
        message = await scene.run(ask)
        assert message["pendingApproval"]["remember"] == "factor 12"
        await scene.decide(message["runId"], True, operation_id="ask", remember=True)
        assert (await scene.run(ask))["status"] == "completed"
        (given,) = scene.runner.workspace.grants.given()
        assert given.created_by == "ada"
        scene.runner.workspace.grants.revoke(given.id)
        assert (await scene.run(ask))["status"] == "awaiting_approval"

    play(scene, scenario)


def test_a_waiting_run_survives_a_restart(scene: Scene) -> None:
    async def scenario() -> None:
        async with scene.opened():
            run_id = (await scene.run(DELETE, create("b")))["runId"]
        async with scene.opened():
            assert (await scene.runner.get(run_id, PERSON)).status is Status.AWAITING_APPROVAL
            message = await scene.decide(run_id, True)
        assert message["status"] == "completed"
        assert scene.tree() == {"b": "new"}

    asyncio.run(scenario())


def test_policy_is_asked_again_after_an_approval(scene: Scene) -> None:
    async def scenario() -> None:
        async with scene.opened():
            run_id = (await scene.run(DELETE))["runId"]
        scene.options["policy"] = merge(ASKING, {"shell": {"blockedCommands": ["rm"]}})
        async with scene.opened():
            message = await scene.decide(run_id, True)
        assert types(message) == ["approvalRequired", "policyDenied"]
        assert (scene.root / "data").exists()

    asyncio.run(scenario())


# -- cancelling


def test_cancelling_ends_the_command_and_leaves_the_rest_undone(scene: Scene) -> None:
    async def scenario(scene: Scene) -> None:
        run = await scene.start(create("a"), {"type": "shell", "command": "echo begun; sleep 60"}, create("b"))
        async for live in scene.runner.follow(run.id, None, PERSON):
            if live.name == "output":
                break
        cancelled = await scene.message(await scene.runner.cancel(run.id, PERSON))
        assert (cancelled["status"], types(cancelled)) == ("cancelled", ["createFile", "shell"])
        assert cancelled["events"][1].items() >= {"success": False, "stdout": "begun\n"}.items()
        assert (await scene.runner.cancel(run.id, PERSON)).status is Status.CANCELLED
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


def test_what_somebody_else_changed_is_left_alone_and_named(scene: Scene) -> None:
    async def scenario(scene: Scene) -> None:
        message = await scene.run(create("a"), create("b"), DELETE, atomic=True)
        (scene.root / "a").write_text("mine now")
        message = await scene.decide(message["runId"], False)
        assert message["status"] == "error"
        assert message["events"][-1]["details"]["notUndone"] == ["a"]
        assert scene.tree() == {"a": "mine now", "data": None, "data/x.txt": "x"}

    play(scene, scenario)


def test_cancelling_an_atomic_run_undoes_it(scene: Scene) -> None:
    async def scenario(scene: Scene) -> None:
        message = await scene.run(create("a"), DELETE, atomic=True)
        message = await scene.message(await scene.runner.cancel(message["runId"], PERSON))
        assert message["status"] == "cancelled"
        assert scene.tree() == {"data": None, "data/x.txt": "x"}

    play(scene, scenario)


# -- dry runs


def test_a_dry_run_shows_what_would_happen_and_changes_nothing(scene: Scene) -> None:
    before = scene.tree()

    async def scenario(scene: Scene) -> None:
        edit = {"type": "editFile", "path": "a", "edits": [{"oldContent": "new", "newContent": "newer"}]}
        sudo = {"type": "shell", "command": "sudo id"}
        read = {"type": "readFile", "path": "a"}
        message = await scene.run(create("a"), edit, read, DELETE, sudo, create("a"), dryRun=True)
        assert (message["status"], message["dryRun"]) == ("completed", True)
        created, edited, found, deleted, denied, exists = message["events"]
        assert (created["success"], created["simulated"], created["verdict"]) == (True, True, "allow")
        assert "+new" in created["diff"]
        assert "+newer" in edited["diff"]
        assert found["content"] == "newer"
        assert (deleted["success"], deleted["simulated"], deleted["verdict"]) == (False, False, "ask")
        assert denied["type"] == "policyDenied"
        assert exists["error"] == "File already exists"
        with pytest.raises(InvalidArgument):
            await scene.runner.revert(message["runId"], PERSON)
        assert (await scene.runner.changes(message["runId"], PERSON))["changes"] == []

    play(scene, scenario)
    assert scene.tree() == before


# -- undo


def test_a_revert_is_a_run_that_can_be_reverted(scene: Scene) -> None:
    before = scene.tree()

    async def scenario(scene: Scene) -> None:
        message = await scene.run(create("a"), DELETE)
        message = await scene.decide(message["runId"], True)
        after = scene.tree()
        changes = await scene.runner.changes(message["runId"], PERSON)
        assert {change["path"]: change["change"] for change in changes["changes"]} == {
            "a": "created",
            "data": "folder deleted",
            "data/x.txt": "deleted",
        }
        undone = await scene.runner.wait((await scene.runner.revert(message["runId"], PERSON)).id, WAIT)
        assert (undone.status, undone.reverts) == (Status.COMPLETED, message["runId"])
        assert scene.tree() == before
        redone = await scene.runner.wait((await scene.runner.revert(undone.id, PERSON)).id, WAIT)
        assert redone.status is Status.COMPLETED
        assert scene.tree() == after

    play(scene, scenario)


def test_a_revert_that_would_lose_a_later_change_is_refused_unless_forced(scene: Scene) -> None:
    async def scenario(scene: Scene) -> None:
        message = await scene.run(create("a"), create("b"))
        (scene.root / "a").write_text("later")
        with pytest.raises(Conflict) as refused:
            await scene.runner.revert(message["runId"], PERSON)
        assert refused.value.details["paths"] == ["a"]
        assert (scene.root / "b").exists()
        await scene.runner.wait((await scene.runner.revert(message["runId"], PERSON, force=True)).id, WAIT)
        assert scene.tree() == {"data": None, "data/x.txt": "x"}

    play(scene, scenario)


def test_undo_can_be_switched_off(scene: Scene) -> None:
    scene.options["undo"] = False

    async def scenario(scene: Scene) -> None:
        message = await scene.run(create("a"))
        for question in (scene.runner.revert, scene.runner.changes):
            with pytest.raises(InvalidArgument, match="switched off"):
                await question(message["runId"], PERSON)

    play(scene, scenario)


# -- processes


def test_a_run_of_a_dead_process_is_marked_and_says_what_was_under_way(scene: Scene, tmp_path: Path) -> None:
    async def scenario(scene: Scene) -> None:
        message = await scene.run(create("a"))
        database = scene.runner.workspace.database
        update = "UPDATE runs SET status = 'running', owner = 'gone', completed_at = NULL; DELETE FROM positions"
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
            assert (await neighbour.runner.get(run.id, PERSON)).status is Status.RUNNING
            seen = [live async for live in _until_output(neighbour, run.id)]
            assert seen[-1].data["chunk"] == "begun\n"
            assert (await neighbour.runner.cancel(run.id, PERSON)).status is Status.CANCELLED

    asyncio.run(scenario())


async def _until_output(scene: Scene, run_id: str) -> AsyncIterator[Any]:
    async for live in scene.runner.follow(run_id, None, PERSON):
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


# -- who asks


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


# -- single calls


def test_a_single_call_that_asks_becomes_a_run_with_its_own_answer(scene: Scene) -> None:
    body = json.dumps({"command": "rm -rf data"}).encode()

    async def scenario(scene: Scene) -> None:
        with pytest.raises(ApprovalRequired) as first:
            await wap.call("executeCommand", body, scene.runner, PERSON)
        with pytest.raises(ApprovalRequired) as second:
            await wap.call("executeCommand", body, scene.runner, PERSON)
        details = first.value.details
        assert second.value.details == details, "the same question is not asked twice"
        message = await scene.decide(details["runId"], True, approval_id=details["approvalId"])
        assert message["response"].items() >= {"exitCode": 0, "stdout": ""}.items()
        assert not (scene.root / "data").exists()

    play(scene, scenario)


def test_a_single_call_that_is_denied_or_fails_answers_the_error(scene: Scene) -> None:
    scene.options["policy"] = merge(presets.load("permissive"), {"confirmationRequired": ["deleteFile"]})

    async def scenario(scene: Scene) -> None:
        async def call(path: str) -> bytes:
            return await wap.call("deleteFile", json.dumps({"path": path}).encode(), scene.runner, PERSON, WAIT)

        async def pending() -> Run:
            while True:
                runs, _ = await scene.runner.page(PERSON, Status.AWAITING_APPROVAL, 10, None)
                if runs:
                    return runs[0]
                await asyncio.sleep(0.01)

        denied = asyncio.create_task(call("data/x.txt"))
        await scene.decide((await pending()).id, False, operation_id="deleteFile", reason="No.")
        with pytest.raises(PermissionDenied, match="No"):
            await denied
        failing = asyncio.create_task(call("missing"))
        await scene.decide((await pending()).id, True, operation_id="deleteFile")
        with pytest.raises(FileMissing):
            await failing

    play(scene, scenario)
