"""Runs over REST: a batch in, events out, now or later; listing, reading back, cancelling and undoing."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from tests.support.http_runs import batch, create, ended, read, shell, start, types, until
from wap_kernel.dialects.agent_spaces.event_models import parse_events_message

ENDLESS = "echo begun; touch begun; sleep 1000"


pytestmark = pytest.mark.wap_settings(allow_unconfined=True)


async def test_a_batch_and_its_events(fetch: Any, jp_base_url: str, jp_root_dir: Any) -> None:
    answer = await start(
        fetch,
        {"type": "message", "id": "msg-1", "content": "Starting..."},
        create("app.py", "print(6 * 7)\n", id="file-1"),
        shell("python3 app.py", id="shell-1"),
        read("app.py"),
    )
    assert answer.status == 201
    message = answer.body
    assert answer.headers["Location"] == f"{jp_base_url}wap/runs/{message['runId']}"
    assert (message["protocolVersion"], message["status"]) == ("1.0", "completed")
    assert types(message) == ["message", "createFile", "shell", "readFile"]
    assert [event["operationId"] for event in message["events"]] == ["msg-1", "file-1", "shell-1", "op-4"]
    assert message["events"][2]["stdout"] == "42\n"
    assert message["startedAt"].endswith("Z")
    assert message["completedAt"].endswith("Z")
    assert "pendingApproval" not in message
    parse_events_message(message)
    assert (await fetch(f"wap/runs/{message['runId']}")).body == message
    assert (jp_root_dir / "app.py").read_text() == "print(6 * 7)\n"


async def test_an_empty_batch_is_a_run(fetch: Any) -> None:
    answer = await start(fetch)
    assert (answer.status, answer.body["status"], answer.body["events"]) == (201, "completed", [])


async def test_a_failed_operation_does_not_stop_the_rest(fetch: Any, jp_root_dir: Any) -> None:
    answer = await start(fetch, read("missing"), create("made"))
    assert [event["success"] for event in answer.body["events"]] == [False, True]
    assert (answer.status, answer.body["status"]) == (201, "completed")


WRONG = {
    "no JSON": ("{", "JSON"),
    "no version": ('{"operations": []}', "protocolVersion"),
    "an unknown type": (batch({"type": "dance"}), "operations.0"),
    "an unknown field": (batch(create("a"), create("b", colour="red")), "operations.1"),
    "a path that leaves": (batch(create("../a")), "operations.0"),
    "two of one id": (batch(create("a", id="x"), create("b", id="x")), "operations.1"),
}


@pytest.mark.parametrize(("body", "named"), WRONG.values(), ids=WRONG.keys())
async def test_a_malformed_operation_refuses_the_whole_message(
    fetch: Any, jp_root_dir: Any, body: str, named: str
) -> None:
    answer = await fetch("wap/runs", method="POST", body=body)
    assert (answer.status, answer.code) == (400, "INVALID_ARGUMENT")
    assert named in answer.body["error"]
    assert list(jp_root_dir.iterdir()) == []
    assert (await fetch("wap/runs")).body == {"runs": []}


@pytest.mark.parametrize("wait", ["-1", "3601", "soon", "nan", "inf", "1_0", " 1", "", "\u0661"])
async def test_a_wait_that_is_none(fetch: Any, wait: str) -> None:
    for path in ("wap/runs", "wap/runs/x/decision", "wap/runs/x/revert"):
        answer = await fetch(path, method="POST", body=batch(), params={"wait": wait})
        assert (answer.status, answer.code, "wait" in answer.body["error"]) == (400, "INVALID_ARGUMENT", True)


async def test_a_long_command_in_the_background(fetch: Any, jp_root_dir: Any) -> None:
    begun = await start(fetch, shell(ENDLESS, id="long", timeout=600_000), create("after"), wait=0)
    assert (begun.status, begun.body["status"]) == (202, "running")
    run = begun.body["runId"]
    await until((jp_root_dir / "begun").exists)
    looked = await fetch(f"wap/runs/{run}")
    assert (looked.status, looked.body["status"]) == (200, "running")
    assert "completedAt" not in looked.body
    cancelled = await fetch(f"wap/runs/{run}/cancel", method="POST")
    assert cancelled.status == 200
    message = await ended(fetch, run)
    assert message["status"] == "cancelled"
    assert not (jp_root_dir / "after").exists()
    output = (await fetch(f"wap/runs/{run}/output/long")).body
    assert output["content"] == "begun\n"


async def test_waiting_ends_when_the_time_is_over(fetch: Any) -> None:
    answer = await start(fetch, shell("sleep 1000", timeout=600_000), wait=0.05)
    assert (answer.status, answer.body["status"]) == (202, "running")
    await fetch(f"wap/runs/{answer.body['runId']}/cancel", method="POST")


async def test_cancelling_what_has_ended(fetch: Any) -> None:
    run = (await start(fetch)).body["runId"]
    late = await fetch(f"wap/runs/{run}/cancel", method="POST")
    assert (late.status, late.code) == (409, "CONFLICT")
    run = (await start(fetch, shell("sleep 1000", timeout=600_000), wait=0)).body["runId"]
    for _ in range(2):  # whoever repeats the request has what they wanted
        cancelled = await fetch(f"wap/runs/{run}/cancel", method="POST")
        assert (cancelled.status, cancelled.body["status"]) == (200, "cancelled")


async def test_all_or_nothing(fetch: Any, jp_root_dir: Any) -> None:
    answer = await start(fetch, create("a"), read("missing"), create("b"), atomic=True)
    assert (answer.status, answer.body["status"], answer.body["atomic"]) == (201, "error", True)
    assert types(answer.body) == ["createFile", "readFile", "error"]
    assert list(jp_root_dir.iterdir()) == []


async def test_a_dry_run_changes_nothing(fetch: Any, jp_root_dir: Any) -> None:
    answer = await start(fetch, create("a"), read("a"), dryRun=True)
    assert (answer.status, answer.body["status"], answer.body["dryRun"]) == (201, "completed", True)
    assert answer.body["events"][1]["content"] == "x"
    assert list(jp_root_dir.iterdir()) == []


async def test_a_client_that_hangs_up_does_not_cancel_the_run(
    fetch: Any, jp_root_dir: Any, http_server_client: Any, jp_base_url: str, jp_auth_header: dict[str, str]
) -> None:
    body = batch(shell("touch begun; while [ ! -e go ]; do sleep 0.02; done; touch done", timeout=60_000)).encode()
    _, writer = await asyncio.open_connection("127.0.0.1", http_server_client.get_http_port())
    head = f"POST {jp_base_url}wap/runs HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n"
    head += "".join(f"{name}: {value}\r\n" for name, value in jp_auth_header.items())
    writer.write(head.encode() + b"\r\n" + body)
    await until((jp_root_dir / "begun").exists)
    writer.close()
    await writer.wait_closed()
    (listed,) = (await fetch("wap/runs")).body["runs"]
    assert listed["status"] == "running"
    (jp_root_dir / "go").touch()
    assert (await ended(fetch, listed["runId"]))["status"] == "completed"
    assert (jp_root_dir / "done").exists()


async def test_output_page_by_page(fetch: Any) -> None:
    answer = await start(fetch, shell("seq 1 20000; seq 1 10 >&2", id="a b"))
    run, whole = answer.body["runId"], "".join(f"{number}\n" for number in range(1, 20001))
    pages, offset = [], 0
    while True:
        page = (await fetch(f"wap/runs/{run}/output/a b", params={"offset": str(offset), "limit": "30000"})).body
        pages.append(page["content"])
        if "nextOffset" not in page:
            break
        offset = page["nextOffset"]
    assert "".join(pages) == whole
    assert len(pages) == -(-len(whole) // 30000)
    errors = (await fetch(f"wap/runs/{run}/output/a b", params={"stream": "stderr"})).body
    assert errors["content"] == "".join(f"{number}\n" for number in range(1, 11))


@pytest.mark.parametrize(
    "params", [{"stream": "stdin"}, {"offset": "-1"}, {"limit": "0"}, {"limit": str(2**40)}, {"offset": "x"}]
)
async def test_wrong_questions_about_output(fetch: Any, params: dict[str, str]) -> None:
    run = (await start(fetch, shell("true", id="one"))).body["runId"]
    answer = await fetch(f"wap/runs/{run}/output/one", params=params)
    assert (answer.status, answer.code) == (400, "INVALID_ARGUMENT")
    assert next(iter(params)) in answer.body["error"]


async def test_what_is_not_there(fetch: Any) -> None:
    run = (await start(fetch, read("a"))).body["runId"]
    gets = ["wap/runs/none", "wap/runs/none/changes", "wap/runs/none/stream", "wap/runs/none/output/x"]
    for path in (*gets, f"wap/runs/{run}/output/none", "wap/runs/none/", f"wap/runs/{run}/nothing"):
        answer = await fetch(path)
        assert (answer.status, answer.code) == (404, "NOT_FOUND"), path
    decision = json.dumps({"approvalId": "x", "decision": "approved"})
    for path in ("wap/runs/none/cancel", "wap/runs/none/revert", "wap/runs/none/decision"):
        answer = await fetch(path, method="POST", body=decision if path.endswith("decision") else None)
        assert (answer.status, answer.code) == (404, "NOT_FOUND"), path


async def test_the_list_is_newest_first_and_comes_in_pages(fetch: Any) -> None:
    runs = [(await start(fetch, *[read("a")] * count)).body["runId"] for count in range(5)]
    pages, params = [], {"limit": "2"}
    while True:
        page = (await fetch("wap/runs", params=params)).body
        pages.append([(run["runId"], run["operations"]) for run in page["runs"]])
        if "nextCursor" not in page:
            break
        params["cursor"] = page["nextCursor"]
    expected = list(zip(runs, range(5), strict=True))[::-1]
    assert pages == [expected[:2], expected[2:4], expected[4:]]
    (newest, *_) = (await fetch("wap/runs", headers={"X-Wap-Agent": "somebody"})).body["runs"]
    assert set(newest) == {"runId", "status", "user", "dialect", "startedAt", "completedAt", "operations", "problems"}
    assert newest["problems"] == 4, "there is no such file"


async def test_the_list_by_status(fetch: Any) -> None:
    run = (await start(fetch)).body["runId"]
    assert [one["runId"] for one in (await fetch("wap/runs", params={"status": "completed"})).body["runs"]] == [run]
    assert (await fetch("wap/runs", params={"status": "awaiting_approval"})).body == {"runs": []}


@pytest.mark.parametrize("params", [{"status": "asleep"}, {"limit": "0"}, {"limit": "1001"}, {"cursor": "nonsense"}])
async def test_wrong_questions_about_the_list(fetch: Any, params: dict[str, str]) -> None:
    answer = await fetch("wap/runs", params=params)
    assert (answer.status, answer.code) == (400, "INVALID_ARGUMENT")


async def test_who_asked_is_named(fetch: Any) -> None:
    await start(fetch, headers={"X-Wap-Agent": "somebody"})
    (listed,) = (await fetch("wap/runs")).body["runs"]
    assert listed["agent"] == "somebody"


# ---------------------------------------------------------------------- repeated requests


async def test_a_repeated_request_answers_the_first_run(fetch: Any, jp_root_dir: Any) -> None:
    operation, headers = shell("echo once >> log"), {"Idempotency-Key": "a key: 1"}
    first = await start(fetch, operation, headers=headers)
    second = await start(fetch, operation, headers=headers)
    assert (second.status, second.body) == (first.status, first.body)
    assert second.headers["Location"] == first.headers["Location"]
    assert (jp_root_dir / "log").read_text() == "once\n"
    other = await start(fetch, create("other"), headers=headers)
    assert (other.status, other.code) == (409, "CONFLICT")
    assert not (jp_root_dir / "other").exists()
    assert (await start(fetch, operation, headers={"Idempotency-Key": "another"})).status == 201
    assert (jp_root_dir / "log").read_text() == "once\nonce\n"


async def test_a_request_that_is_repeated_while_the_first_runs(fetch: Any, jp_root_dir: Any) -> None:
    operation, headers = shell("echo once >> log; while [ ! -e go ]; do sleep 0.02; done"), {"Idempotency-Key": "key"}
    waiting = [asyncio.ensure_future(start(fetch, operation, headers=headers)) for _ in range(4)]
    await until((jp_root_dir / "log").exists)
    (jp_root_dir / "go").touch()
    answers = await asyncio.gather(*waiting)
    assert len({answer.body["runId"] for answer in answers}) == 1
    assert {answer.status for answer in answers} == {201}
    assert (jp_root_dir / "log").read_text() == "once\n"


@pytest.mark.parametrize("key", ["", "x" * 201, "caf\xe9", "a\tb"])
async def test_a_key_that_is_none(fetch: Any, key: str) -> None:
    answer = await start(fetch, headers={"Idempotency-Key": key})
    assert (answer.status, answer.code, "Idempotency-Key" in answer.body["error"]) == (400, "INVALID_ARGUMENT", True)


# ---------------------------------------------------------------------- undo


async def test_a_run_is_undone_by_a_run(fetch: Any, jp_base_url: str, jp_root_dir: Any) -> None:
    (jp_root_dir / "a").write_text("before\n")
    run = (await start(fetch, create("a", "after\n", overwrite=True), create("new/b"))).body["runId"]
    changes = (await fetch(f"wap/runs/{run}/changes")).body["changes"]
    assert {change["path"] for change in changes} >= {"a", "new/b"}
    assert "-before\n+after\n" in next(change["diff"] for change in changes if change["path"] == "a")

    undone = await fetch(f"wap/runs/{run}/revert", method="POST")
    assert (undone.status, undone.body["status"]) == (201, "completed")
    assert undone.body["runId"] != run
    assert undone.headers["Location"] == f"{jp_base_url}wap/runs/{undone.body['runId']}"
    assert [path.name for path in jp_root_dir.iterdir()] == ["a"]
    assert (jp_root_dir / "a").read_text() == "before\n"

    redone = await fetch(f"wap/runs/{undone.body['runId']}/revert", method="POST", body='{"force": false}')
    assert redone.status == 201
    assert (jp_root_dir / "a").read_text() == "after\n"


async def test_a_later_change_is_not_lost(fetch: Any, jp_root_dir: Any) -> None:
    (jp_root_dir / "a").write_text("before\n")
    run = (await start(fetch, create("a", "after\n", overwrite=True))).body["runId"]
    (jp_root_dir / "a").write_text("by a person\n")
    refused = await fetch(f"wap/runs/{run}/revert", method="POST")
    assert (refused.status, refused.code, refused.body["details"]["paths"]) == (409, "CONFLICT", ["a"])
    assert (jp_root_dir / "a").read_text() == "by a person\n"
    forced = await fetch(f"wap/runs/{run}/revert", method="POST", body='{"force": true}')
    assert forced.status == 201
    assert (jp_root_dir / "a").read_text() == "before\n"


@pytest.mark.parametrize("body", ['{"force": "yes"}', "[]", "{", '{"farce": true}'])
async def test_wrong_bodies_of_a_revert(fetch: Any, body: str) -> None:
    run = (await start(fetch)).body["runId"]
    answer = await fetch(f"wap/runs/{run}/revert", method="POST", body=body)
    assert (answer.status, answer.code) == (400, "INVALID_ARGUMENT")
