"""Approvals over REST: a run asks, a person decides, once; what an agent or the wrong person sends changes nothing."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from tests.support.agent_tokens import another_server, bearer, mint
from tests.support.http_runs import Notes, create, decide, ended, read, shell, start, types, until

DELETE = shell("rm -rf data/", id="shell-1")


pytestmark = pytest.mark.wap_settings(allow_unconfined=True)


@pytest.fixture(autouse=True)
def data(jp_root_dir: Any) -> Any:
    folder = jp_root_dir / "data"
    folder.mkdir()
    (folder / "table.csv").write_text("1,2\n")
    return folder


async def test_what_asks_is_shown_to_a_person(fetch: Any, data: Any, jp_root_dir: Any) -> None:
    answer = await start(fetch, create("a"), DELETE, create("b"), headers={"X-Wap-Agent": "claude"})
    assert (answer.status, answer.body["status"]) == (202, "awaiting_approval")
    assert types(answer.body) == ["createFile", "approvalRequired"]
    event = answer.body["events"][1]
    assert (event["operationId"], event["operationType"]) == ("shell-1", "shell")
    assert event["details"]["command"] == "rm -rf data/"
    assert event["reason"]
    pending = answer.body["pendingApproval"]
    assert pending["approvalId"] == event["details"]["approvalId"]
    assert (pending["command"], pending["agent"], pending["operationId"]) == ("rm -rf data/", "claude", "shell-1")
    assert pending["rule"]
    assert pending["expiresAt"].endswith("Z")
    assert data.exists()
    assert not (jp_root_dir / "b").exists()
    (listed,) = (await fetch("wap/runs", params={"status": "awaiting_approval"})).body["runs"]
    assert listed["pendingApproval"]["approvalId"] == pending["approvalId"]


async def test_approved_it_executes(fetch: Any, data: Any, jp_root_dir: Any) -> None:
    run = (await start(fetch, DELETE, create("b"))).body
    answer = await decide(fetch, run["runId"], "approved", approvalId=run["pendingApproval"]["approvalId"])
    assert (answer.status, answer.body["status"]) == (200, "completed")
    assert types(answer.body) == ["approvalRequired", "shell", "createFile"]
    assert answer.body["events"][1]["success"]
    assert "pendingApproval" not in answer.body
    assert not data.exists()
    assert (jp_root_dir / "b").exists()


async def test_denied_it_is_skipped_and_the_rest_goes_on(fetch: Any, data: Any, jp_root_dir: Any) -> None:
    run = (await start(fetch, DELETE, create("b"))).body["runId"]
    answer = await decide(fetch, run, "denied", operationId="shell-1", reason="We need that.")
    assert (answer.status, answer.body["status"]) == (200, "completed")
    assert types(answer.body) == ["approvalRequired", "policyDenied", "createFile"]
    assert answer.body["events"][1]["reason"] == "We need that."
    assert data.exists()
    assert (jp_root_dir / "b").exists()


async def test_a_second_question_of_the_same_run(fetch: Any, data: Any) -> None:
    run = (await start(fetch, DELETE, shell("rm -r other", id="two"))).body["runId"]
    answer = await decide(fetch, run, "approved", operationId="shell-1")
    assert (answer.status, answer.body["status"]) == (200, "awaiting_approval")
    assert answer.body["pendingApproval"]["operationId"] == "two"
    answer = await decide(fetch, run, "denied", approvalId=answer.body["pendingApproval"]["approvalId"])
    assert answer.body["status"] == "completed"


async def test_a_second_decision_comes_too_late(fetch: Any, data: Any) -> None:
    run = (await start(fetch, DELETE)).body
    approval = run["pendingApproval"]["approvalId"]
    answers = await asyncio.gather(
        *(decide(fetch, run["runId"], decision, approvalId=approval) for decision in ("denied", "approved", "denied"))
    )
    assert sorted(answer.status for answer in answers) == [200, 409, 409]
    assert {answer.code for answer in answers if answer.status == 409} == {"CONFLICT"}
    for more in ({"approvalId": approval}, {"operationId": "shell-1"}):
        late = await decide(fetch, run["runId"], "approved", **more)
        assert (late.status, late.code) == (409, "CONFLICT")
    message = (await fetch(f"wap/runs/{run['runId']}")).body
    assert len(types(message)) == 2


async def test_who_does_not_wait_is_told_that_it_goes_on(fetch: Any, data: Any) -> None:
    slow = shell("rm -r data && while [ ! -e go ]; do sleep 0.02; done", id="slow", timeout=60_000)
    run = (await start(fetch, slow)).body["runId"]
    body = json.dumps({"operationId": "slow", "decision": "approved"})
    answer = await fetch(f"wap/runs/{run}/decision", method="POST", body=body, params={"wait": "0"})
    assert (answer.status, answer.body["status"]) == (202, "running")
    await until(lambda: not data.exists())  # a file that the line names may not appear before it starts
    (data.parent / "go").touch()
    assert (await ended(fetch, run))["status"] == "completed"


async def test_what_waits_can_be_cancelled(fetch: Any, data: Any) -> None:
    run = (await start(fetch, DELETE, create("b"))).body["runId"]
    answer = await fetch(f"wap/runs/{run}/cancel", method="POST")
    assert (answer.status, answer.body["status"]) == (200, "cancelled")
    assert (await decide(fetch, run, "approved", operationId="shell-1")).code == "CONFLICT"
    assert data.exists()


WRONG = {
    "nothing": ({}, "decision"),
    "no question": ({"decision": "approved"}, "approvalId"),
    "two questions": ({"decision": "approved", "approvalId": "a", "operationId": "b"}, "approvalId"),
    "an unknown decision": ({"decision": "maybe", "operationId": "shell-1"}, "decision"),
    "a boolean": ({"decision": True, "operationId": "shell-1"}, "decision"),
    "an unknown field": ({"decision": "approved", "operationId": "shell-1", "remembered": True}, "remember"),
    "not a boolean": ({"decision": "approved", "operationId": "shell-1", "remember": "yes"}, "remember"),
    "a denial to remember": ({"decision": "denied", "operationId": "shell-1", "remember": True}, "approved"),
    "an empty id": ({"decision": "approved", "approvalId": ""}, "approvalId"),
    "a long reason": ({"decision": "denied", "operationId": "shell-1", "reason": "x" * 2001}, "reason"),
    "a list": ([], "object"),
}


@pytest.mark.parametrize(("body", "named"), WRONG.values(), ids=WRONG.keys())
async def test_a_decision_that_is_none(fetch: Any, data: Any, body: Any, named: str) -> None:
    run = (await start(fetch, DELETE)).body["runId"]
    answer = await fetch(f"wap/runs/{run}/decision", method="POST", body=json.dumps(body))
    assert (answer.status, answer.code) == (400, "INVALID_ARGUMENT")
    assert named in answer.body["error"]
    assert (await fetch(f"wap/runs/{run}")).body["status"] == "awaiting_approval"


async def test_a_question_that_was_not_asked(fetch: Any, data: Any) -> None:
    run = (await start(fetch, create("a", id="one"), DELETE)).body["runId"]
    other = (await start(fetch, DELETE)).body["pendingApproval"]["approvalId"]
    for more in ({"approvalId": "apr_none"}, {"approvalId": other}, {"operationId": "one"}, {"operationId": "none"}):
        answer = await decide(fetch, run, "approved", **more)
        assert answer.status in (404, 409), more
    assert data.exists()


async def test_a_file_that_changed_since_it_was_shown(fetch: Any, jp_serverapp: Any, jp_root_dir: Any) -> None:
    (jp_root_dir / ".cws-policy.json").write_text(json.dumps({"confirmationRequired": ["createFile"]}))
    (jp_root_dir / "a").write_text("shown\n")
    answer = await start(fetch, create("a", "new\n", id="one", overwrite=True))
    assert answer.body["status"] == "awaiting_approval"
    assert "-shown" in answer.body["pendingApproval"]["diff"]
    (jp_root_dir / "a").write_text("changed\n")
    late = await decide(
        fetch, answer.body["runId"], "approved", approvalId=answer.body["pendingApproval"]["approvalId"]
    )
    assert (late.status, late.code) == (409, "CONFLICT")
    assert (jp_root_dir / "a").read_text() == "changed\n"


# ---------------------------------------------------------------------- who decides


async def test_an_agent_cannot_decide(fetch: Any, data: Any) -> None:
    minted = await mint(fetch)
    run = (await start(fetch, DELETE, headers=bearer(minted))).body["runId"]
    answer = await decide(fetch, run, "approved", operationId="shell-1", headers=bearer(minted))
    assert (answer.status, answer.code) == (403, "PERMISSION_DENIED")
    assert "person" in answer.body["error"]
    assert data.exists()
    assert (await decide(fetch, run, "approved", operationId="shell-1")).body["status"] == "completed"
    assert not data.exists()


async def test_deciding_has_a_resource_of_its_own(fetch: Any, jp_serverapp: Any, data: Any) -> None:
    run = (await start(fetch, DELETE)).body["runId"]
    notes = jp_serverapp.web_app.settings["authorizer"] = Notes(parent=jp_serverapp)
    notes.refused = ("write",)
    answer = await decide(fetch, run, "approved", operationId="shell-1")
    assert (answer.status, answer.code) == (403, "PERMISSION_DENIED")
    assert notes.asked == [("write", "wap_approvals")]
    assert data.exists()
    for authorization in ("", "token wrong", "Bearer wrong"):
        answer = await decide(fetch, run, "approved", operationId="shell-1", headers={"Authorization": authorization})
        assert (answer.status, answer.code) == (403, "UNAUTHENTICATED")


async def test_what_was_refused_stays_refused_after_a_decision(
    fetch: Any, jp_serverapp: Any, data: Any, jp_root_dir: Any
) -> None:
    minted = await mint(fetch, tools=["executeCommand"])
    run = (await start(fetch, DELETE, create("b"), read("b"), headers=bearer(minted))).body["runId"]
    answer = await decide(fetch, run, "approved", operationId="shell-1")
    assert types(answer.body) == ["approvalRequired", "shell", "policyDenied", "policyDenied"]
    assert not (jp_root_dir / "b").exists()

    data.mkdir()
    settings = jp_serverapp.web_app.settings
    before, settings["authorizer"] = settings["authorizer"], Notes(parent=jp_serverapp)
    settings["authorizer"].refused = ("write",)
    run = (await start(fetch, DELETE, create("b"), read("b"))).body["runId"]
    settings["authorizer"] = before
    answer = await decide(fetch, run, "denied", operationId="shell-1")
    assert types(answer.body)[2] == "policyDenied"
    assert not (jp_root_dir / "b").exists()


async def test_another_server_on_the_same_folder_decides(fetch: Any, jp_root_dir: Any, data: Any) -> None:
    run = (await start(fetch, DELETE, create("b"))).body["runId"]
    async with another_server(jp_root_dir) as ask:
        status, message = await ask(
            "POST", f"wap/runs/{run}/decision", {"operationId": "shell-1", "decision": "denied"}
        )
        assert (status, message["status"]) == (200, "completed")
    assert (await fetch(f"wap/runs/{run}")).body["events"] == message["events"]
    assert (jp_root_dir / "b").exists()
    assert (await decide(fetch, run, "approved", operationId="shell-1")).status == 409


def _warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]


async def test_the_log_warns_of_an_agent_that_waits(fetch: Any, caplog: pytest.LogCaptureFixture) -> None:
    headers = {"X-Wap-Agent": "cl\u0085aude\u3164".encode().decode("latin-1")}
    of_claim = (await start(fetch, DELETE, headers=headers)).body["runId"]
    minted = await mint(fetch, name="an agent")
    call = json.dumps({"command": "rm -rf data/"})
    answer = await fetch("wap/api/executeCommand", method="POST", body=call, headers=bearer(minted))
    of_call = answer.body["details"]["runId"]
    first, second = (line for line in _warnings(caplog) if "waits for your approval" in line)
    assert 'the agent "claude\\u3164" waits' in first and f"`%wap approve {of_claim}`" in first
    assert 'the agent "an agent" waits' in second and f"`wap approve {of_call}`" in second
    assert "data" not in first + second, "what is asked about is not for the log"


async def test_the_log_does_not_warn_of_a_persons_own_run(fetch: Any, caplog: pytest.LogCaptureFixture) -> None:
    assert (await start(fetch, DELETE)).body["status"] == "awaiting_approval"
    assert not [line for line in _warnings(caplog) if "approv" in line]
