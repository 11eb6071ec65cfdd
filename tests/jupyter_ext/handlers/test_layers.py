"""Commands on layers over REST: their effect in approvals, what is not applied, `apply`, single calls as runs."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from jupyter_ext.openapi import build_document
from tests.support.agent_tokens import bearer, mint, use
from tests.support.http_runs import SECONDS, create, decide, ended, shell, start, until
from tests.support.provider_workspace import skip_unless_works
from wap_kernel import parse_events_message

pytestmark = pytest.mark.wap_settings(preset="standard", policy={}, provider="bubblewrap")
WAIT = "until [ -s gate ]; do sleep 0.01; done"
DELETE = {"type": "delete", "startLine": 1, "endLine": 1}
HOOK = "git init -q; echo x > .git/hooks/pre-commit"


@pytest.fixture(autouse=True)
def files(jp_root_dir: Path) -> None:
    skip_unless_works("bubblewrap")
    (jp_root_dir / "data").mkdir()
    (jp_root_dir / "data" / "a.csv").write_text("1\n")
    (jp_root_dir / "gate").write_text("")


async def until_output(fetch: Any, run: str, text: str) -> None:
    """Wait until the command `sh` of a run has written `text`."""

    async def poll() -> None:
        while text not in (await fetch(f"wap/runs/{run}/output/sh")).body["content"]:  # noqa: ASYNC110
            await asyncio.sleep(0.01)

    await asyncio.wait_for(poll(), SECONDS)


async def in_conflict(fetch: Any, root: Path, *names: str, **options: Any) -> Any:
    """The message of a run whose command wrote "command" to these files while a person saved "person" there."""
    for name in names:
        (root / name).write_text("before\n")
    writes = "; ".join(f"echo command > {name}" for name in names)
    begun = (await start(fetch, shell(f"{writes}; echo written; {WAIT}", id="sh"), wait=0, **options)).body["runId"]

    await until_output(fetch, begun, "written")
    for name in (*names, "gate"):
        (root / name).write_text("person\n")
    return await ended(fetch, begun)


async def apply(fetch: Any, run: str, body: dict[str, Any] | None = None, **more: Any) -> Any:
    text = None if body is None else json.dumps(body)
    return await fetch(f"wap/runs/{run}/apply", method="POST", body=text, **more)


# -- approvals


async def test_an_approval_shows_the_effect_and_applies_exactly_that(fetch: Any, jp_root_dir: Path) -> None:
    agent = bearer(await mint(fetch))
    command = "rm -r data; echo $RANDOM | tee made.txt"
    waiting = (await start(fetch, shell(command, id="x"), headers=agent)).body
    effect = (await fetch(f"wap/runs/{waiting['runId']}")).body["pendingApproval"]["effect"]
    assert (effect["exitCode"], effect["counts"]) == (0, {"created": 1, "deleted": 2})
    assert [(one["path"], one["change"], one.get("kind")) for one in effect["changes"]] == [
        ("data", "deleted", "folder"),
        ("data/a.csv", "deleted", None),
        ("made.txt", "created", None),
    ]
    assert effect["changes"][1]["diff"].endswith("@@ -1 +0,0 @@\n-1\n")
    assert (jp_root_dir / "data" / "a.csv").exists() and not (jp_root_dir / "made.txt").exists()
    parse_events_message(waiting)
    listed = (await fetch("wap/runs", params={"status": "awaiting_approval"})).body["runs"]
    assert listed[0]["pendingApproval"]["effect"] == effect
    done = (await decide(fetch, waiting["runId"], "approved", operationId="x")).body
    assert done["status"] == "completed" and done["events"][-1]["stdout"] == effect["stdout"]
    assert (jp_root_dir / "made.txt").read_text() == effect["stdout"], "it has not run again"
    assert not (jp_root_dir / "data").exists()


async def test_a_denied_effect_changes_nothing(fetch: Any, jp_root_dir: Path) -> None:
    waiting = (await start(fetch, shell("rm -r data", id="x"))).body
    await decide(fetch, waiting["runId"], "denied", operationId="x")
    assert (jp_root_dir / "data" / "a.csv").exists()


async def test_a_single_call_that_waited_stores_its_run_and_its_effect(fetch: Any, jp_root_dir: Path) -> None:
    agent = await mint(fetch)
    refused = await use(fetch, agent, "executeCommand", command=f"rm -r data; {HOOK}")
    run = refused.body["details"]["runId"]
    pending = (await fetch(f"wap/runs/{run}")).body["pendingApproval"]
    assert pending["effect"]["refusedChanges"][0]["path"] == ".git/hooks/pre-commit"
    response = (await decide(fetch, run, "approved", approvalId=pending["approvalId"])).body["response"]
    assert response["runId"] == run and response["refusedChanges"][0]["path"] == ".git/hooks/pre-commit"
    assert not (jp_root_dir / "data").exists()


async def test_a_single_call_that_waited_is_undone_as_any_run(fetch: Any, jp_root_dir: Path) -> None:
    run = (await use(fetch, await mint(fetch), "executeCommand", command="rm -r data")).body["details"]["runId"]
    assert (await decide(fetch, run, "approved", operationId="executeCommand")).body["status"] == "completed"
    assert not (jp_root_dir / "data").exists()
    reverted = await fetch(f"wap/runs/{run}/revert", method="POST")
    assert reverted.body["status"] == "completed" and (jp_root_dir / "data" / "a.csv").read_text() == "1\n"


async def test_a_shared_command_of_an_agent_asks_and_says_that_it_is_not_undone(fetch: Any, jp_root_dir: Path) -> None:
    agent = bearer(await mint(fetch))
    waiting = (await start(fetch, shell("echo x > made", isolation="shared", id="x"), headers=agent)).body
    pending = waiting["pendingApproval"]
    assert pending["isolation"] == pending["operation"]["isolation"] == "shared" and "effect" not in pending
    done = (await decide(fetch, waiting["runId"], "approved", operationId="x")).body
    assert done["events"][-1]["isolation"] == "shared" and (jp_root_dir / "made").exists()
    direct = (await start(fetch, shell("echo x > made", isolation="shared"))).body
    assert direct["status"] == "completed", "a person is not asked"


# -- answers of single calls in every dialect


Caller = Callable[[str], Awaitable[Any]]


@pytest.fixture(params=["wap", "workspace", "mcp"])
def run_command(request: pytest.FixtureRequest, fetch: Any) -> Caller:
    """Run a line of a shell in one dialect."""

    async def call(command: str, **more: Any) -> Any:
        if request.param == "wap":
            return await post("wap/api/executeCommand", {"command": command, **more})
        if request.param == "workspace":
            return await post("wap/workspace/bash", {"command": command, **more})
        program, *words = ["sh", "-c", command] if ";" in command or ">" in command else command.split()
        arguments = {"command": program, "args": words, "options": more}
        call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "runCommand"}}
        call["params"]["arguments"] = arguments  # type: ignore[index]
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        response = await fetch("wap/mcp", method="POST", body=json.dumps(await opened(headers, call)), headers=headers)
        answer = response.body
        found = answer["result"]["structuredContent"]
        return found["error"]["data"] if "error" in found else found

    async def opened(headers: dict[str, str], call: dict[str, Any]) -> dict[str, Any]:
        version = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
        begin = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": version}
        answer = await fetch("wap/mcp", method="POST", body=json.dumps(begin), headers=headers)
        headers["Mcp-Session-Id"] = answer.headers["Mcp-Session-Id"]
        return call

    async def post(path: str, fields: dict[str, Any]) -> Any:
        return (await fetch(path, method="POST", body=json.dumps(fields))).body

    return call


async def test_a_call_that_changes_something_is_a_run(fetch: Any, jp_root_dir: Path, run_command: Any) -> None:
    answer = await run_command("echo x > made.txt")
    assert "isolation" not in answer
    (listed,) = (await fetch("wap/runs")).body["runs"]
    assert listed["runId"] == answer["runId"] and listed["operations"] == 1
    assert listed["tool"] in ("executeCommand", "bash", "runCommand")
    reverted = await fetch(f"wap/runs/{answer['runId']}/revert", method="POST")
    assert reverted.body["status"] == "completed" and not (jp_root_dir / "made.txt").exists()


async def test_a_call_that_changes_nothing_leaves_no_run(fetch: Any, run_command: Any) -> None:
    assert "runId" not in await run_command("ls")
    assert (await fetch("wap/runs")).body["runs"] == []


async def test_refused_changes_are_named(run_command: Any, jp_root_dir: Path) -> None:
    answer = await run_command(f"{HOOK}; echo x > made.txt")
    (refused,) = answer.get("refusedChanges") or answer["refused_changes"]
    assert refused["path"].removeprefix("/workspace/") == ".git/hooks/pre-commit"
    assert refused["rule"] and refused["reason"]
    assert (jp_root_dir / "made.txt").exists() and not (jp_root_dir / ".git" / "hooks" / "pre-commit").exists()


async def test_conflicts_are_named_and_can_be_applied(
    fetch: Any, run_command: Any, jp_root_dir: Path, extension: Any
) -> None:
    (jp_root_dir / "a").write_text("before\n")
    calling = asyncio.ensure_future(run_command(f"echo command > a; {WAIT}"))
    layers = extension.workspace.layered.layers
    await until(lambda: any(Path(layer.upper, "a").exists() for layer in layers.list()))
    (jp_root_dir / "a").write_text("person\n")
    (jp_root_dir / "gate").write_text("go\n")
    answer = await calling
    assert [path.removeprefix("/workspace/") for path in answer["conflicts"]] == ["a"]
    assert (jp_root_dir / "a").read_text() == "person\n"
    assert (await apply(fetch, answer["runId"])).body["events"][0]["applied"] == ["a"]
    assert (jp_root_dir / "a").read_text() == "command\n"


async def test_a_shared_call_says_so(run_command: Any, jp_root_dir: Path) -> None:
    answer = await run_command("touch made.txt", isolation="shared")
    assert answer["isolation"] == "shared" and "runId" not in answer and (jp_root_dir / "made.txt").exists()


async def test_another_isolation_is_refused(run_command: Any) -> None:
    answer = await run_command("ls", isolation="none")
    assert answer["code"] == "INVALID_ARGUMENT" and "layer" in json.dumps(answer)


@pytest.mark.parametrize(
    ("path", "fields"),
    [
        ("wap/api/writeFile", {"path": "a", "content": "x"}),
        (
            "wap/api/modifyFile",
            {"path": "data/a.csv", "operations": [DELETE]},
        ),
        ("wap/api/deleteFile", {"path": "data", "recursive": True}),
        ("wap/api/moveFile", {"source": "data", "destination": "moved"}),
        ("wap/api/copyFile", {"source": "data/a.csv", "destination": "copy"}),
        ("wap/api/createDirectory", {"path": "new"}),
        ("wap/workspace/write", {"file_path": "a", "content": "x"}),
        ("wap/workspace/edit", {"file_path": "data/a.csv", "old_string": "1", "new_string": "2"}),
    ],
)
async def test_every_changing_call_answers_its_run(
    fetch: Any, jp_root_dir: Path, path: str, fields: dict[str, Any]
) -> None:
    def tree() -> dict[str, str | None]:
        return {str(one): one.read_text() if one.is_file() else None for one in sorted(jp_root_dir.rglob("*"))}

    before = tree()
    answer = await fetch(path, method="POST", body=json.dumps(fields))
    assert answer.status == 200 and tree() != before
    assert (await fetch(f"wap/runs/{answer.body['runId']}/revert", method="POST")).body["status"] == "completed"
    assert tree() == before
    document = json.loads(build_document("/"))
    schema = document["paths"][f"/{path}"]["post"]["responses"]["200"]["content"]["application/json"]["schema"]
    jsonschema.validate(answer.body, schema)
    assert "runId" in schema["properties"]


# -- apply


async def test_what_was_left_is_applied_by_path(fetch: Any, jp_root_dir: Path) -> None:
    left = await in_conflict(fetch, jp_root_dir, "a", "b")
    assert left["events"][0]["conflicts"] == ["a", "b"]
    taken = await apply(fetch, left["runId"], {"paths": ["a"]})
    assert taken.status == 201 and taken.headers["Location"].endswith(taken.body["runId"])
    parse_events_message(taken.body)
    (event,) = taken.body["events"]
    assert (event["type"], event["run"], event["applied"]) == ("apply", left["runId"], ["a"])
    assert [(jp_root_dir / name).read_text() for name in "ab"] == ["command\n", "person\n"]
    await fetch(f"wap/runs/{taken.body['runId']}/revert", method="POST")
    assert (jp_root_dir / "a").read_text() == "person\n"
    later = await apply(fetch, left["runId"], {"paths": ["b"]}, params={"wait": "0"})
    assert later.status in (201, 202)
    assert (await ended(fetch, later.body["runId"]))["events"][0]["applied"] == ["b"]


async def test_of_an_atomic_run_nothing_is_applied_or_everything(fetch: Any, jp_root_dir: Path) -> None:
    left = await in_conflict(fetch, jp_root_dir, "a", atomic=True)
    assert left["status"] == "error" and left["events"][-1]["details"]["conflicts"] == ["a"]
    applied = await apply(fetch, left["runId"])
    assert applied.body["status"] == "completed" and (jp_root_dir / "a").read_text() == "command\n"


async def test_what_a_cancelled_command_changed_can_still_be_applied(fetch: Any, jp_root_dir: Path) -> None:
    begun = (await start(fetch, shell("echo x > made; echo begun; sleep 1000", id="sh"), wait=0)).body["runId"]
    await until_output(fetch, begun, "begun")
    assert (await apply(fetch, begun)).code == "CONFLICT", "it goes on"
    await fetch(f"wap/runs/{begun}/cancel", method="POST")
    assert not (jp_root_dir / "made").exists()
    assert (await apply(fetch, begun)).body["events"][0]["applied"] == ["made"]
    assert (jp_root_dir / "made").read_text() == "x\n"


async def test_an_agent_does_not_apply(fetch: Any, jp_root_dir: Path) -> None:
    agent = bearer(await mint(fetch))
    left = await in_conflict(fetch, jp_root_dir, "a", headers=agent)
    refused = await apply(fetch, left["runId"], headers=agent)
    assert (refused.status, refused.code) == (403, "PERMISSION_DENIED") and "person" in refused.body["error"]
    assert (jp_root_dir / "a").read_text() == "person\n"


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"paths": []}, "INVALID_ARGUMENT"),
        ({"paths": "a"}, "INVALID_ARGUMENT"),
        ({"paths": ["/etc/passwd"]}, "PERMISSION_DENIED"),
        ({"path": ["a"]}, "INVALID_ARGUMENT"),
        ({"paths": ["a" * 70_000]}, "SIZE_LIMIT_EXCEEDED"),
    ],
)
async def test_a_malformed_request_to_apply(fetch: Any, body: dict[str, Any], code: str) -> None:
    run = (await start(fetch, create("a"))).body["runId"]
    assert (await apply(fetch, run, body)).code == code


async def test_there_is_nothing_to_apply(fetch: Any) -> None:
    assert (await apply(fetch, "run_0123456789abcdef")).code == "NOT_FOUND"
    run = (await start(fetch, create("a"))).body["runId"]
    answer = await apply(fetch, run)
    assert answer.body["events"][0]["code"] == "NOT_FOUND"


async def test_a_dry_run_executes_commands_and_changes_nothing(fetch: Any, jp_root_dir: Path) -> None:
    answer = (await start(fetch, create("a"), shell("cat a; rm -r data"), dryRun=True)).body
    event = answer["events"][1]
    assert (event["stdout"], event["verdict"], event["simulated"]) == ("x", "ask", True)
    assert {one["path"] for one in event["changes"]} == {"a", "data", "data/a.csv"}
    parse_events_message(answer)
    assert sorted(os.listdir(jp_root_dir)) == ["data", "gate"]


async def test_the_workspace_says_where_changes_go(call: Any, fetch: Any) -> None:
    assert (await call("getWorkspaceInfo")).body["isolation"] == "layer"
    assert (await fetch("wap/policy")).body["isolation"] == "layer"
