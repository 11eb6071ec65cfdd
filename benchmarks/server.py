"""A real Jupyter server with the extension: its own process, a free port, and nothing of the user's in it."""

from __future__ import annotations

import json
import os
import secrets
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.http import Client

REPOSITORY = Path(__file__).resolve().parent.parent
START_SECONDS = 60
STOP_SECONDS = 15
EXTENSIONS = ("jupyter_ext", "benchmarks.empty_handler")


@dataclass(frozen=True)
class Server:
    """A running Jupyter server with the extension."""

    url: str
    token: str
    pid: int
    root: Path

    def client(self) -> Client:
        return Client(self.url, self.token)

    def path(self, inside: Path) -> str:
        """As the tools are given it."""
        return inside.relative_to(self.root).as_posix()


@contextmanager
def running(root: Path) -> Iterator[Server]:
    """Yield a server for the folder `root`, and end it afterwards."""
    with tempfile.TemporaryDirectory(prefix="wap-benchmark-server-", ignore_cleanup_errors=True) as folder:
        base = Path(folder)
        token = secrets.token_hex(16)
        environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith(("JPY_", "JUPYTER", "WAP_"))},
            "JUPYTER_NO_CONFIG": "1",  # no other extensions: the same server everywhere
            "JUPYTER_DATA_DIR": str(base / "data"),
            "JUPYTER_RUNTIME_DIR": str(base / "runtime"),
            "JUPYTER_TOKEN": token,
            "IPYTHONDIR": str(base / "ipython"),
            "PYTHONPATH": str(REPOSITORY),
            "TMPDIR": str(base),  # without configuration Jupyter makes a temporary folder and leaves it there
        }
        options = [f"--ServerApp.jpserver_extensions={name}=True" for name in EXTENSIONS]
        command = [sys.executable, "-m", "jupyter_server", "--no-browser", "--ip=127.0.0.1", "--port=0", "--allow-root"]
        with (base / "server.log").open("wb") as log:
            process = subprocess.Popen(
                [*command, *options, f"--ServerApp.root_dir={root}"],
                cwd=base,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
            try:
                yield Server(_wait_for_url(process, base), token, process.pid, root)
            finally:
                stop(process)


def _wait_for_url(process: subprocess.Popen[bytes], base: Path) -> str:
    """Return the server's address once it listens; the server writes the file with it a moment before."""
    announced = base / "runtime" / f"jpserver-{process.pid}.json"
    deadline = time.monotonic() + START_SECONDS
    while process.poll() is None and time.monotonic() < deadline:
        try:
            server = json.loads(announced.read_text())
            socket.create_connection((server["hostname"], server["port"])).close()
            return str(server["url"])
        except (FileNotFoundError, json.JSONDecodeError, ConnectionRefusedError):  # not there yet, or half written
            time.sleep(0.05)
    log = (base / "server.log").read_text(errors="replace")
    raise SystemExit(f"The server did not start:\n{log}")


def stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(timeout=STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
