"""Agent tokens over HTTP: what is minted, what it opens, and when it ends."""

from __future__ import annotations

import json
import re
import sqlite3
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from jupyter_server.auth import Authorizer, IdentityProvider, User

from jupyter_ext.definitions import known_tools
from jupyter_ext.tokens import FRESH_SECONDS, AgentTokens
from tests.jupyter_ext.agents import another_server, bearer, mint, use
from wap_kernel.dialects import wap
from wap_kernel.runs.state import workspace_id

FILE = "a.txt"


@pytest.fixture(autouse=True)
def file(jp_root_dir: Any) -> None:
    (jp_root_dir / FILE).write_text("a\n")


@pytest.fixture
def tokens(jp_serverapp: Any) -> AgentTokens:
    found: AgentTokens = jp_serverapp.web_app.settings["wap_tokens"]
    return found


@pytest.fixture
def state(extension: Any) -> sqlite3.Connection:
    connection = sqlite3.connect(Path(extension.workspace.state_dir, "state.db"))
    connection.row_factory = sqlite3.Row
    return connection


# ------------------------------------------------------------------ minting


async def test_what_is_minted(fetch: Any) -> None:
    before = datetime.now(timezone.utc)
    minted = await mint(fetch, name="Lab assistant", tools=["readFile", "searchFiles", "readFile"], preset="standard")
    assert re.fullmatch(r"wap_[0-9a-f]{12}_[A-Za-z0-9_-]{43}", minted["token"])
    assert minted["id"] == minted["token"].split("_")[1]
    assert (minted["name"], minted["tools"], minted["preset"]) == (
        "Lab assistant",
        ["readFile", "searchFiles"],
        "standard",
    )
    ends = datetime.fromisoformat(minted["expiresAt"].replace("Z", "+00:00"))
    assert minted["expiresAt"].endswith("Z")
    assert timedelta(days=7) - timedelta(seconds=1) <= ends - before <= timedelta(days=7, minutes=1)
    assert set(minted["limits"]) == {"concurrentOperations", "commandsPerMinute", "bytesWrittenPerDay"}


async def test_a_plain_token_says_nothing_that_it_does_not_have(fetch: Any) -> None:
    minted = await mint(fetch)
    assert not {"tools", "preset", "policy", "revokedAt", "lastUsedAt", "vouched", "scope"} & set(minted)


WRONG: dict[str, dict[str, Any]] = {
    "no name": {"name": None},
    "an empty name": {"name": ""},
    "a blank name": {"name": "   "},
    "a long name": {"name": "x" * 101},
    "a newline in the name": {"name": "a\nb"},
    "an escape in the name": {"name": "a\x1b[31m"},
    "an override in the name": {"name": "a\u202eb"},
    "an unknown tool": {"tools": ["readFile", "sudo"]},
    "no tool at all": {"tools": []},
    "an unknown preset": {"preset": "anything goes"},
    "an unknown field of a policy": {"policy": {"filesystem": {"acess": "read"}}},
    "a policy that is none": {"policy": ["read"]},
    "a pattern that selects nothing": {"policy": {"allowedPaths": ["../**"]}},
    "a life of nothing": {"expiresIn": 0},
    "a life of years": {"expiresIn": 367 * 86400},
    "an end in the past": {"expiresAt": "2020-01-01T00:00:00Z"},
    "an end far away": {"expiresAt": "2999-01-01T00:00:00Z"},
    "an end without a zone": {"expiresAt": "2999-01-01T00:00:00"},
    "two ends": {"expiresIn": 60, "expiresAt": "2999-01-01T00:00:00Z"},
    "an unknown limit": {"limits": {"beers": 1}},
    "a limit below nothing": {"limits": {"commandsPerMinute": -1}},
    "no operation at once": {"limits": {"concurrentOperations": 0}},
    "an unknown field": {"colour": "red"},
}


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG.keys())
async def test_a_wrong_request_is_an_invalid_argument(fetch: Any, wrong: dict[str, Any]) -> None:
    answer = await fetch("wap/tokens", method="POST", body=json.dumps({"name": "x", **wrong}))
    assert (answer.status, answer.code) == (400, "INVALID_ARGUMENT")
    assert (await fetch("wap/tokens")).body == {"tokens": []}


async def test_an_unknown_tool_or_preset_names_the_known_ones(fetch: Any) -> None:
    tool = await fetch("wap/tokens", method="POST", body='{"name": "x", "tools": ["sudo"]}')
    assert all(name in tool.body["error"] for name in known_tools())
    preset = await fetch("wap/tokens", method="POST", body='{"name": "x", "preset": "none"}')
    assert all(name in preset.body["error"] for name in ("restrictive", "standard", "permissive"))


async def test_a_very_long_description_is_refused(fetch: Any) -> None:
    policy = {"filesystem": {"deniedPaths": ["x" * 1000] * 100}}
    answer = await fetch("wap/tokens", method="POST", body=json.dumps({"name": "x", "policy": policy}))
    assert (answer.status, answer.code) == (413, "SIZE_LIMIT_EXCEEDED")


async def test_only_a_hash_is_kept(fetch: Any, state: sqlite3.Connection) -> None:
    minted = await mint(fetch)
    secret = minted["token"].rpartition(f"{minted['id']}_")[2]
    (row,) = state.execute("SELECT * FROM tokens").fetchall()
    assert not any(secret in str(value) for value in tuple(row))
    assert re.fullmatch("[0-9a-f]{64}", row["digest"])


# ------------------------------------------------------------------ listing


async def test_the_list_is_newest_first_and_without_secrets(fetch: Any) -> None:
    minted = [await mint(fetch, name=f"agent {number % 2}") for number in range(5)]
    listed = (await fetch("wap/tokens")).body
    assert [token["id"] for token in listed["tokens"]] == [token["id"] for token in reversed(minted)]
    assert "nextCursor" not in listed
    text = json.dumps(listed)
    assert not any(word in text for word in ("digest", '"token"', *(token["token"] for token in minted)))
    for token in listed["tokens"]:
        assert {"id", "name", "createdAt", "createdBy", "expiresAt", "limits"} == set(token)


async def test_pages_cover_the_list(fetch: Any) -> None:
    minted = [(await mint(fetch))["id"] for _ in range(5)]
    seen: list[str] = []
    params = {"limit": "2"}
    while True:
        page = (await fetch("wap/tokens", params=params)).body
        seen += [token["id"] for token in page["tokens"]]
        if "nextCursor" not in page:
            break
        params["cursor"] = page["nextCursor"]
    assert seen == list(reversed(minted))


@pytest.mark.parametrize("params", [{"limit": "0"}, {"limit": "x"}, {"limit": "99999"}, {"cursor": "none"}])
async def test_wrong_pages_are_invalid_arguments(fetch: Any, params: dict[str, str]) -> None:
    answer = await fetch("wap/tokens", params=params)
    assert (answer.status, answer.code) == (400, "INVALID_ARGUMENT")


async def test_the_last_use_is_noted_to_the_minute(fetch: Any) -> None:
    minted = await mint(fetch)
    await use(fetch, minted, "getWorkspaceInfo")
    (listed,) = (await fetch("wap/tokens")).body["tokens"]
    assert listed["lastUsedAt"].endswith(":00.000Z")


# ------------------------------------------------------------------ scope


async def test_a_token_opens_its_tools_and_no_others(fetch: Any, jp_root_dir: Any) -> None:
    minted = await mint(fetch, tools=["readFile", "exploreFiles"])
    assert (await use(fetch, minted, "readFile", path=FILE)).body["content"] == "a\n"
    for tool in set(wap.TOOLS) - {"readFile", "exploreFiles"}:
        # Before the body is read: it is not even JSON.
        answer = await fetch(f"wap/api/{tool}", method="POST", body="{", headers=bearer(minted))
        assert (answer.status, answer.code) == (403, "PERMISSION_DENIED"), tool
        assert "readFile, exploreFiles" in answer.body["error"]
        assert answer.body["details"] == {"allowedTools": ["readFile", "exploreFiles"]}
    assert [entry.name for entry in jp_root_dir.iterdir()] == [FILE]


async def test_without_tools_named_it_opens_all(fetch: Any) -> None:
    minted = await mint(fetch)
    assert (await use(fetch, minted, "writeFile", path="new", content="x")).status == 200
    assert (await use(fetch, minted, "getWorkspaceInfo")).status == 200


@pytest.mark.parametrize("chosen_format", ["mcp", "openai", "anthropic"])
async def test_the_tools_listed_are_those_of_the_scope(fetch: Any, chosen_format: str) -> None:
    minted = await mint(fetch, tools=["writeFile", "readFile"])
    listed = await fetch("wap/tools", params={"format": chosen_format}, headers=bearer(minted))
    assert [tool.get("function", tool)["name"] for tool in listed.body["tools"]] == ["readFile", "writeFile"]
    everything = await fetch("wap/tools", headers=bearer(await mint(fetch)))
    assert [tool["name"] for tool in everything.body["tools"]] == list(wap.TOOLS)


async def test_unknown_addresses_and_tools_are_as_for_people(fetch: Any) -> None:
    minted = await mint(fetch, tools=["readFile"])
    for path in ("wap", "wap/nothing", "wap/api/nothing"):
        answer = await fetch(path, method="POST", body="{}", headers=bearer(minted))
        assert (answer.status, answer.code) == (404, "NOT_FOUND"), path


async def test_policy_layers_of_a_token(fetch: Any, tokens: AgentTokens) -> None:
    policy = {"filesystem": {"access": "read", "deniedPaths": ["solutions/**"]}}
    minted = await mint(fetch, name="tutor", preset="standard", policy=policy)
    assert minted["policy"] == policy
    preset, own = (await tokens.verify(minted["token"])).scope.layers
    assert preset.name == "standard"
    assert own.filesystem.access == "read"
    assert "tutor" in own.name


async def test_a_policy_may_be_written_as_in_a_workspaces_file(fetch: Any, tokens: AgentTokens) -> None:
    minted = await mint(fetch, policy={"deniedPaths": ["solutions/**"]})
    (own,) = (await tokens.verify(minted["token"])).scope.layers
    assert own.filesystem.denied_paths == ("solutions/**",)


async def test_a_policy_that_this_version_cannot_read_refuses_everything(
    fetch: Any, tokens: AgentTokens, state: sqlite3.Connection
) -> None:
    minted = await mint(fetch, policy={"filesystem": {"access": "read"}})
    state.execute("UPDATE tokens SET policy = ?", ('{"from": "the future"}',))
    state.commit()
    (layer,) = (await tokens.verify(minted["token"])).scope.layers
    assert layer.broken


# ------------------------------------------------------------------ who is said to ask


async def test_the_audit_names_the_token_as_the_agent(fetch: Any, state: sqlite3.Connection) -> None:
    minted = await mint(fetch, name="the real name", tools=["writeFile"])
    (listed,) = (await fetch("wap/tokens")).body["tokens"]
    headers = bearer(minted, **{"X-Wap-Agent": "somebody else", "X-Wap-Session": "s1"})
    body = json.dumps({"path": "new", "content": "x"})
    assert (await fetch("wap/api/deleteFile", method="POST", body=body, headers=dict(headers))).status == 403
    assert (await fetch("wap/tokens", headers=dict(headers))).status == 403
    assert (await fetch("wap/api/writeFile", method="POST", body=body, headers=dict(headers))).status == 200
    rows = state.execute("SELECT operation, outcome, user, agent, session, token FROM audit ORDER BY id").fetchall()
    who = (listed["createdBy"], "the real name", "s1", minted["id"])
    assert [tuple(row) for row in rows] == [
        ("administer", "ok", listed["createdBy"], None, None, None),
        ("deleteFile", "denied", *who),
        ("tokens", "denied", *who),
        ("writeFile", None, *who),
        ("writeFile", "ok", *who),
    ]


class Notes(Authorizer):
    refused: str | None = None

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.asked: list[tuple[str, str, str]] = []

    def is_authorized(self, handler: Any, user: Any, action: str, resource: str) -> bool:
        self.asked.append((user.username, action, resource))
        return action != self.refused


@pytest.fixture
def notes(jp_serverapp: Any) -> Notes:
    settings = jp_serverapp.web_app.settings
    settings["authorizer"] = found = Notes(parent=jp_serverapp, identity_provider=settings["identity_provider"])
    return found


async def test_the_authorizer_is_asked_about_tokens(fetch: Any, notes: Notes) -> None:
    minted = await mint(fetch)
    await fetch("wap/tokens")
    await fetch(f"wap/tokens/{minted['id']}x", method="DELETE")
    assert [asked[1:] for asked in notes.asked] == [(action, "wap_tokens") for action in ("write", "read", "write")]


async def test_the_authorizer_is_asked_about_an_agent_as_the_person_who_minted(fetch: Any, notes: Notes) -> None:
    minted = await mint(fetch)
    person = notes.asked.pop()[0]
    assert (await use(fetch, minted, "readFile", path=FILE)).status == 200
    assert notes.asked == [(person, "read", "wap")]
    notes.refused = "execute"
    assert (await use(fetch, minted, "executeCommand", command="true")).code == "PERMISSION_DENIED"


class HubUser(User):
    """Like JupyterHub's: its authorizer looks into it."""

    def __init__(self, hub_user: dict[str, Any]) -> None:
        self.hub_user = hub_user
        super().__init__(username=hub_user["name"])


class HubProvider(IdentityProvider):
    """Like JupyterHub's: whatever credential comes is sent to the hub, here to a list."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.sent: list[str] = []

    async def get_user(self, handler: Any) -> HubUser | None:  # type: ignore[override]
        credential = handler.request.headers.get("Authorization", "")
        self.sent.append(credential)
        return HubUser({"name": "ada", "scopes": ["access"]}) if credential == "token of-the-hub" else None

    def is_token_authenticated(self, handler: Any) -> bool:
        return handler.current_user is not None


class HubAuthorizer(Notes):
    def is_authorized(self, handler: Any, user: Any, action: str, resource: str) -> bool:
        return "access" in user.hub_user["scopes"] and super().is_authorized(handler, user, action, resource)


async def test_behind_a_hub(fetch: Any, jp_serverapp: Any) -> None:
    settings = jp_serverapp.web_app.settings
    provider = settings["identity_provider"] = HubProvider(parent=jp_serverapp)
    authorizer = settings["authorizer"] = HubAuthorizer(parent=jp_serverapp, identity_provider=provider)

    async def order(**wanted: Any) -> Any:
        headers = {"Authorization": "token of-the-hub"}
        return await fetch("wap/tokens", method="POST", body=json.dumps({"name": "x", **wanted}), headers=headers)

    minted = (await order(tools=["readFile", "writeFile"])).body
    assert authorizer.asked == [("ada", action, resource) for action, resource in
                                [("write", "wap_tokens"), ("read", "wap"), ("write", "wap")]]  # fmt: skip
    provider.sent.clear()
    assert (await use(fetch, minted, "readFile", path=FILE)).status == 200
    wrong = minted["token"][:-1] + ("A" if minted["token"][-1] != "A" else "B")
    assert (await use(fetch, wrong, "readFile", path=FILE)).code == "UNAUTHENTICATED"
    assert provider.sent == []  # the hub never saw it

    authorizer.refused = "execute"
    assert (await order(tools=["executeCommand"])).code == "PERMISSION_DENIED"
    assert (await order()).code == "PERMISSION_DENIED"  # all tools


# ------------------------------------------------------------------ the end of a token


async def test_an_expired_token_says_so(fetch: Any, tokens: AgentTokens, monkeypatch: pytest.MonkeyPatch) -> None:
    minted = await mint(fetch, expiresIn=60)
    assert (await use(fetch, minted, "readFile", path=FILE)).status == 200
    monkeypatch.setattr(tokens, "_now", lambda: datetime.now(timezone.utc) + timedelta(seconds=61))
    answer = await use(fetch, minted, "readFile", path=FILE)
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


# ------------------------------------------------------------------ several servers, one state


async def test_tokens_survive_a_restart(fetch: Any, extension: Any, jp_root_dir: Path) -> None:
    minted = await mint(fetch, name="durable", tools=["readFile"])
    await extension.stop_extension()
    async with another_server(jp_root_dir) as ask:
        status, answer = await ask("POST", "wap/api/readFile", {"path": FILE}, bearer(minted))
        assert (status, answer.get("content")) == (200, "a\n")
        status, answer = await ask("POST", "wap/api/writeFile", {"path": "x", "content": ""}, bearer(minted))
        assert (status, answer["code"]) == (403, "PERMISSION_DENIED")
        assert [token["name"] for token in (await ask("GET", "wap/tokens"))[1]["tokens"]] == ["durable"]


async def test_a_neighbours_revocation_takes_effect(
    fetch: Any, tokens: AgentTokens, jp_root_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 0.0
    monkeypatch.setattr(tokens, "_clock", lambda: now)
    minted = await mint(fetch)
    assert (await use(fetch, minted, "readFile", path=FILE)).status == 200
    async with another_server(jp_root_dir) as ask:
        assert (await ask("DELETE", f"wap/tokens/{minted['id']}"))[0] == 204
    now = FRESH_SECONDS
    assert (await use(fetch, minted, "readFile", path=FILE)).code == "UNAUTHENTICATED"
    assert FRESH_SECONDS <= 1


async def test_a_token_opens_only_the_workspace_that_it_was_minted_in(
    fetch: Any, extension: Any, jp_root_dir: Path
) -> None:
    minted = await mint(fetch)
    elsewhere = AgentTokens(extension.workspace.state_dir, workspace_id(str(jp_root_dir.parent)), extension.log)
    try:
        with pytest.raises(Exception, match="not known"):
            await elsewhere.verify(minted["token"])
        assert await elsewhere.page(10) == ([], None)
        with pytest.raises(Exception, match="no such token"):
            await elsewhere.revoke(minted["id"])
    finally:
        await elsewhere.close()


async def test_a_server_that_is_stopping_refuses(fetch: Any, extension: Any, tokens: AgentTokens) -> None:
    minted = await mint(fetch)
    await extension.stop_extension()
    assert (await use(fetch, minted, "readFile", path=FILE)).code == "PROVIDER_UNAVAILABLE"
