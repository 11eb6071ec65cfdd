"""Servers to test against: pytest-jupyter's (in process, at its odd base_url), and real ones, each a process."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import sqlite3
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

# Fixtures and the hooks that run `async def` tests. Imported here and not as a plugin: its autouse fixtures start a
# ServerApp, which no test outside this folder wants.
from pytest_jupyter.jupyter_server import *  # noqa: F403
from tornado.httpclient import HTTPResponse

from jupyter_ext.app import WapExtension
from jupyter_ext.tokens.store import AgentTokens

PROJECT = Path(__file__).parents[2]
SECONDS = 90
"""What anything may take at most. Whoever waits for a run is answered before that."""

OPEN = {"preset": "permissive", "policy": {"shell": {"unconfined": "allow"}}, "provider": "local"}
"""For tests of everything but policy: commands run as they are."""
OPEN_LINES = "".join(f"c.WapExtension.{name} = {value!r}\n" for name, value in OPEN.items())


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


@pytest.fixture
def a_file(jp_root_dir: Path) -> None:
    (jp_root_dir / FILE).write_text("a\n")


@pytest.fixture
def tokens(jp_serverapp: Any) -> AgentTokens:
    found: AgentTokens = jp_serverapp.web_app.settings["wap_tokens"]
    return found


@pytest.fixture
def state(extension: WapExtension) -> Iterator[sqlite3.Connection]:
    """What is kept, as any program would read it."""
    assert extension.workspace is not None
    with contextlib.closing(sqlite3.connect(Path(extension.workspace.state_dir, "state.db"))) as connection:
        connection.row_factory = sqlite3.Row
        yield connection


class LiveServer(NamedTuple):
    process: subprocess.Popen[bytes]
    port: int
    token: str
    root: Path
    base_url: str

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}{self.base_url}"

    def memory(self, field: str = "VmRSS") -> int:
        """Bytes; `VmHWM` is the highest that was reached."""
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith(field + ":"):
                return int(line.split()[1]) * 1024
        raise AssertionError(field)

    def request(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=SECONDS)) as connection:
            connection.request(method, self.base_url + path, body, {"Authorization": f"token {self.token}", **headers})
            response = connection.getresponse()
            return response.status, json.loads(response.read() or b"null")


@contextlib.contextmanager
def start_server(folder: Path, *options: str, configuration: str = OPEN_LINES) -> Iterator[LiveServer]:
    """A Jupyter server with the extension, all of its folders below `folder`."""
    root = folder / "root"
    root.mkdir()
    (folder / "config").mkdir()
    (folder / "config" / "jupyter_server_config.py").write_text(configuration)
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("JUPYTER")},
        "HOME": str(folder),
        "JUPYTER_CONFIG_DIR": str(folder / "config"),
        "JUPYTER_DATA_DIR": str(folder / "data"),
        "JUPYTER_RUNTIME_DIR": str(folder / "runtime"),
        "JUPYTER_TOKEN": "a-token",
        "PYTHONPATH": str(PROJECT),
    }
    command = [sys.executable, "-m", "jupyter_server", "--no-browser", "--allow-root", "--ServerApp.port=0"]
    command += [f"--ServerApp.root_dir={root}", "--ServerApp.base_url=/an%40odd/base/", *options]
    command += ["--ServerApp.jpserver_extensions=jupyter_ext=True"]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, env=environment, cwd=root, stdout=log, stderr=log)
    try:
        info = _wait_for_runtime_file(folder, process)
        yield LiveServer(process, info["port"], "a-token", root, info["base_url"])
    finally:
        process.terminate()
        process.wait(SECONDS)


def _wait_for_runtime_file(folder: Path, process: subprocess.Popen[bytes]) -> Any:
    path = folder / "runtime" / f"jpserver-{process.pid}.json"
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(FileNotFoundError, json.JSONDecodeError, ConnectionError):
            info = json.loads(path.read_text())
            with contextlib.closing(
                http.client.HTTPConnection("127.0.0.1", info["port"], timeout=SECONDS)
            ) as connection:
                connection.request("GET", info["base_url"] + "api")
                assert connection.getresponse().status == 200
            return info
        time.sleep(0.05)
    raise AssertionError((folder / "log").read_text())


@pytest.fixture(scope="module")
def live_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    with start_server(tmp_path_factory.mktemp("server")) as server:
        yield server
