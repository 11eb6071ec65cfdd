"""Routes that need a person: no agent token opens them, however it is sent."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from jupyter_ext.handlers.routes import ROUTES
from tests.support.agent_tokens import bearer, forms, mint
from tests.support.http_runs import decide, shell, start
from tests.support.routes import DOORS, Door

PEOPLE_ONLY = [pattern for pattern, handler in ROUTES if not handler.open_to_agents]


pytestmark = pytest.mark.wap_settings(allow_unconfined=True)


def test_some_routes_need_a_person() -> None:
    assert {r"/wap/tokens", r"/wap/tokens/([^/]+)"} <= set(PEOPLE_ONLY)


async def test_what_needs_a_person_is_closed_to_agents(fetch: Any) -> None:
    minted = await mint(fetch)
    for pattern in PEOPLE_ONLY:
        path = pattern.replace("([^/]+)", minted["id"]).strip("/")
        for method in ("GET", "POST", "DELETE", "PUT", "PATCH"):
            answer = await fetch(path, method=method, headers=bearer(minted))
            assert (answer.status, answer.code) == (403, "PERMISSION_DENIED"), (method, path)
    (listed,) = (await fetch("wap/tokens")).body["tokens"]
    assert "revokedAt" not in listed


def _doors(ids: dict[str, str], approval: str) -> Iterator[Door]:
    """Every request that needs a person, about what is really there, in an order in which each can be made."""
    found = set()
    for door in DOORS:
        for pattern in PEOPLE_ONLY:
            if re.fullmatch(pattern, f"/{door.path}"):
                found.add(pattern)
                fields = (
                    {**(door.fields or {}), "approvalId": approval} if pattern.endswith("/decision") else door.fields
                )
                yield door._replace(path=door.path.replace("/x", f"/{ids.get(pattern)}"), fields=fields)
    assert found == set(PEOPLE_ONLY)


async def test_an_agent_does_nothing_of_a_persons_in_any_form(fetch: Any, jp_fetch: Any, jp_root_dir: Path) -> None:
    (jp_root_dir / "data").mkdir()
    minted = await mint(fetch)
    asked = (await start(fetch, shell("chmod 600 data", id="shell-1"))).body["runId"]
    await decide(fetch, asked, "approved", operationId="shell-1", remember=True)
    (grant,) = (await fetch("wap/grants")).body["grants"]
    run = (await start(fetch, shell("rm -rf data"), headers=bearer(minted))).body
    ids = {
        "/wap/runs/([^/]+)/decision": run["runId"],
        "/wap/runs/([^/]+)/apply": run["runId"],
        "/wap/grants/([^/]+)": grant["id"],
        "/wap/tokens/([^/]+)": minted["id"],
    }
    doors = list(_doors(ids, run["pendingApproval"]["approvalId"]))
    before = [(await fetch(path)).body for path in ("wap/grants", "wap/tokens")]

    for door in doors:
        for number, (headers, params) in enumerate(forms(minted["token"])):
            answer = await fetch(door.path, method=door.method, body=door.body, headers=headers, params=params)
            code = "PERMISSION_DENIED" if number == 0 else "UNAUTHENTICATED"
            assert (answer.status, answer.code) == (403, code), (door.name, headers, params)

    assert (jp_root_dir / "data").exists()
    assert (await fetch(f"wap/runs/{run['runId']}")).body["status"] == "awaiting_approval"
    after = [(await fetch(path)).body for path in ("wap/grants", "wap/tokens")]
    after[1]["tokens"][0].pop("lastUsedAt")
    before[1]["tokens"][0].pop("lastUsedAt")
    assert after == before
    for door in doors:  # a person who asks for the same gets it
        response = await jp_fetch(door.path, method=door.method, body=door.body)
        assert response.code in (200, 201, 204), door.name
    assert not (jp_root_dir / "data").exists()
