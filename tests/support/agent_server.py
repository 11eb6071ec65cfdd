"""A Jupyter server, a process with the preset `standard`, and an agent that calls it over REST with a token.

The server runs as the user of the tests, or as an ordinary user where the tests run as root.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.support.process_nursery import PROJECT, PYTHON_PATH, fork_server
from tests.support.provider_workspace import skip_unless_works
from tests.support.server_processes import (
    OPTIONS,
    SECONDS,
    TOKEN,
    LiveServer,
    wait_for_runtime_file,
)

ORDINARY = 54321
"""The user and group of an ordinary user."""
USERS = ("own", "ordinary")


class Answer(NamedTuple):
    status: int
    body: Any

    @property
    def text(self) -> str:
        return json.dumps(self.body)


class AgentServer:
    """A folder with a workspace and Jupyter's folders, whose server can be started again and again."""

    def __init__(self, folder: Path, user: str, **settings: Any) -> None:
        """Take settings of the extension besides those that it has here."""
        self.folder = folder
        self.user = user
        self.home = folder / "home"
        self.root = self.home / "ws"
        self.data = folder / "data"
        self.runtime = folder / "runtime"
        for each in (self.root, folder / "config", self.data, self.runtime):
            each.mkdir(parents=True, exist_ok=True)
        settings = {"preset": "standard", "provider": "bubblewrap", **settings}
        lines = (f"c.WapExtension.{name} = {value!r}\n" for name, value in settings.items())
        (folder / "config" / "jupyter_server_config.py").write_text("".join(lines))

    @contextmanager
    def start(self, root: Path | None = None, environment: Mapping[str, str] | None = None) -> Iterator[Agent]:
        """Start the server, and mint a token for an agent."""
        with self._run(root or self.root, environment or {}) as server:
            yield Agent(server)

    @contextmanager
    def _run(self, root: Path, environment: Mapping[str, str]) -> Iterator[LiveServer]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("JUPYTER", "JPY_", "WAP_"))}
        variables = {
            **kept,
            "HOME": str(self.home),
            "JUPYTER_CONFIG_DIR": str(self.folder / "config"),
            "JUPYTER_DATA_DIR": str(self.data),
            "JUPYTER_RUNTIME_DIR": str(self.runtime),
            "JUPYTER_TOKEN": TOKEN,
            "PYTHONPATH": PYTHON_PATH,
            "PYTHONDONTWRITEBYTECODE": "1",
            **environment,
        }
        is_ordinary = self.user == "ordinary"
        if is_ordinary:
            give(self.folder)
        process = fork_server(
            [*OPTIONS, f"--ServerApp.root_dir={root}"],
            environment=variables,
            cwd=self.folder,
            log=self.folder / "log",
            user=ORDINARY if is_ordinary else None,
            mounts=_open_interpreter(self.folder) if is_ordinary else "",
        )
        try:
            info = wait_for_runtime_file(self.folder, process)
            yield LiveServer(process, info["port"], TOKEN, root, info["base_url"])
        finally:
            process.terminate()
            process.wait(SECONDS)


class SharedAgentServer(AgentServer):
    """A folder whose server goes on between the tests of a module; each test has an empty home and its own agent."""

    def __init__(self, folder: Path, user: str, **settings: Any) -> None:
        super().__init__(folder, user, **settings)
        self._servers: dict[Path, LiveServer] = {}
        self._started = ExitStack()

    @contextmanager
    def start(self, root: Path | None = None, environment: Mapping[str, str] | None = None) -> Iterator[Agent]:
        """Start a server for the root unless it runs, and mint a token for an agent."""
        assert not environment, "the environment of a shared server does not change"
        root = root or self.root
        if root not in self._servers:
            self._servers[root] = self._started.enter_context(self._run(root, {}))
        elif self.user == "ordinary":
            give(self.home)
        yield Agent(self._servers[root])

    def clear(self) -> None:
        """Empty the home folder and the workspace in it."""
        for path in (*self.home.iterdir(), *self.root.iterdir()):
            if path != self.root:
                shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()

    def close(self) -> None:
        self._started.close()


class Agent:
    """A server's agent, and the person who decides."""

    def __init__(self, server: LiveServer, **wanted: Any) -> None:
        self.server = server
        status, minted = server.request("POST", "wap/tokens", json.dumps({"name": "an agent", **wanted}))
        assert status == 201, minted
        self._token = minted["token"]

    def call(self, tool: str, **parameters: Any) -> Answer:
        """Call a tool of WAP with the agent's token."""
        return self._send("POST", f"wap/api/{tool}", parameters)

    def run(self, line: str) -> Answer:
        return self.call("executeCommand", command=line, timeout=60_000)

    def start(self, *operations: dict[str, Any], wait: int = 60, **more: Any) -> dict[str, Any]:
        """Start a run with the agent's token, and return its message once it has ended or asks."""
        message = {"protocolVersion": "1.0", "operations": operations, **more}
        status, body = self._send("POST", f"wap/runs?wait={wait}", message)
        assert status in (201, 202), body
        started: dict[str, Any] = body
        return started

    def decide(self, message: Mapping[str, Any], decision: str = "approved", **more: Any) -> dict[str, Any]:
        """Decide as the person on what a run asks, and return its message once it has ended or asks again."""
        body = {"approvalId": message["pendingApproval"]["approvalId"], "decision": decision, **more}
        path = f"wap/runs/{message['runId']}/decision?wait=60"
        status, decided = self.server.request("POST", path, json.dumps(body))
        assert status in (200, 202), decided
        gone_on: dict[str, Any] = decided
        return gone_on

    def _send(self, method: str, path: str, body: Any) -> Answer:
        bearer = {"Authorization": f"Bearer {self._token}"}
        return Answer(*self.server.request(method, path, json.dumps(body), **bearer))


@contextmanager
def open_place(user: str, **settings: Any) -> Iterator[AgentServer]:
    """Yield a folder for servers that run as `user`, or skip the test."""
    with _make_folder(user, **settings) as folder:
        yield AgentServer(folder, user, **settings)


@contextmanager
def share_place(user: str, **settings: Any) -> Iterator[SharedAgentServer]:
    """Yield a folder for the tests of a module whose servers run as `user`, or skip them."""
    with _make_folder(user, **settings) as folder, closing(SharedAgentServer(folder, user, **settings)) as place:
        yield place


@contextmanager
def _make_folder(user: str, *, provider: str = "bubblewrap", **_: Any) -> Iterator[Path]:
    if user == "ordinary" and os.getuid() != 0:
        pytest.skip("the tests run as an ordinary user already")
    skip_unless_works(provider)
    with tempfile.TemporaryDirectory(prefix="wap-agent-") as name:
        folder = Path(name).resolve()
        folder.chmod(0o755)
        yield folder


def give(folder: Path) -> None:
    """Make the ordinary user the owner of the folder and all below it."""
    for each in (folder, *folder.rglob("*")):
        if each.lstat().st_uid != ORDINARY:  # else it would change: its `ctime` shows it
            os.chown(each, ORDINARY, ORDINARY, follow_symlinks=False)


def _as_ordinary_user(folder: Path) -> list[str]:
    """Return a command that runs another one as the ordinary user, who gets to see the interpreter and the project."""
    drop = f'exec setpriv --reuid {ORDINARY} --regid {ORDINARY} --clear-groups -- "$@"'
    script = "\n".join(("set -e", _open_interpreter(folder), drop))
    return ["unshare", "--mount", "--propagation", "private", "sh", "-c", script, "sh"]


def _open_interpreter(folder: Path) -> str:
    """Return a script that mounts the interpreter and the project where the ordinary user sees them."""
    needed = dict.fromkeys(map(os.path.realpath, (sys.base_prefix, sys.prefix, PROJECT)))
    closed = {path: top for path in needed if (top := _find_closed(path))}
    kept = {path: str(folder / f"kept-{number}") for number, path in enumerate(closed)}
    steps = [
        *(("mkdir", "-p", *kept.values()) for _ in kept),
        *(("mount", "--bind", path, place) for path, place in kept.items()),
        *(("mount", "-t", "tmpfs", "-o", "mode=755", "none", top) for top in dict.fromkeys(closed.values())),
        *(("mkdir", "-p", path) for path in kept),
        *(("mount", "--bind", place, path) for path, place in kept.items()),
        *(("umount", place) for place in kept.values()),
    ]
    return "\n".join(map(shlex.join, steps))


def _find_closed(path: str) -> str | None:
    """Return the uppermost folder on the way that others may not enter."""
    parents = (str(each) for each in reversed((Path(path), *Path(path).parents)))
    return next((each for each in parents if not os.stat(each).st_mode & 0o001), None)
