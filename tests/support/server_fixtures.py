"""Fixtures for tests against a Jupyter server: pytest-jupyter's, in this process, and a real one, which is a process.

A folder's conftest.py imports all of them, so that no other test gets pytest-jupyter's autouse fixtures."""

from __future__ import annotations

import contextlib
import json
import sqlite3
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from pytest_jupyter.jupyter_server import *  # noqa: F403 - fixtures, and the hooks that run `async def` tests
from tornado.httpclient import HTTPResponse

from jupyter_ext.app import WapExtension
from jupyter_ext.tokens.store import AgentTokenStore
from tests.support.server_processes import OPEN, SECONDS, LiveServer, start_server


@pytest.fixture
def jp_server_config() -> dict[str, Any]:
    return {"ServerApp": {"jpserver_extensions": {"jupyter_ext": True}}, "WapExtension": OPEN}


class Answer(NamedTuple):
    status: int
    body: Any
    headers: Any

    @property
    def code(self) -> str | None:
        return self.body.get("code")


def _answer(response: HTTPResponse) -> Answer:
    assert response.headers["Content-Type"] == "application/json"
    return Answer(response.code, json.loads(response.body), response.headers)


@pytest.fixture
def fetch(jp_fetch: Any) -> Callable[..., Awaitable[Answer]]:
    """`await fetch("wap/tools", method="GET", ...)`: status, parsed JSON and headers; never raises for a status."""

    async def fetch(path: str, **options: Any) -> Answer:
        if options.get("method", "GET") not in ("GET", "HEAD", "OPTIONS"):
            options.setdefault("allow_nonstandard_methods", True)
        options = {"request_timeout": SECONDS, "connect_timeout": SECONDS, **options}
        return _answer(await jp_fetch(path, raise_error=False, follow_redirects=False, **options))

    return fetch


@pytest.fixture
def call(fetch: Any) -> Callable[..., Awaitable[Answer]]:
    """`await call("readFile", path="a.txt")`, over HTTP."""

    async def call(tool: str, /, **parameters: Any) -> Answer:
        return await fetch(f"wap/api/{tool}", method="POST", body=json.dumps(parameters))

    return call


@pytest.fixture
def extension(jp_serverapp: Any) -> WapExtension:
    (app,) = jp_serverapp.extension_manager.extension_apps["jupyter_ext"]
    return app


FILE = "a.txt"
"""A file that `a_file` puts into the root."""


@pytest.fixture
def a_file(jp_root_dir: Path) -> None:
    (jp_root_dir / FILE).write_text("a\n")


@pytest.fixture
def tokens(jp_serverapp: Any) -> AgentTokenStore:
    found: AgentTokenStore = jp_serverapp.web_app.settings["wap_tokens"]
    return found


@pytest.fixture
def state(extension: WapExtension) -> Iterator[sqlite3.Connection]:
    """What is kept, as any program would read it."""
    assert extension.workspace is not None
    with contextlib.closing(sqlite3.connect(Path(extension.workspace.state_dir, "state.db"))) as connection:
        connection.row_factory = sqlite3.Row
        yield connection


@pytest.fixture(scope="module")
def live_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    with start_server(tmp_path_factory.mktemp("server")) as server:
        yield server
