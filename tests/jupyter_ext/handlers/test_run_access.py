"""Access to runs: the authorizer decides per effect, and an agent sees only its own runs."""

from __future__ import annotations

import json
from typing import Any

import pytest

from jupyter_ext import tool_definitions
from tests.support.agent_tokens import bearer, mint
from tests.support.http_runs import Notes, create, read, shell, start, types
from wap_kernel.model.operations import Effect

pytestmark = pytest.mark.wap_settings(allow_unconfined=True)


def _authorizer(server: Any, *refused: str) -> Notes:
    notes = server.web_app.settings["authorizer"] = Notes(parent=server)
    notes.refused = refused
    return notes


async def test_the_authorizer_is_asked_per_kind_of_operation(fetch: Any, jp_serverapp: Any, jp_root_dir: Any) -> None:
    notes = _authorizer(jp_serverapp, "execute")
    answer = await start(fetch, create("a"), shell("touch b"), create("c"), shell("touch d"), read("a"))
    assert types(answer.body) == ["createFile", "policyDenied", "createFile", "policyDenied", "readFile"]
    assert notes.asked == [("write", "wap"), ("execute", "wap"), ("read", "wap")]
    assert sorted(path.name for path in jp_root_dir.iterdir()) == ["a", "c"]
    refused = await start(fetch, shell("touch b"))
    assert (refused.status, refused.code) == (403, "PERMISSION_DENIED")


async def test_an_agent_token_opens_its_tools_by_either_name(fetch: Any, jp_root_dir: Any) -> None:
    minted = await mint(fetch, tools=["writeFile", "readFile"])
    words = {"type": "message", "content": "hello"}
    answer = await start(fetch, words, create("a"), read("a"), shell("touch b"), headers=bearer(minted))
    assert types(answer.body) == ["message", "createFile", "readFile", "policyDenied"]
    assert "does not open shell" in answer.body["events"][3]["reason"]
    assert [path.name for path in jp_root_dir.iterdir()] == ["a"]


@pytest.mark.parametrize(
    ("tools", "opened"),
    [
        (["shell"], ["shell"]),
        (["createFile"], ["createFile"]),
        (["bash", "read"], ["shell", "readFile"]),
        (["write"], ["createFile"]),
        (["runCommand"], ["shell"]),
        (["runOperations"], []),
    ],
)
async def test_by_its_name_in_any_dialect(fetch: Any, jp_root_dir: Any, tools: list[str], opened: list[str]) -> None:
    assert tool_definitions.list_effects(["shell"]) == (Effect.EXECUTE,)
    minted = await mint(fetch, tools=tools)
    (jp_root_dir / "b").write_text("b")
    answer = await start(fetch, create("a"), read("b"), shell("true"), headers=bearer(minted))
    assert [kind for kind in types(answer.body) if kind != "policyDenied"] == [
        kind for kind in ("createFile", "readFile", "shell") if kind in opened
    ]


async def test_an_agent_sees_and_touches_its_own_runs_only(fetch: Any, jp_root_dir: Any) -> None:
    one, other = await mint(fetch, name="one"), await mint(fetch, name="other")
    of_person = (await start(fetch, create("a"))).body["runId"]
    of_one = (await start(fetch, create("b"), headers=bearer(one))).body["runId"]
    assert [run["runId"] for run in (await fetch("wap/runs")).body["runs"]] == [of_one, of_person]
    (listed,) = (await fetch("wap/runs", headers=bearer(one))).body["runs"]
    assert (listed["runId"], listed["agent"]) == (of_one, "one")
    for run, token in ((of_person, one), (of_person, other), (of_one, other)):
        for method, rest in (
            *(("GET", rest) for rest in ("", "/changes", "/output/op-1", "/stream")),
            *(("POST", rest) for rest in ("/cancel", "/revert")),
        ):
            answer = await fetch(f"wap/runs/{run}{rest}", method=method, headers=bearer(token))
            assert (answer.status, answer.code) == (404, "NOT_FOUND"), (rest, answer.body)
    assert (await fetch(f"wap/runs/{of_one}/revert", method="POST", headers=bearer(one))).status == 201
    assert [path.name for path in jp_root_dir.iterdir()] == ["a"]


async def test_a_revert_by_an_agent_asks_where_writes_do(fetch: Any, jp_root_dir: Any) -> None:
    headers = bearer(await mint(fetch))
    run = (await start(fetch, create("a"), headers=headers)).body["runId"]
    (jp_root_dir / ".cws-policy.json").write_text('{"confirmationRequired": ["writeFile"]}')
    asked = await fetch(f"wap/runs/{run}/revert", method="POST", headers=headers)
    assert (asked.status, asked.body["status"]) == (202, "awaiting_approval")
    assert (jp_root_dir / "a").exists()
    pending = asked.body["pendingApproval"]
    assert (pending["operation"]["run"], pending["rule"]) == (run, "confirmationRequired")
    body = json.dumps({"approvalId": pending["approvalId"], "decision": "approved"})
    path = f"wap/runs/{asked.body['runId']}/decision"
    assert (await fetch(path, method="POST", body=body, headers=headers)).code == "PERMISSION_DENIED"
    assert (await fetch(path, method="POST", body=body)).body["status"] == "completed"
    assert not (jp_root_dir / "a").exists()


async def test_keys_of_agents_are_their_own(fetch: Any) -> None:
    runs = set()
    for token in (await mint(fetch), await mint(fetch)):
        for _ in range(2):
            answer = await start(fetch, read("a"), headers=bearer(token, **{"Idempotency-Key": "key"}))
            runs.add(answer.body["runId"])
    assert len(runs) == 2
