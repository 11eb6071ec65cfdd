"""Jupyter AI's MCP server, with one function that reads a file: the least that a tool costs there."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.http import Client
from benchmarks.server import REPOSITORY, START_SECONDS, stop

PYTHON = REPOSITORY / ".venv-peers" / "bin" / "python"
"""Where `scripts/peers.sh` installs it."""


def read_text(path: str) -> str:
    """Read a file."""
    return Path(path).read_text()


def is_installed() -> bool:
    return (PYTHON.parents[1] / "setup-done").exists()


@contextmanager
def running(root: Path) -> Iterator[Client]:
    """Return a client of jupyter-server-mcp, which requires no token."""
    with tempfile.TemporaryDirectory(prefix="wap-benchmark-peer-", ignore_cleanup_errors=True) as folder:
        base = Path(folder)
        environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith(("JPY_", "JUPYTER", "WAP_"))},
            "JUPYTER_NO_CONFIG": "1",
            "JUPYTER_DATA_DIR": str(base / "data"),
            "JUPYTER_RUNTIME_DIR": str(base / "runtime"),
            "FASTMCP_CHECK_FOR_UPDATES": "off",
            "FASTMCP_LOG_LEVEL": "WARNING",
            "PYTHONPATH": str(REPOSITORY),
            "TMPDIR": str(base),
        }
        options = {
            "ServerApp.port": "0",
            "ServerApp.root_dir": str(root),
            "ServerApp.jpserver_extensions": "jupyter_server_mcp=True",
            "MCPExtensionApp.mcp_port": "0",
            "MCPExtensionApp.use_tool_discovery": "False",
            "MCPExtensionApp.mcp_tools": f"{__name__}:read_text",
        }
        command = [str(PYTHON), "-m", "jupyter_server", "--no-browser", "--allow-root"]
        with (base / "server.log").open("wb") as log:
            process = subprocess.Popen(
                [*command, *(f"--{name}={value}" for name, value in options.items())],
                cwd=base,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
            try:
                with Client(_wait_for_url(process, base), "none") as client:
                    yield client
            finally:
                stop(process)


def _wait_for_url(process: subprocess.Popen[bytes], base: Path) -> str:
    announced = base / "runtime" / f"jpserver-mcp-{process.pid}.json"
    deadline = time.monotonic() + START_SECONDS
    while process.poll() is None and time.monotonic() < deadline:
        if announced.exists():  # it is put there whole, and the server listens by then
            return str(json.loads(announced.read_text())["url"]).removesuffix("/mcp")
        time.sleep(0.05)
    log = (base / "server.log").read_text(errors="replace")
    raise SystemExit(f"jupyter-server-mcp did not start:\n{log}")
