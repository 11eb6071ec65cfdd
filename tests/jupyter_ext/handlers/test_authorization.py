"""Every route without a token, with a wrong one, and with authorizers that refuse or take notes."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable
from http.cookies import SimpleCookie
from typing import Any

import pytest
from jupyter_server.auth import Authorizer

from jupyter_ext import openapi
from tests.support.http_runs import SECONDS
from tests.support.routes import DOORS, Door
from tests.support.server_fixtures import FILE
from wap_kernel.model.caller import Caller, name_os_user
from wap_kernel.model.errors import WapError

pytestmark = pytest.mark.usefixtures("a_file")

ACCEPT = "application/json, text/event-stream"


class Notes(Authorizer):
    """Allows or refuses everything and remembers what it was asked."""

    allow = True

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.asked: list[tuple[str, str, str]] = []

    def is_authorized(self, handler: Any, user: Any, action: str, resource: str) -> bool:
        self.asked.append((user.username, action, resource))
        return self.allow


class Refusal(Notes):
    allow = False


class AsyncRefusal(Authorizer):
    async def is_authorized(self, handler: Any, user: Any, action: str, resource: str) -> bool:  # type: ignore[override]
        return False


@pytest.fixture
def knock(
    http_server_client: Any, jp_base_url: str, jp_auth_header: dict[str, str]
) -> Callable[[Door], Awaitable[int]]:
    """The status of the answer; some never end, so no more is read."""

    async def knock(door: Door) -> int:
        reader, writer = await asyncio.open_connection("127.0.0.1", http_server_client.get_http_port())
        body = (door.body or "").encode()
        headers = {**jp_auth_header, "Host": "localhost", "Content-Length": str(len(body)), "Accept": ACCEPT}
        lines = [f"{door.method} {jp_base_url}{door.path} HTTP/1.1", *(f"{k}: {v}" for k, v in headers.items()), "", ""]
        writer.write("\r\n".join(lines).encode() + body)
        first = await asyncio.wait_for(reader.readline(), SECONDS)
        writer.close()
        return int(first.split()[1])

    return knock


async def _walk(fetch: Any, **headers: str) -> dict[str, tuple[int, str]]:
    """Check the answer to a refused caller at every route."""
    answers = {}
    for door in DOORS:
        answer = await fetch(door.path, method=door.method, body=door.body, headers=dict(headers))
        answers[door.name] = (answer.status, _code(answer.body))
    return answers


def _code(body: Any) -> str:
    """Over MCP a refusal is a JSON-RPC error."""
    if "jsonrpc" in body:
        body = {"error": body["error"]["message"], **body["error"]["data"]}
    assert set(body) <= {"error", "code", "details"} and body["error"]
    return str(body["code"])


def _everywhere(status: int, code: str) -> dict[str, tuple[int, str]]:
    return {door.name: (status, code) for door in DOORS}


def _to_strangers() -> dict[str, tuple[int, str]]:
    """403 as Jupyter answers; MCP clients expect 401."""
    return {door.name: (401 if door.path == "wap/mcp" else 403, "UNAUTHENTICATED") for door in DOORS}


def test_the_matrix_covers_every_route_and_method() -> None:
    paths = json.loads(openapi.build_document("/"))["paths"]
    named = {(method.upper(), re.sub(r"{\w+}", "x", path)) for path, item in paths.items() for method in item}
    assert named == {(door.method, f"/{door.path}") for door in DOORS}


@pytest.mark.parametrize("authorization", ["", "token wrong", "Bearer wrong", "token ", "Basic Og=="])
async def test_without_a_valid_token_every_route_says_unauthenticated(
    fetch: Any, authorization: str, jp_root_dir: Any
) -> None:
    answers = await _walk(fetch, Authorization=authorization)
    assert answers == _to_strangers()
    assert [entry.name for entry in jp_root_dir.iterdir()] == [FILE]


async def test_even_an_unknown_address_asks_for_authentication(fetch: Any) -> None:
    for path in ("wap", "wap/", "wap/nothing", "wap/api/", "wap/api/nothing", "wap/api/%ff"):
        answer = await fetch(path, headers={"Authorization": "token wrong"})
        assert (answer.status, answer.code) == (403, "UNAUTHENTICATED"), path


@pytest.mark.parametrize("method", ["GET", "HEAD"])
async def test_nobody_is_sent_to_a_login_page(jp_fetch: Any, method: str) -> None:
    response = await jp_fetch(
        "wap/tools", method=method, headers={"Authorization": ""}, raise_error=False, follow_redirects=False
    )
    assert response.code == 403
    assert "Location" not in response.headers


@pytest.mark.parametrize("authorizer", [Refusal, AsyncRefusal])
async def test_a_refusing_authorizer_closes_every_route(
    fetch: Any, jp_serverapp: Any, authorizer: type[Authorizer], jp_root_dir: Any
) -> None:
    jp_serverapp.web_app.settings["authorizer"] = authorizer(parent=jp_serverapp)
    assert await _walk(fetch) == _everywhere(403, "PERMISSION_DENIED")
    assert [entry.name for entry in jp_root_dir.iterdir()] == [FILE]


async def test_a_refusing_authorizer_comes_before_the_arguments(fetch: Any, jp_serverapp: Any) -> None:
    jp_serverapp.web_app.settings["authorizer"] = Refusal(parent=jp_serverapp)
    answer = await fetch("wap/api/readFile", method="POST", body="{not json")
    assert answer.code == "PERMISSION_DENIED"


async def test_what_the_authorizer_refuses_is_recorded(
    fetch: Any, jp_serverapp: Any, extension: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded: list[tuple[str, str, str, str | None]] = []

    def refused(tool: str, error: WapError, caller: Caller) -> None:
        recorded.append((tool, error.code.value, caller.user, caller.agent))

    monkeypatch.setattr(extension.workspace, "audit_refusal", refused)
    jp_serverapp.web_app.settings["authorizer"] = Refusal(parent=jp_serverapp)
    await _walk(fetch, **{"X-Wap-Agent": "an agent"})
    tools = [door.path.rpartition("/")[2] for door in DOORS]
    count = [door.name for door in DOORS].index("POST wap/runs") + 1  # what follows looks at operations, or is none
    assert recorded == [(tool, "PERMISSION_DENIED", name_os_user(), "an agent") for tool in tools[:count]]


async def test_the_authorizer_is_asked_once_with_action_and_resource(knock: Any, jp_serverapp: Any) -> None:
    notes = jp_serverapp.web_app.settings["authorizer"] = Notes(parent=jp_serverapp)
    for door in DOORS:
        notes.asked.clear()
        assert await knock(door) == door.status, door.name
        assert [(action, resource) for _, action, resource in notes.asked] == [(door.asked, door.resource)], door.name


async def _log_in(jp_fetch: Any) -> str:
    """The cookies that a browser has after its first visit with a token."""
    response = await jp_fetch("wap/tools")
    cookies: SimpleCookie = SimpleCookie()
    for header in response.headers.get_list("Set-Cookie"):
        cookies.load(header)
    return "; ".join(f"{name}={morsel.value}" for name, morsel in cookies.items())


async def test_a_cookie_needs_the_xsrf_token_to_post(fetch: Any, jp_fetch: Any) -> None:
    cookie = await _log_in(jp_fetch)
    body = json.dumps({"path": FILE})
    headers = {"Authorization": "", "Cookie": cookie}
    refused = await fetch("wap/api/readFile", method="POST", body=body, headers=dict(headers))
    assert (refused.status, refused.code) == (403, "PERMISSION_DENIED")
    assert "_xsrf" in refused.body["error"]

    headers |= {"Cookie": f"{cookie}; _xsrf=abc", "X-XSRFToken": "xyz"}
    refused = await fetch("wap/api/readFile", method="POST", body=body, headers=dict(headers))
    assert (refused.status, refused.code) == (403, "PERMISSION_DENIED")

    headers["X-XSRFToken"] = "abc"
    allowed = await fetch("wap/api/readFile", method="POST", body=body, headers=dict(headers))
    assert allowed.status == 200


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_a_cookie_from_a_foreign_origin_is_refused(fetch: Any, jp_fetch: Any, method: str) -> None:
    cookie = f"{await _log_in(jp_fetch)}; _xsrf=abc"
    headers = {"Authorization": "", "Cookie": cookie, "X-XSRFToken": "abc", "Origin": "http://evil.example"}
    path, body = ("wap/tools", None) if method == "GET" else ("wap/api/getWorkspaceInfo", "{}")
    refused = await fetch(path, method=method, body=body, headers=headers)
    assert (refused.status, refused.code) == (403, "PERMISSION_DENIED")
    assert "origin" in refused.body["error"]


async def test_a_token_may_come_from_any_origin_as_in_jupyter(call: Any, fetch: Any) -> None:
    headers = {"Origin": "http://elsewhere.example"}
    allowed = await fetch("wap/tools", headers=dict(headers))
    assert allowed.status == 200
    missing = await fetch("wap/api/readFile", method="POST", body='{"path": "missing"}', headers=dict(headers))
    assert missing.code == "FILE_NOT_FOUND"
    for answer in (allowed, missing):
        assert answer.headers["Access-Control-Allow-Origin"] == headers["Origin"]


async def test_a_foreign_host_is_refused_on_every_route(fetch: Any) -> None:
    assert await _walk(fetch, Host="evil.example") == _everywhere(403, "PERMISSION_DENIED")


async def test_a_foreign_host_is_welcome_where_remote_access_is(fetch: Any, jp_serverapp: Any) -> None:
    jp_serverapp.web_app.settings["allow_remote_access"] = True
    answer = await fetch("wap/tools", headers={"Host": "hub.example"})
    assert answer.status == 200


async def test_authentication_also_holds_when_jupyter_lets_strangers_through(fetch: Any, jp_serverapp: Any) -> None:
    for setting in (True, False):
        jp_serverapp.web_app.settings["allow_unauthenticated_access"] = setting
        answers = await _walk(fetch, Authorization="token wrong")
        assert answers == _to_strangers()
