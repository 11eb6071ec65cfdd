"""Fixtures for tests against a Jupyter server: pytest-jupyter's, in this process, and a real one, which is a process.

A folder's conftest.py imports all of them, so that no other test gets pytest-jupyter's autouse fixtures.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sqlite3
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from jupyter_core.utils import ensure_event_loop
from jupyter_server.serverapp import ServerApp
from pytest_jupyter.jupyter_server import *  # noqa: F403 - fixtures, and the hooks that run `async def` tests
from tornado.httpclient import HTTPResponse

from jupyter_ext.app import WapExtension
from jupyter_ext.tokens.store import AgentTokenStore
from tests.support.server_processes import OPEN, SECONDS, LiveServer, start_server
from tests.support.shared_server import SharedServer, keep_environment

BASE_URL = "/a%40b/"
"""pytest-jupyter's own, which is odd on purpose."""


@pytest.fixture(scope="module")
def module_loop() -> Iterator[asyncio.AbstractEventLoop]:
    loop = ensure_event_loop(prefer_selector_loop=True)
    yield loop
    loop.close()


@pytest.fixture(autouse=True)
def jp_asyncio_loop(module_loop: asyncio.AbstractEventLoop) -> asyncio.AbstractEventLoop:
    asyncio.set_event_loop(module_loop)  # a test before may have called `asyncio.run`
    return module_loop


@pytest.fixture(autouse=True)
def jp_server_cleanup(jp_asyncio_loop: asyncio.AbstractEventLoop) -> Iterator[None]:
    """End a server that is a test's own. pytest-jupyter's fixture makes one where there is none."""
    yield
    if ServerApp.initialized():
        app = ServerApp.instance()
        jp_asyncio_loop.run_until_complete(app._cleanup())
        if hasattr(app, "kernel_manager"):
            app.kernel_manager.context.destroy()
        ServerApp.clear_instance()


@pytest.fixture
def wap_settings(request: pytest.FixtureRequest) -> dict[str, Any]:
    """The traits of the extension: `OPEN`, and what `pytest.mark.wap_settings(...)` adds for a test or its module."""
    marks = [mark.kwargs for mark in request.node.iter_markers("wap_settings")]
    return {name: value for traits in (OPEN, *reversed(marks)) for name, value in traits.items()}


@pytest.fixture
def jp_server_config(wap_settings: dict[str, Any]) -> dict[str, Any]:
    return {"ServerApp": {"jpserver_extensions": {"jupyter_ext": True}}, "WapExtension": wap_settings}


@pytest.fixture(scope="module")
def shared_server(
    module_loop: asyncio.AbstractEventLoop, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SharedServer]:
    folder = tmp_path_factory.mktemp("shared")
    with pytest.MonkeyPatch.context() as patch:
        keep_environment(patch, folder)
        server = SharedServer(folder, BASE_URL, module_loop)
    yield server
    server.end()


@pytest.fixture
def jp_serverapp(
    request: pytest.FixtureRequest,
    jp_server_config: dict[str, Any],
    jp_argv: list[str],
    jp_root_dir: Path,
    jp_environ: None,
    jp_config_dir: Path,
    jp_data_dir: Path,
    jp_runtime_dir: Path,
) -> Iterator[ServerApp]:
    """The module's server; one of the test's own where it is marked so or configures more than the extension."""
    is_own = request.node.get_closest_marker("own_server") is not None
    if is_own or jp_argv or not SharedServer.can_serve(jp_server_config):
        yield request.getfixturevalue("jp_configurable_serverapp")(config=jp_server_config, argv=jp_argv)
        return
    server: SharedServer = request.getfixturevalue("shared_server")
    folders = {"config_dir": jp_config_dir, "data_dir": jp_data_dir, "runtime_dir": jp_runtime_dir}
    if server.open(jp_root_dir, folders, jp_server_config.get("WapExtension", {})):
        yield server.app
    else:  # an extension without a workspace has other routes
        server.close()
        yield request.getfixturevalue("jp_configurable_serverapp")(config=jp_server_config, argv=jp_argv)
        return
    server.close()


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
    """Request `path` of the server; the answer has a status, parsed JSON and headers, and no status is raised."""

    async def fetch(path: str, **options: Any) -> Answer:
        if options.get("method", "GET") not in ("GET", "HEAD", "OPTIONS"):
            options.setdefault("allow_nonstandard_methods", True)
        options = {"request_timeout": SECONDS, "connect_timeout": SECONDS, **options}
        return _answer(await jp_fetch(path, raise_error=False, follow_redirects=False, **options))

    return fetch


@pytest.fixture
def call(fetch: Any) -> Callable[..., Awaitable[Answer]]:
    """Call one tool of WAP over HTTP, with its parameters as keywords."""

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
