"""The expiry and revocation of an agent token, on every server that shares the state."""

from __future__ import annotations

import asyncio
import json
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from jupyter_ext.tokens.store import CACHE_SECONDS, AgentTokenStore
from tests.support.agent_tokens import another_server, bearer, mint, use
from tests.support.server_fixtures import FILE
from tests.support.server_processes import LiveServer, Place
from tests.support.time_limits import growing
from wap_kernel.state.directory import workspace_id

pytestmark = pytest.mark.usefixtures("a_file")


async def test_an_expired_token_says_so(fetch: Any, tokens: AgentTokenStore, monkeypatch: pytest.MonkeyPatch) -> None:
    minted = await mint(fetch, expiresIn=60)
    assert (await use(fetch, minted, "readFile", path=FILE)).status == 200
    monkeypatch.setattr(tokens, "_now", lambda: datetime.now(timezone.utc) + timedelta(seconds=61))
    answer = await use(fetch, minted, "readFile", path=FILE)
    assert (answer.status, answer.code) == (403, "UNAUTHENTICATED")
    assert "expired" in answer.body["error"]


async def test_it_expires_by_itself(fetch: Any) -> None:
    """A token is accepted before its expiry and never after it, by the real clock."""
    for seconds in growing(1):
        minted = await mint(fetch, expiresIn=int(seconds))
        if (await use(fetch, minted, "readFile", path=FILE)).status == 200:
            break  # else the machine was too busy to use it in time
    else:
        pytest.fail("it was never taken")
    end = datetime.fromisoformat(minted["expiresAt"].replace("Z", "+00:00"))
    while True:
        asked = datetime.now(timezone.utc)
        answer = await use(fetch, minted, "readFile", path=FILE)
        if answer.status != 200:
            break
        assert asked < end
        await asyncio.sleep(0.02)
    assert datetime.now(timezone.utc) >= end
    assert (answer.status, answer.code) == (403, "UNAUTHENTICATED")
    assert "expired" in answer.body["error"]


async def test_a_chosen_end(fetch: Any) -> None:
    end = (datetime.now(timezone.utc) + timedelta(hours=2)).replace(microsecond=0)
    minted = await mint(fetch, expiresAt=end.astimezone(timezone(timedelta(hours=5))).isoformat())
    assert minted["expiresAt"] == end.isoformat(timespec="milliseconds").replace("+00:00", "Z")


async def test_a_revoked_token_says_so_at_once(fetch: Any, jp_fetch: Any) -> None:
    minted = await mint(fetch)
    assert (await use(fetch, minted, "readFile", path=FILE)).status == 200
    for _ in range(2):  # again changes nothing
        response = await jp_fetch("wap/tokens", minted["id"], method="DELETE", allow_nonstandard_methods=True)
        assert (response.code, response.body) == (204, b"")
    answer = await use(fetch, minted, "readFile", path=FILE)
    assert (answer.status, answer.code) == (403, "UNAUTHENTICATED")
    assert "revoked" in answer.body["error"]
    (listed,) = (await fetch("wap/tokens")).body["tokens"]
    assert listed["revokedAt"]


@pytest.mark.parametrize("token_id", ["000000000000", "x", "%00", "..%2F"])
async def test_revoking_an_unknown_token(fetch: Any, token_id: str) -> None:
    answer = await fetch(f"wap/tokens/{token_id}", method="DELETE")
    assert (answer.status, answer.code) == (404, "NOT_FOUND")


async def test_only_the_holder_of_the_secret_learns_why(fetch: Any) -> None:
    minted = await mint(fetch)
    wrong = f"wap_{minted['id']}_{'A' * 43}"
    unknown = f"wap_{'0' * 12}_{'A' * 43}"
    answers = [(await use(fetch, token, "readFile", path=FILE)).body for token in (wrong, unknown)]
    await fetch_delete(fetch, minted)
    answers.append((await use(fetch, wrong, "readFile", path=FILE)).body)
    assert answers[0] == answers[1] == answers[2]
    assert answers[0]["code"] == "UNAUTHENTICATED"


async def fetch_delete(fetch: Any, minted: dict[str, Any]) -> None:
    with pytest.raises(KeyError):  # 204 has no Content-Type
        await fetch(f"wap/tokens/{minted['id']}", method="DELETE")


async def test_tokens_survive_a_restart(fetch: Any, extension: Any, jp_root_dir: Path) -> None:
    minted = await mint(fetch, name="durable", tools=["readFile"])
    await extension.stop_extension()
    async with another_server(jp_root_dir) as ask:
        status, answer = await ask("POST", "wap/api/readFile", {"path": FILE}, bearer(minted))
        assert (status, answer.get("content")) == (200, "a\n")
        status, answer = await ask("POST", "wap/api/writeFile", {"path": "x", "content": ""}, bearer(minted))
        assert (status, answer["code"]) == (403, "PERMISSION_DENIED")
        assert [token["name"] for token in (await ask("GET", "wap/tokens"))[1]["tokens"]] == ["durable"]


def test_tokens_survive_the_end_of_the_process(tmp_path: Path) -> None:
    folder = Place(tmp_path)
    (folder.root / FILE).write_text("a\n")
    calls = (
        ("readFile", {"path": FILE}),
        ("exploreFiles", {"path": "."}),
        ("writeFile", {"path": "new", "content": ""}),
        ("deleteFile", {"path": FILE}),
    )

    def opened(server: LiveServer, token: dict[str, Any]) -> list[tuple[int, str | None]]:
        """The answer of every tool, by its status and code."""
        answers = [server.request("POST", f"wap/api/{tool}", json.dumps(call), **bearer(token)) for tool, call in calls]
        return [(status, body.get("code")) for status, body in answers]

    with folder.server() as server:
        order = {"name": "durable", "tools": ["readFile", "exploreFiles"]}
        stored, revoked = (server.request("POST", "wap/tokens", json.dumps(order))[1] for _ in range(2))
        before = opened(server, stored)
        assert before == [(200, None)] * 2 + [(403, "PERMISSION_DENIED")] * 2
        assert opened(server, revoked) == before
        assert server.request("DELETE", f"wap/tokens/{revoked['id']}")[0] == 204
        assert opened(server, revoked) == [(403, "UNAUTHENTICATED")] * 4
    assert server.process.poll() is not None
    with folder.server() as another:
        assert another.process.pid != server.process.pid
        assert opened(another, stored) == before
        assert opened(another, revoked) == [(403, "UNAUTHENTICATED")] * 4
        listed = {token["id"]: "revokedAt" in token for token in another.request("GET", "wap/tokens")[1]["tokens"]}
        assert listed == {stored["id"]: False, revoked["id"]: True}


async def test_a_neighbours_revocation_takes_effect(
    fetch: Any, tokens: AgentTokenStore, jp_root_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 0.0
    monkeypatch.setattr(tokens, "_clock", lambda: now)
    minted = await mint(fetch)
    assert (await use(fetch, minted, "readFile", path=FILE)).status == 200
    async with another_server(jp_root_dir) as ask:
        assert (await ask("DELETE", f"wap/tokens/{minted['id']}"))[0] == 204
    now = CACHE_SECONDS
    assert (await use(fetch, minted, "readFile", path=FILE)).code == "UNAUTHENTICATED"
    assert CACHE_SECONDS <= 1


async def test_a_token_opens_only_the_workspace_that_it_was_minted_in(
    fetch: Any, extension: Any, jp_root_dir: Path
) -> None:
    minted = await mint(fetch)
    elsewhere = AgentTokenStore(extension.workspace.state_dir, workspace_id(str(jp_root_dir.parent)), extension.log)
    try:
        with pytest.raises(Exception, match="not known"):
            await elsewhere.verify(minted["token"])
        assert await elsewhere.page(10) == ([], None)
        with pytest.raises(Exception, match="no such token"):
            await elsewhere.revoke(minted["id"])
    finally:
        await elsewhere.close()


async def test_a_server_that_is_stopping_refuses(fetch: Any, extension: Any, tokens: AgentTokenStore) -> None:
    minted = await mint(fetch)
    await extension.stop_extension()
    assert (await use(fetch, minted, "readFile", path=FILE)).code == "PROVIDER_UNAVAILABLE"
