"""Grants over REST: what a person lets be remembered is not asked about again, until they take it back."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.agent_tokens import bearer, mint
from tests.support.http_runs import Notes, decide, shell, start

CHANGE = shell("chmod 600 a", id="shell-1")


pytestmark = pytest.mark.wap_settings(allow_unconfined=True)


async def _granted(fetch: Any) -> dict[str, Any]:
    run = (await start(fetch, CHANGE)).body["runId"]
    assert (await decide(fetch, run, "approved", operationId="shell-1", remember=True)).status == 200
    (grant,) = (await fetch("wap/grants")).body["grants"]
    found: dict[str, Any] = grant
    return found


async def test_what_is_remembered_is_not_asked_again_until_it_is_revoked(
    fetch: Any, jp_fetch: Any, jp_root_dir: Any
) -> None:
    assert (await fetch("wap/grants")).body == {"grants": []}
    grant = await _granted(fetch)
    assert set(grant) == {"id", "allows", "createdAt", "createdBy"}
    assert grant["allows"] == "chmod 600 a"
    assert grant["createdAt"].endswith("Z")
    (jp_root_dir / "a").touch(mode=0o644)
    again = await start(fetch, CHANGE)
    assert (again.status, again.body["status"]) == (201, "completed")
    assert (jp_root_dir / "a").stat().st_mode & 0o777 == 0o600
    assert (await start(fetch, shell("chmod 700 a"))).body["status"] == "awaiting_approval"

    revoked = await jp_fetch(f"wap/grants/{grant['id']}", method="DELETE")
    assert (revoked.code, revoked.body) == (204, b"")
    assert (await fetch("wap/grants")).body == {"grants": []}
    assert (await start(fetch, CHANGE)).body["status"] == "awaiting_approval"


async def test_an_approval_is_for_once(fetch: Any) -> None:
    run = (await start(fetch, CHANGE)).body["runId"]
    await decide(fetch, run, "approved", operationId="shell-1")
    assert (await fetch("wap/grants")).body == {"grants": []}
    assert (await start(fetch, CHANGE)).body["status"] == "awaiting_approval"


async def test_what_is_not_grantable_is_asked_again(fetch: Any) -> None:
    operation = shell("rm -r data", id="shell-1")
    for _ in range(2):
        asked = (await start(fetch, operation)).body
        assert asked["status"] == "awaiting_approval"
        assert "remember" not in asked["pendingApproval"]  # there is nothing to offer
        await decide(fetch, asked["runId"], "approved", operationId="shell-1", remember=True)
    assert (await fetch("wap/grants")).body == {"grants": []}


async def test_the_newest_comes_first(fetch: Any) -> None:
    for command in ("chmod 600 one", "chmod 600 two"):
        run = (await start(fetch, shell(command, id="shell-1"))).body["runId"]
        await decide(fetch, run, "approved", operationId="shell-1", remember=True)
    allowed = [grant["allows"] for grant in (await fetch("wap/grants")).body["grants"]]
    assert allowed == ["chmod 600 two", "chmod 600 one"]


async def test_a_grant_that_is_not_there(fetch: Any) -> None:
    answer = await fetch("wap/grants/none", method="DELETE")
    assert (answer.status, answer.code) == (404, "NOT_FOUND")


@pytest.mark.parametrize(
    ("method", "path", "action"), [("GET", "wap/grants", "read"), ("DELETE", "wap/grants/x", "write")]
)
async def test_grants_are_a_persons(fetch: Any, jp_serverapp: Any, method: str, path: str, action: str) -> None:
    minted = await mint(fetch)
    answer = await fetch(path, method=method, headers=bearer(minted))
    assert (answer.status, answer.code) == (403, "PERMISSION_DENIED")
    for authorization in ("", "token wrong", "Bearer wrong"):
        answer = await fetch(path, method=method, headers={"Authorization": authorization})
        assert (answer.status, answer.code) == (403, "UNAUTHENTICATED")
    notes = jp_serverapp.web_app.settings["authorizer"] = Notes(parent=jp_serverapp)
    notes.refused = (action,)
    answer = await fetch(path, method=method)
    assert (answer.status, answer.code) == (403, "PERMISSION_DENIED")
    assert notes.asked == [(action, "wap_approvals")]


async def test_what_people_do_about_agents_is_recorded(fetch: Any, jp_fetch: Any) -> None:
    minted = await fetch("wap/tokens", method="POST", body='{"name": "helper"}')
    assert minted.status == 201
    await jp_fetch("wap", "tokens", minted.body["id"], method="DELETE")
    records = (await fetch("wap/audit", params={"tool": "administer"})).body["records"]
    assert [record["tool"] for record in records] == ["revokeToken", "mintToken"]
    assert records[1]["summary"]["subject"] == f"{minted.body['id']} helper"
    assert minted.body["token"] not in str(records)
