"""GET wap/audit: for a person, newest first, page by page."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.agent_tokens import bearer, mint, use
from tests.support.http_runs import create, decide, shell, start


async def do(call: Any) -> None:
    """Four operations, the oldest first."""
    await call("writeFile", path="new.txt", content="SECRET CONTENT")
    await call("readFile", path="new.txt")
    await call("readFile", path="missing.txt")
    await call("writeFile", path="../outside.txt", content="x")


def brief(answer: Any) -> list[tuple[str, str, str | None]]:
    assert answer.status == 200, answer.body
    return [(record["tool"], record["outcome"], record.get("code")) for record in answer.body["records"]]


async def test_one_record_per_operation_newest_first(fetch: Any, call: Any, extension: Any) -> None:
    await do(call)
    answer = await fetch("wap/audit")
    assert brief(answer) == [
        ("writeFile", "denied", "PERMISSION_DENIED"),
        ("readFile", "failed", "FILE_NOT_FOUND"),
        ("readFile", "ok", None),
        ("writeFile", "ok", None),
    ]
    assert "nextCursor" not in answer.body
    written = answer.body["records"][3]
    assert written["summary"] == {"path": "new.txt"}
    assert written["workspaceId"] == extension.workspace.id
    assert written["at"].endswith("Z")
    assert written["durationMs"] >= 0
    assert written["dialect"] == "wap"
    fields = "id at dialect tool operation workspaceId user outcome durationMs summary runId operationId"
    assert set(written) == set(fields.split())
    assert "SECRET" not in str(answer.body)


async def test_an_operation_that_asks_is_recorded_as_asked(fetch: Any, call: Any, jp_root_dir: Any) -> None:
    (jp_root_dir / "data").mkdir()
    answer = await call("executeCommand", command="rm -rf data/")
    assert answer.code == "APPROVAL_REQUIRED"
    (asked,) = (await fetch("wap/audit", params={"outcome": "asked"})).body["records"]
    assert (asked["tool"], asked["code"]) == ("executeCommand", "APPROVAL_REQUIRED")
    assert (await fetch("wap/audit", params={"outcome": "denied"})).body["records"] == []
    details = answer.body["details"]
    denied = await decide(fetch, details["runId"], "denied", approvalId=details["approvalId"])
    assert denied.status == 200
    assert brief(await fetch("wap/audit"))[-1] == ("executeCommand", "asked", "APPROVAL_REQUIRED")


async def test_a_run_that_asks_is_recorded_as_asked(fetch: Any, jp_root_dir: Any) -> None:
    (jp_root_dir / "data").mkdir()
    run = (await start(fetch, create("a"), shell("rm -rf data/"))).body["runId"]
    (asked,) = (await fetch("wap/audit", params={"outcome": "asked"})).body["records"]
    assert (asked["tool"], asked["runId"]) == ("shell", run)


@pytest.mark.parametrize(
    ("claimed", "recorded"),
    [
        ("{root}/a/Größe.ipynb", "a/Größe.ipynb"),
        ("/elsewhere/b.ipynb", "/elsewhere/b.ipynb"),
        ("x\u202e\u0085y.ipynb", "xy.ipynb"),
        ("d/" * 300 + "c.ipynb", ("d/" * 300 + "c.ipynb")[-200:]),
    ],
)
async def test_the_notebook_is_recorded_as_claimed(fetch: Any, jp_root_dir: Any, claimed: str, recorded: str) -> None:
    header = claimed.format(root=jp_root_dir).encode().decode("latin-1")
    headers = {"X-Wap-Notebook": header, "X-Wap-Session": "kernel-1"}
    await fetch("wap/api/getWorkspaceInfo", method="POST", body="{}", headers=headers)
    (record,) = (await fetch("wap/audit")).body["records"]
    assert (record["notebook"], record["session"]) == (recorded, "kernel-1")


async def test_page_by_page(fetch: Any, call: Any) -> None:
    await do(call)
    whole = (await fetch("wap/audit")).body["records"]
    pages: list[Any] = []
    cursor: dict[str, str] = {}
    while True:
        answer = await fetch("wap/audit", params={"limit": "3", **cursor})
        pages.append(answer.body["records"])
        if "nextCursor" not in answer.body:
            break
        cursor = {"cursor": answer.body["nextCursor"]}
    assert [len(page) for page in pages] == [3, 1]
    assert [record for page in pages for record in page] == whole


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ({"tool": "readFile"}, ["failed", "ok"]),
        ({"tool": "writeFile"}, ["denied", "ok"]),
        ({"tool": "bash"}, []),
        ({"outcome": "ok"}, ["ok", "ok"]),
        ({"outcome": "denied"}, ["denied"]),
        ({"outcome": "unfinished"}, []),
        ({"tool": "readFile", "outcome": "failed"}, ["failed"]),
    ],
)
async def test_filters(fetch: Any, call: Any, query: dict[str, str], found: list[str]) -> None:
    await do(call)
    answer = await fetch("wap/audit", params=query)
    assert [outcome for _, outcome, _ in brief(answer)] == found


async def test_a_command_goes_by_both_of_its_names(fetch: Any, call: Any) -> None:
    await call("executeCommand", command="true")
    for name in ("executeCommand", "runCommand"):
        (record,) = (await fetch("wap/audit", params={"tool": name})).body["records"]
        assert (record["tool"], record["operation"]) == ("executeCommand", "runCommand")


async def test_what_never_ended_is_unfinished(fetch: Any, call: Any, extension: Any) -> None:
    await do(call)
    extension.workspace.database.write(
        lambda connection: connection.execute("DELETE FROM audit WHERE phase = 'outcome' AND outcome = 'ok'")
    )
    answer = await fetch("wap/audit", params={"outcome": "unfinished"})
    # The intent of a read stands there only if it was written before the read was over.
    assert [record for record in brief(answer) if record[0] != "readFile"] == [("writeFile", "unfinished", None)]


async def test_another_workspace_of_the_same_state_is_not_shown(fetch: Any, call: Any, extension: Any) -> None:
    await do(call)
    extension.workspace.database.write(lambda connection: connection.execute("UPDATE audit SET workspace = 'other'"))
    assert brief(await fetch("wap/audit")) == []


@pytest.mark.parametrize(
    "query",
    [{"limit": "0"}, {"limit": "1001"}, {"limit": "x"}, {"cursor": "x"}, {"cursor": "-1"}, {"outcome": "good"}],
)
async def test_what_makes_no_sense_is_refused(fetch: Any, query: dict[str, str]) -> None:
    answer = await fetch("wap/audit", params=query)
    assert (answer.status, answer.code) == (400, "INVALID_ARGUMENT")


async def test_an_agent_is_recorded_and_not_let_in(fetch: Any, jp_root_dir: Any) -> None:
    (jp_root_dir / "a.txt").write_text("a\n")
    token = await mint(fetch)
    await use(fetch, token, "readFile", path="a.txt")
    refused = await fetch("wap/audit", headers=bearer(token))
    assert (refused.status, refused.code) == (403, "PERMISSION_DENIED")
    door, read, _minted = (await fetch("wap/audit")).body["records"]
    assert (door["tool"], door["outcome"], door["token"]) == ("audit", "denied", token["id"])
    assert (read["tool"], read["outcome"], read["agent"], read["token"]) == ("readFile", "ok", "an agent", token["id"])
