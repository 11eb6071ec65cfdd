"""Runs that wait for a person: approved, denied, expired, remembered, after a restart."""

from __future__ import annotations

import asyncio
import json

import pytest

from tests.support.run_workspace import ASKING, DELETE, PERSON, WAIT, Scene, create, play, types
from wap_kernel.dialects.wap import tools as wap
from wap_kernel.model.caller import Caller
from wap_kernel.model.errors import ApprovalRequired, Conflict, FileNotFound, NotFound, PermissionDenied
from wap_kernel.model.run import Run, RunStatus
from wap_kernel.policy import presets
from wap_kernel.policy.parse import merge_policy
from wap_kernel.runs.decisions import Decision
from wap_kernel.state.audit.query import AuditQuery

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
    policy = merge_policy(
        presets.load_preset("permissive"), {"confirmationRequired": ["writeFile", "modifyFile", "deleteFile"]}
    )
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
    scene.options["policy"] = merge_policy(presets.load_preset("standard"), {"shell": {"unconfined": "allow"}})
    scene.options["provider"] = "local"
    ask = {"type": "shell", "id": "ask", "command": "factor 12"}

    async def scenario(scene: Scene) -> None:
        message = await scene.run(ask)
        assert message["pendingApproval"]["remember"] == "factor 12"
        await scene.decide(message["runId"], True, operation_id="ask", remember=True)
        assert (await scene.run(ask))["status"] == "completed"
        (given,) = scene.runner.workspace.grants.records()
        assert given.created_by == "ada"
        page = await scene.runner.workspace.audit_page(AuditQuery(limit=10))
        (decided,) = [record for record in page["records"] if record["tool"] == "decide"]
        remembered = {"grant": given.id, "remember": "factor 12"}
        assert decided["summary"].items() >= {"decision": "approved", **remembered}.items()
        scene.runner.workspace.grants.revoke(given.id)
        assert (await scene.run(ask))["status"] == "awaiting_approval"

    play(scene, scenario)


def test_a_waiting_run_survives_a_restart(scene: Scene) -> None:
    async def scenario() -> None:
        async with scene.opened():
            run_id = (await scene.run(DELETE, create("b")))["runId"]
        async with scene.opened():
            assert (await scene.runner.get(run_id, PERSON)).status is RunStatus.AWAITING_APPROVAL
            message = await scene.decide(run_id, True)
        assert message["status"] == "completed"
        assert scene.tree() == {"b": "new"}

    asyncio.run(scenario())


def test_policy_is_asked_again_after_an_approval(scene: Scene) -> None:
    async def scenario() -> None:
        async with scene.opened():
            run_id = (await scene.run(DELETE))["runId"]
        scene.options["policy"] = merge_policy(ASKING, {"shell": {"blockedCommands": ["rm"]}})
        async with scene.opened():
            message = await scene.decide(run_id, True)
        assert types(message) == ["approvalRequired", "policyDenied"]
        assert (scene.root / "data").exists()

    asyncio.run(scenario())


# -- single calls


def test_a_single_call_that_asks_becomes_a_run_with_its_own_answer(scene: Scene) -> None:
    body = json.dumps({"command": "rm -rf data"}).encode()

    async def scenario(scene: Scene) -> None:
        with pytest.raises(ApprovalRequired) as first:
            await wap.call_tool("executeCommand", body, scene.runner, PERSON)
        with pytest.raises(ApprovalRequired) as second:
            await wap.call_tool("executeCommand", body, scene.runner, PERSON)
        details = first.value.details
        assert second.value.details == details, "the same question is not asked twice"
        message = await scene.decide(details["runId"], True, approval_id=details["approvalId"])
        assert message["response"].items() >= {"exitCode": 0, "stdout": ""}.items()
        assert not (scene.root / "data").exists()

    play(scene, scenario)


def test_a_single_call_that_is_denied_or_fails_answers_the_error(scene: Scene) -> None:
    scene.options["policy"] = merge_policy(presets.load_preset("permissive"), {"confirmationRequired": ["deleteFile"]})

    async def scenario(scene: Scene) -> None:
        async def call(path: str) -> bytes:
            return await wap.call_tool("deleteFile", json.dumps({"path": path}).encode(), scene.runner, PERSON, WAIT)

        async def pending() -> Run:
            while True:
                runs, _ = await scene.runner.page(PERSON, RunStatus.AWAITING_APPROVAL, 10, None)
                if runs:
                    return runs[0]
                await asyncio.sleep(0.01)

        denied = asyncio.create_task(call("data/x.txt"))
        await scene.decide((await pending()).id, False, operation_id="deleteFile", reason="No.")
        with pytest.raises(PermissionDenied, match="No"):
            await denied
        failing = asyncio.create_task(call("missing"))
        await scene.decide((await pending()).id, True, operation_id="deleteFile")
        with pytest.raises(FileNotFound):
            await failing

    play(scene, scenario)
