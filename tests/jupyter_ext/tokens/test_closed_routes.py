"""The closed doors: an agent token opens nothing of Jupyter's own, and nothing when it is sent in another way."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from jupyter_server.auth.security import passwd
from tornado.httpclient import HTTPClientError
from tornado.httputil import HTTPHeaders

from tests.support.agent_tokens import bearer, forms, mint, use
from tests.support.server_processes import start_server

FILE = "a.txt"
KERNEL = "api/kernels/00000000-0000-0000-0000-000000000000"
SESSION = "api/sessions/00000000-0000-0000-0000-000000000000"


@pytest.fixture
def jp_server_config() -> dict[str, Any]:
    extensions = {"jupyter_ext": True, "jupyter_server_terminals": True, "jupyterlab": True}
    return {"ServerApp": {"jpserver_extensions": extensions}}


@pytest.fixture(autouse=True)
def file(jp_root_dir: Any) -> None:
    (jp_root_dir / FILE).write_text("a\n")
    (jp_root_dir / "book.ipynb").write_text('{"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}')


DOORS = [
    *(("GET", path) for path in ("api/contents", f"api/contents/{FILE}", f"api/contents/{FILE}/checkpoints")),
    *(("PUT", path) for path in ("api/contents/new.txt", "api/config/notebook", "lab/api/workspaces/x")),
    *(("DELETE", path) for path in (f"api/contents/{FILE}", KERNEL, "api/terminals/1", SESSION)),
    *(("POST", path) for path in ("api/contents", "api/kernels", "api/terminals", "api/sessions", "api/events")),
    *(("POST", path) for path in ("api/shutdown", f"{KERNEL}/restart", f"{KERNEL}/interrupt")),
    *(("PATCH", path) for path in (f"api/contents/{FILE}", SESSION, "api/config/notebook")),
    *(("GET", path) for path in ("api/kernels", "api/terminals", "api/sessions", "api/kernelspecs", "api/me")),
    *(("GET", path) for path in ("api/config/notebook", "api/status", "api/nbconvert", "api/events/subscribe")),
    *(("GET", path) for path in (f"{KERNEL}/channels", "terminals/websocket/1", "metrics", "api/spec.yaml")),
    *(("GET", path) for path in (f"files/{FILE}", f"view/{FILE}", "nbconvert/html/book.ipynb", "lab")),
    *(("GET", path) for path in ("lab/tree/a.txt", "lab/api/settings", "lab/api/workspaces", "kernelspecs/python3/x")),
]


async def _statuses(jp_fetch: Any, token: str) -> dict[tuple[str, str, int], int]:
    statuses = {}
    for method, path in DOORS:
        for number, (headers, params) in enumerate(forms(token)):
            response = await jp_fetch(
                path,
                method=method,
                headers=headers,
                params=params,
                body="{}" if method in ("PUT", "POST", "PATCH") else None,
                raise_error=False,
                follow_redirects=False,
            )
            statuses[method, path, number] = response.code
    return statuses


def _password(server: Any) -> None:
    server.identity_provider.token = ""
    server.identity_provider.hashed_password = passwd("a password", "sha1")


SETTINGS: dict[str, Any] = {
    "as usual": lambda server: None,
    "strangers let through": lambda server: server.web_app.settings.update(allow_unauthenticated_access=True),
    "strangers kept out": lambda server: server.web_app.settings.update(allow_unauthenticated_access=False),
    "a password and no token": _password,
}


@pytest.mark.parametrize("setting", SETTINGS.values(), ids=SETTINGS.keys())
async def test_jupyter_treats_an_agent_token_as_a_strangers(
    fetch: Any, jp_fetch: Any, jp_serverapp: Any, jp_root_dir: Any, setting: Any
) -> None:
    minted = await mint(fetch)
    setting(jp_serverapp)
    statuses = await _statuses(jp_fetch, minted["token"])
    assert set(statuses.values()) <= {302, 403}, [key for key, status in statuses.items() if status not in (302, 403)]
    assert statuses == await _statuses(jp_fetch, "made-up")
    assert sorted(entry.name for entry in jp_root_dir.iterdir()) == [FILE, "book.ipynb"]
    assert (await use(fetch, minted, "readFile", path=FILE)).status == 200


@pytest.mark.parametrize("path", [f"{KERNEL}/channels", "api/events/subscribe", "terminals/websocket/1"])
async def test_websockets_stay_closed(fetch: Any, jp_ws_fetch: Any, path: str) -> None:
    minted = await mint(fetch)
    for headers, params in forms(minted["token"]):
        with pytest.raises(HTTPClientError) as refused:
            await jp_ws_fetch(path, headers=headers, params=params)
        assert refused.value.code == 403


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [("POST", "wap/tokens", '{"name": "x"}'), ("DELETE", "wap/tokens/000000000000", None)],
)
async def test_a_cookie_needs_the_xsrf_token_to_mint_and_revoke(
    fetch: Any, jp_fetch: Any, method: str, path: str, body: str | None
) -> None:
    headers = {"Authorization": "", "Cookie": await _cookie(jp_fetch)}
    answer = await fetch(path, method=method, body=body, headers=headers)
    assert (answer.status, answer.code, "_xsrf" in answer.body["error"]) == (403, "PERMISSION_DENIED", True)


async def _cookie(jp_fetch: Any) -> str:
    """Return the cookies of a browser after its first visit with a token."""
    logged_in = await jp_fetch("wap/tools")
    cookie = "; ".join(header.partition(";")[0] for header in logged_in.headers.get_list("Set-Cookie"))
    assert cookie
    return cookie


async def test_other_ways_to_send_it_say_how(fetch: Any) -> None:
    token = (await mint(fetch))["token"]
    routes = [("wap/api/readFile", "POST"), ("wap/tools", "GET"), ("wap/tokens", "POST"), ("wap/nothing", "GET")]
    for path, method in routes:
        for headers, params in forms(token)[1:3]:
            body = json.dumps({"path": FILE}) if method == "POST" else None
            answer = await fetch(path, method=method, headers=headers, params=params, body=body)
            assert (answer.status, answer.code) == (403, "UNAUTHENTICATED")
            assert "Authorization: Bearer <token>" in answer.body["error"]


BAD = {
    "short": "wap_",
    "made up": f"wap_{'0' * 12}_{'A' * 43}",
    "two": f"wap_{'0' * 12}_{'A' * 43},token x",
    "not ASCII": "wap_\xe4",
    "long": "wap_" + "x" * 5000,
}


@pytest.mark.parametrize("bad", BAD.values(), ids=BAD.keys())
async def test_a_bad_token_is_not_made_good_by_another_credential(
    fetch: Any, jp_fetch: Any, jp_serverapp: Any, bad: str
) -> None:
    token = jp_serverapp.identity_provider.token
    cookie = await _cookie(jp_fetch)
    tries = [
        ({"Authorization": f"Bearer {bad}", "Cookie": cookie, "Referer": jp_serverapp.connection_url}, {}),
        ({"Authorization": f"Bearer {bad}"}, {"token": token}),
        ({"Authorization": f"bearer   {bad}"}, {}),
        ({"Authorization": f"token {token}"}, {"token": bad}),
        ({"Authorization": f"token {bad}", "Cookie": cookie}, {}),
    ]
    for headers, params in tries:
        answer = await fetch("wap/tools", headers=headers, params=params)
        assert (answer.status, answer.code) == (403, "UNAUTHENTICATED"), headers


async def test_an_agent_token_beside_the_servers_token_is_still_an_agents(fetch: Any, jp_serverapp: Any) -> None:
    minted = await mint(fetch, tools=["readFile"])
    for path in ("wap/tokens", "wap/api/writeFile"):
        params = {"token": jp_serverapp.identity_provider.token}
        answer = await fetch(path, method="POST", body="{}", headers=bearer(minted), params=params)
        assert answer.code == "PERMISSION_DENIED"


async def test_odd_headers_open_nothing_more(fetch: Any, jp_fetch: Any, jp_serverapp: Any) -> None:
    """Two headers are one with a comma; neither half counts. The words around a token are not fussy."""
    minted = await mint(fetch, tools=["readFile"])
    agents, persons = f"Bearer {minted['token']}", f"token {jp_serverapp.identity_provider.token}"
    accepted = [agents, agents.replace("Bearer", "bEaReR"), agents.replace(" ", "\t")]
    refused = [f'Bearer "{minted["token"]}"', f"Basic {minted['token']}", minted["token"], agents.upper(), f"{agents};"]

    async def status(path: str, *values: str, method: str = "GET") -> int:
        headers = HTTPHeaders()
        for value in values:
            headers.add("Authorization", value)
        response = await jp_fetch(
            path, method=method, headers=headers, body="{}" if method == "POST" else None, raise_error=False
        )
        return int(response.code)

    for path in ("wap/tools", "wap/tokens", "api/contents", "api/kernels"):
        for pair in ((agents, persons), (persons, agents), (agents, agents)):
            assert await status(path, *pair) == 403, (path, pair)
        assert {await status(path, value) for value in refused} == {403}, path
    assert [await status("wap/tools", value) for value in accepted] == [200] * len(accepted)
    assert [await status("wap/tokens", value, method="POST") for value in accepted] == [403] * len(accepted)
    assert [await status("api/contents", value) for value in accepted] == [403] * len(accepted)


async def test_a_server_without_authentication_still_holds_an_agent_to_its_scope(fetch: Any, jp_serverapp: Any) -> None:
    minted = await mint(fetch, tools=["readFile"])
    jp_serverapp.identity_provider.token = ""
    assert (await fetch("wap/tools", headers={"Authorization": ""})).status == 200  # everybody is the user there
    assert (await use(fetch, minted, "readFile", path=FILE)).status == 200
    assert (await use(fetch, minted, "writeFile", path=FILE, content="")).code == "PERMISSION_DENIED"
    assert (await fetch("wap/tokens", headers=bearer(minted))).code == "PERMISSION_DENIED"
    assert (await use(fetch, BAD["made up"], "readFile", path=FILE)).code == "UNAUTHENTICATED"


async def test_a_foreign_host_comes_first(fetch: Any) -> None:
    minted = await mint(fetch)
    for token in (minted["token"], BAD["made up"]):
        answer = await fetch("wap/tools", headers=bearer(token, Host="evil.example"))
        assert (answer.code, "Host" in answer.body["error"]) == ("PERMISSION_DENIED", True)


async def test_no_xsrf_token_and_no_cookie(fetch: Any) -> None:
    minted = await mint(fetch)
    headers = bearer(minted, Origin="http://elsewhere.example", Cookie="_xsrf=abc")
    body = json.dumps({"path": FILE})
    answer = await fetch("wap/api/readFile", method="POST", body=body, headers=headers)
    assert answer.status == 200
    assert answer.headers["Access-Control-Allow-Origin"] == "http://elsewhere.example"
    assert "Set-Cookie" not in answer.headers


def test_the_secret_is_in_no_log_and_no_record(tmp_path: Path) -> None:
    with start_server(tmp_path, "--debug") as server:
        _, minted = server.request("POST", "wap/tokens", json.dumps({"name": "x"}))
        token = minted["token"]
        for path in ("wap/tools", "wap/tokens", "wap/nothing", "api/contents", "api/kernels", "lab", "login"):
            for header in (f"Bearer {token}", f"token {token}"):
                _status(server, path, Authorization=header)
            _status(server, f"{path}?token={token}")
        body = json.dumps({"path": "missing"})
        assert server.request("POST", "wap/api/readFile", body, Authorization=f"Bearer {token}")[0] == 404
        assert server.request("DELETE", f"wap/tokens/{minted['id']}")[0] == 204
        assert server.request("POST", "wap/api/readFile", body, Authorization=f"Bearer {token}")[0] == 403
    secret = token.rpartition(f"{minted['id']}_")[2]
    log = (tmp_path / "log").read_text()
    assert minted["id"] in log
    assert secret not in log
    (database,) = (tmp_path / "data").rglob("state.db")
    connection = sqlite3.connect(database)
    records = connection.execute("SELECT * FROM audit").fetchall()
    connection.close()
    assert records
    assert secret not in repr(records)
    stored = [path for path in tmp_path.rglob("*") if path.is_file() and secret.encode() in path.read_bytes()]
    assert stored == []


def _status(server: Any, path: str, **headers: str) -> None:
    """Call the route; only its traces matter."""
    try:
        server.request("GET", path, None, **{"Authorization": "", **headers})
    except json.JSONDecodeError:
        pass  # a page
