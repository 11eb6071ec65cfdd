"""Agent tokens over HTTP: what is minted, how it is listed, what it opens."""

from __future__ import annotations

import json
import re
import sqlite3
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from jupyter_ext.tokens.store import AgentTokenStore
from jupyter_ext.tool_definitions import FORMATS, list_tool_names
from tests.support.agent_tokens import bearer, mint, use
from tests.support.server_fixtures import FILE
from wap_kernel.dialects.wap import tools as wap

pytestmark = pytest.mark.usefixtures("a_file")


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
    assert all(name in tool.body["error"] for name in list_tool_names())
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


@pytest.mark.parametrize("chosen_format", FORMATS)
async def test_the_tools_listed_are_those_of_the_scope(fetch: Any, chosen_format: str) -> None:
    minted = await mint(fetch, tools=["writeFile", "readFile"])
    listed = await fetch("wap/tools", params={"format": chosen_format}, headers=bearer(minted))
    names = [tool.get("function", tool)["name"] for tool in listed.body["tools"]]
    assert names == ["readFile", "writeFile", "runOperations"]
    everything = await fetch("wap/tools", headers=bearer(await mint(fetch)))
    assert [tool["name"] for tool in everything.body["tools"]] == [*wap.TOOLS, "runOperations"]


async def test_unknown_addresses_and_tools_are_as_for_people(fetch: Any) -> None:
    minted = await mint(fetch, tools=["readFile"])
    for path in ("wap", "wap/nothing", "wap/api/nothing"):
        answer = await fetch(path, method="POST", body="{}", headers=bearer(minted))
        assert (answer.status, answer.code) == (404, "NOT_FOUND"), path


async def test_policy_layers_of_a_token(fetch: Any, tokens: AgentTokenStore) -> None:
    policy = {"filesystem": {"access": "read", "deniedPaths": ["solutions/**"]}}
    minted = await mint(fetch, name="tutor", preset="standard", policy=policy)
    assert minted["policy"] == policy
    preset, own = (await tokens.verify(minted["token"])).scope.layers
    assert preset.name == "standard"
    assert own.filesystem.access == "read"
    assert "tutor" in own.name


async def test_a_policy_may_be_written_as_in_a_workspaces_file(fetch: Any, tokens: AgentTokenStore) -> None:
    minted = await mint(fetch, policy={"deniedPaths": ["solutions/**"]})
    (own,) = (await tokens.verify(minted["token"])).scope.layers
    assert own.filesystem.denied_paths == ("solutions/**",)


async def test_a_policy_that_this_version_cannot_read_refuses_everything(
    fetch: Any, tokens: AgentTokenStore, state: sqlite3.Connection
) -> None:
    minted = await mint(fetch, policy={"filesystem": {"access": "read"}})
    state.execute("UPDATE tokens SET policy = ?", ('{"from": "the future"}',))
    state.commit()
    (layer,) = (await tokens.verify(minted["token"])).scope.layers
    assert layer.broken


async def test_null_and_whole_numbers_are_read_in_limits_as_everywhere(fetch: Any) -> None:
    minted = await mint(fetch, limits={"commandsPerMinute": None, "concurrentOperations": 3.0})
    assert (minted["limits"]["commandsPerMinute"], minted["limits"]["concurrentOperations"]) == (60, 3)


@pytest.mark.parametrize(
    ("profile", "opens", "closes"),
    [
        ("read", ["readFile", "exploreFiles", "searchFiles"], ["writeFile", "modifyFile", "executeCommand"]),
        ("edit", ["readFile", "writeFile", "modifyFile", "moveFile"], ["executeCommand"]),
        ("notebook", ["readNotebook", "modifyNotebook"], ["writeFile", "executeCommand"]),
        ("all", ["readFile", "executeCommand"], []),
    ],
)
async def test_a_profile_stands_for_its_tools(fetch: Any, profile: str, opens: list[str], closes: list[str]) -> None:
    headers = bearer(await mint(fetch, profile=profile))
    for name in (*opens, *closes):
        answer = await fetch(f"wap/api/{name}", method="POST", body="{}", headers=headers)
        assert (answer.code == "PERMISSION_DENIED") is (name in closes), name


async def test_a_profile_goes_without_tools(fetch: Any) -> None:
    for fields in ({"profile": "read", "tools": ["readFile"]}, {"profile": "none"}):
        answer = await fetch("wap/tokens", method="POST", body=json.dumps({"name": "a", **fields}))
        assert answer.code == "INVALID_ARGUMENT"
