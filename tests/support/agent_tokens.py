"""Minting agent tokens and calling with them, over HTTP."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from jupyter_server.serverapp import ServerApp
from tornado.httpclient import AsyncHTTPClient
from tornado.httpserver import HTTPServer
from tornado.netutil import bind_sockets
from traitlets.config import Config


async def mint(fetch: Any, **wanted: Any) -> dict[str, Any]:
    answer = await fetch("wap/tokens", method="POST", body=json.dumps({"name": "an agent", **wanted}))
    assert answer.status == 201, answer.body
    minted: dict[str, Any] = answer.body
    return minted


def bearer(token: str | Mapping[str, Any], **headers: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token if isinstance(token, str) else token['token']}", **headers}


def forms(token: str) -> list[tuple[dict[str, str], dict[str, str]]]:
    """Headers and query, in every way in which a token may be sent."""
    return [
        ({"Authorization": f"Bearer {token}"}, {}),
        ({"Authorization": f"token {token}"}, {}),
        ({"Authorization": ""}, {"token": token}),
        ({"Authorization": "", "Cookie": f"username-127-0-0-1={token}; _xsrf=x", "X-XSRFToken": "x"}, {}),
    ]


async def use(fetch: Any, token: str | Mapping[str, Any], tool: str, **parameters: Any) -> Any:
    """The answer to one tool call with an agent token."""
    return await fetch(f"wap/api/{tool}", method="POST", body=json.dumps(parameters), headers=bearer(token))


@asynccontextmanager
async def another_server(root: Any) -> AsyncIterator[Any]:
    """A second server on the same root, and so on the same state: `await ask(method, path, body, headers)`."""
    settings = {"ServerApp": {"jpserver_extensions": {"jupyter_ext": True}}, "IdentityProvider": {"token": "another"}}
    server = ServerApp(root_dir=str(root), config=Config(settings), allow_root=True, port=0)
    server.initialize(argv=[], new_httpserver=False)
    http = HTTPServer(server.web_app)
    sockets = bind_sockets(0, "127.0.0.1")
    http.add_sockets(sockets)

    async def ask(method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None) -> Any:
        url = f"http://127.0.0.1:{sockets[0].getsockname()[1]}{server.base_url}{path}"
        response = await AsyncHTTPClient().fetch(
            url,
            method=method,
            body=None if body is None else json.dumps(body),
            headers={"Authorization": "token another", **(headers or {})},
            raise_error=False,
            follow_redirects=False,
            request_timeout=90,
        )
        return response.code, json.loads(response.body or b"null")

    try:
        yield ask
    finally:
        http.stop()
        await http.close_all_connections()
        await server._cleanup()
