"""A JupyterHub with a culler, and the servers of its users (`scripts/hub.sh` installs it)."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support.server_processes import OPEN_LINES, PROJECT, SECONDS

ENVIRONMENT = PROJECT / ".venv-hub"
TOKEN = "the-token-of-a-service"
CONFIGURATION = """
c.JupyterHub.bind_url = "http://127.0.0.1:{port}"
c.JupyterHub.hub_bind_url = "http://127.0.0.1:{hub}"
c.ConfigurableHTTPProxy.api_url = "http://127.0.0.1:{proxy}"
c.ConfigurableHTTPProxy.command = ["{environment}/node_modules/.bin/configurable-http-proxy"]
c.JupyterHub.authenticator_class = "dummy"
c.Authenticator.allow_all = True
c.JupyterHub.spawner_class = "simple"
c.SimpleLocalProcessSpawner.home_dir_template = "{folder}/homes/{{username}}"
c.Spawner.cmd = ["{environment}/bin/jupyterhub-singleuser"]
c.Spawner.args = ["--allow-root"]
c.Spawner.environment = {{"JUPYTER_CONFIG_DIR": "{folder}/config", "JUPYTERHUB_ACTIVITY_INTERVAL": "1"}}
c.JupyterHub.activity_resolution = 0
c.JupyterHub.services = [
    {{"name": "cull", "command": ["{environment}/bin/jupyterhub-idle-culler", "--timeout={cull}", "--cull-every=1"]}},
    {{"name": "person", "api_token": "{token}"}},
]
c.JupyterHub.load_roles = [
    {{"name": "cull", "scopes": ["list:users", "read:users:activity", "read:servers", "delete:servers"],
      "services": ["cull"]}},
    {{"name": "person", "scopes": ["admin:users", "admin:servers", "access:servers"], "services": ["person"]}},
]
"""


@dataclass(frozen=True)
class Hub:
    """A hub that runs; its requests are those of a service that may do everything."""

    url: str
    folder: Path
    process: subprocess.Popen[bytes]

    def request(self, method: str, path: str, body: Any = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self.url}{path}", data, method=method)
        request.add_header("Authorization", f"token {TOKEN}")
        with urllib.request.urlopen(request, timeout=SECONDS) as answer:
            text = answer.read()
        return json.loads(text) if text else None

    def start_server(self, user: str) -> Path:
        """Start the server of a user and return its root."""
        home = self.folder / "homes" / user
        home.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(urllib.error.HTTPError):  # the user is there already
            self.request("POST", f"hub/api/users/{user}")
        self.request("POST", f"hub/api/users/{user}/server")
        self.wait(lambda: self.find_server(user).get("ready"))
        return home

    def find_server(self, user: str) -> dict[str, Any]:
        """Return the hub's word on the server of a user, which is empty where it has none."""
        found: dict[str, Any] = self.request("GET", f"hub/api/users/{user}")["servers"].get("", {})
        return found

    def wait(self, condition: Callable[[], object]) -> None:
        deadline = time.monotonic() + SECONDS
        while time.monotonic() < deadline and self.process.poll() is None:
            with contextlib.suppress(OSError):  # it does not answer yet
                if condition():
                    return
            time.sleep(0.1)
        raise AssertionError((self.folder / "log").read_text()[-20_000:])


def install_hub() -> None:
    """Install the hub; skip the test where that is not possible."""
    done = subprocess.run([PROJECT / "scripts" / "hub.sh"], capture_output=True, text=True, timeout=900, check=False)
    if done.returncode != 0:
        pytest.skip(f"jupyterhub cannot be installed here: {done.stderr.strip()[-300:]}")


@contextmanager
def start_hub(folder: Path, cull_seconds: int) -> Iterator[Hub]:
    """A hub that culls servers which are idle for so many seconds."""
    (folder / "config").mkdir()
    (folder / "config" / "jupyter_server_config.py").write_text(OPEN_LINES)
    ports = dict(zip(("port", "hub", "proxy"), _find_ports(3), strict=True))
    configuration = CONFIGURATION.format(
        **ports, environment=ENVIRONMENT, folder=folder, cull=cull_seconds, token=TOKEN
    )
    (folder / "jupyterhub_config.py").write_text(configuration)
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith(("JUPYTER", "JPY_", "WAP_"))},
        "HOME": str(folder),
        "PATH": f"{ENVIRONMENT / 'bin'}{os.pathsep}{os.environ['PATH']}",
    }
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [ENVIRONMENT / "bin" / "jupyterhub"], cwd=folder, env=environment, stdout=log, stderr=log
        )
    try:
        hub = Hub(f"http://127.0.0.1:{ports['port']}/", folder, process)
        hub.wait(lambda: hub.request("GET", "hub/api/"))
        yield hub
    finally:
        process.terminate()  # it ends its proxy, its culler and the servers
        process.wait(SECONDS)


def _find_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
