"""An agent's identity: its token for the audit, its person for the authorizer, also at a hub."""

from __future__ import annotations

import json
import sqlite3
from typing import Any

import pytest
from jupyter_server.auth import Authorizer, IdentityProvider, User

from jupyter_ext.identity import name_person
from tests.support.agent_tokens import bearer, mint, use
from tests.support.http_runs import create, start
from tests.support.server_fixtures import FILE
from wap_kernel.model.caller import name_os_user

pytestmark = pytest.mark.usefixtures("a_file")


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


async def test_the_servers_token_is_one_user_in_the_audit_in_runs_and_in_tokens(
    fetch: Any, call: Any, state: sqlite3.Connection
) -> None:
    await mint(fetch)
    for _ in range(2):
        await call("readFile", path=FILE)
    await start(fetch, create("new.txt"))
    (listed,) = (await fetch("wap/tokens")).body["tokens"]
    assert listed["createdBy"] == name_os_user()
    records = (await fetch("wap/audit")).body["records"]
    assert {record["user"] for record in records} == {name_os_user()} and len(records) == 4
    stored = [json.loads(caller)["user"] for (caller,) in state.execute("SELECT caller FROM runs")]
    assert stored == [name_os_user()]


@pytest.mark.parametrize(
    ("user", "is_named"),
    [
        (User("ada"), True),
        (User("0" * 32, name="Ada"), True),  # a provider that numbers its users
        (User("0" * 32, name="Anonymous Io"), False),
    ],
)
def test_a_person_keeps_their_name(user: User, is_named: bool) -> None:
    assert name_person(user) == (user.username if is_named else name_os_user())


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
    notes.asked.clear()
    assert (await use(fetch, minted, "readFile", path=FILE)).status == 200
    assert notes.asked == [(name_os_user(), "read", "wap")]
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
