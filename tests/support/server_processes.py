"""Servers that come and go on one folder with one state, each a process; and `wap run` beside them."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from scripts.demo import Server, running_server
from tests.support.process_nursery import FAST_IMPORTS, PYTHON_PATH, ForkedProcess, fork_server

PROJECT = Path(__file__).parents[2]
SECONDS = 90
"""What anything may take at most. Whoever waits for a run is answered before that."""

OPEN = {"preset": "permissive", "policy": {"shell": {"unconfined": "allow"}}, "provider": "local"}
"""For tests of everything but policy: commands run as they are."""
OPEN_LINES = "".join(f"c.WapExtension.{name} = {value!r}\n" for name, value in OPEN.items())
TOKEN = "a-token"
OTHERS = ("jupyterlab", "jupyter_lsp", "jupyter_server_terminals", "notebook_shim")
"""Extensions that these tests do without: to import them takes longer than all the rest."""
OPTIONS = [
    *("--no-browser", "--allow-root", "--ServerApp.port=0"),
    "--ServerApp.jpserver_extensions=jupyter_ext=True",
    *(f"--ServerApp.jpserver_extensions={name}=False" for name in OTHERS),
]


class LiveServer(NamedTuple):
    process: ForkedProcess
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


@contextmanager
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
        "PYTHONPATH": PYTHON_PATH,
    }
    options = (f"--ServerApp.root_dir={root}", "--ServerApp.base_url=/an%40odd/base/", *options)
    process = fork_server([*OPTIONS, *options], environment=environment, cwd=root, log=folder / "log")
    try:
        info = wait_for_runtime_file(folder, process)
        yield LiveServer(process, info["port"], "a-token", root, info["base_url"])
    finally:
        process.terminate()
        process.wait(SECONDS)


@contextmanager
def start_demo(person: str | None = None, **configuration: Mapping[str, Any]) -> Iterator[Server]:
    """A server as `make demo` has it, without JupyterLab and its slow imports."""
    without_lab = {"ServerApp": {"jpserver_extensions": dict.fromkeys(OTHERS, False)}}
    with contextlib.ExitStack() as stack:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("PYTHONPATH", FAST_IMPORTS)
            server = stack.enter_context(running_server(configuration={**without_lab, **configuration}, person=person))
        yield server


def wait_for_runtime_file(folder: Path, process: ForkedProcess) -> Any:
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


class Place:
    """A workspace and Jupyter's folders, which every server here shares."""

    def __init__(self, folder: Path, provider: str = "local") -> None:
        self.folder = folder
        self.root = folder / "root"
        self.root.mkdir()
        (folder / "config").mkdir()
        (folder / "config" / "jupyter_server_config.py").write_text(
            OPEN_LINES.replace(repr(OPEN["provider"]), repr(provider))
        )
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("JUPYTER", "JPY_", "WAP_"))}
        self.environment = {
            **kept,
            "HOME": str(folder),
            "JUPYTER_CONFIG_DIR": str(folder / "config"),
            "JUPYTER_DATA_DIR": str(folder / "data"),
            "JUPYTER_RUNTIME_DIR": str(folder / "runtime"),
            "JUPYTER_TOKEN": TOKEN,
            "PYTHONPATH": PYTHON_PATH,
        }

    def layers(self) -> list[Path]:
        """The layers of all processes that are there now."""
        return list((self.folder / "data" / "wap").glob("*/layers/layer_*"))

    def has_written(self, name: str) -> bool:
        """Return whether a command has made a file, in the workspace or on its layer."""
        return (self.root / name).exists() or any((layer / "upper" / name).exists() for layer in self.layers())

    @contextmanager
    def server(self) -> Iterator[LiveServer]:
        """A server; it may be dead already when this ends."""
        process = fork_server(
            [*OPTIONS, f"--ServerApp.root_dir={self.root}"],
            environment=self.environment,
            cwd=self.folder,
            log=self.folder / "log",
        )
        try:
            info = wait_for_runtime_file(self.folder, process)
            yield LiveServer(process, info["port"], TOKEN, self.root, info["base_url"])
        finally:
            process.terminate()
            process.wait(SECONDS)

    def wap(self, *arguments: str, **options: Any) -> subprocess.Popen[str]:
        """A `wap` command with the same configuration, in the workspace."""
        return subprocess.Popen(
            [sys.executable, "-m", "wap_kernel.cli", *arguments],
            env=self.environment,
            cwd=self.root,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            **options,
        )


def batch(*operations: dict[str, Any]) -> str:
    return json.dumps({"protocolVersion": "1.0", "operations": operations})


def start(server: LiveServer, *operations: dict[str, Any], wait: float = 0) -> dict[str, Any]:
    """The events message of a new run."""
    status, message = server.request("POST", f"wap/runs?wait={wait}", batch(*operations))
    assert status in (201, 202), message
    started: dict[str, Any] = message
    return started


def decide(server: LiveServer, message: dict[str, Any], decision: str, wait: float = 30) -> dict[str, Any]:
    """The events message of a run that went on after a person's word."""
    body = {"approvalId": message["pendingApproval"]["approvalId"], "decision": decision}
    status, decided = server.request("POST", f"wap/runs/{message['runId']}/decision?wait={wait}", json.dumps(body))
    assert status in (200, 202), decided
    gone_on: dict[str, Any] = decided
    return gone_on


def get(server: LiveServer, run_id: str) -> dict[str, Any]:
    status, message = server.request("GET", f"wap/runs/{run_id}")
    assert status == 200, message
    found: dict[str, Any] = message
    return found
