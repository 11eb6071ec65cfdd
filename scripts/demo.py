"""Run the quickstart against a real server and print every cell with its output (`make demo`).

The server has a free port, a token and an empty workspace of its own; nothing of the user's is read or left behind.
"""

from __future__ import annotations

import argparse
import json
import os
import secrets
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

QUICKSTART = Path(__file__).resolve().parent.parent / "notebooks" / "quickstart.ipynb"
START_SECONDS = 60
_PROVIDER = """
from jupyter_server.auth import User
from jupyter_server.auth.identity import PasswordIdentityProvider

class Provider(PasswordIdentityProvider):
    def generate_anonymous_user(self, handler):
        return User({person!r})

c.ServerApp.identity_provider_class = Provider
"""


class Server(NamedTuple):
    """A running Jupyter server with an empty workspace."""

    url: str
    token: str
    pid: int
    log: Path
    workspace: Path
    environment: dict[str, str]
    """The environment with Jupyter's folders in a temporary folder; a process that should find this server needs it."""


@contextmanager
def running_server(
    python: str = sys.executable,
    configuration: Mapping[str, Mapping[str, Any]] | None = None,
    person: str | None = None,
) -> Iterator[Server]:
    """Yield a Jupyter server of `python` with this configuration, without any configuration of the user's.

    `person` is the name of its user; without it, the operating system's user is named.
    """
    with tempfile.TemporaryDirectory(prefix="wap-demo-", ignore_cleanup_errors=True) as folder:
        base = Path(folder)
        workspace = base / "workspace"
        workspace.mkdir()
        (base / "config").mkdir()
        (base / "config" / "jupyter_server_config.json").write_text(json.dumps(configuration or {}))
        if person is not None:
            (base / "config" / "jupyter_server_config.py").write_text(_PROVIDER.format(person=person))
        token = secrets.token_hex(16)
        environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith(("JPY_", "JUPYTER", "WAP_"))},
            "JUPYTER_CONFIG_DIR": str(base / "config"),
            "JUPYTER_DATA_DIR": str(base / "data"),
            "JUPYTER_RUNTIME_DIR": str(base / "runtime"),
            "JUPYTER_TOKEN": token,
            "IPYTHONDIR": str(base / "ipython"),
        }
        command = [python, "-m", "jupyter_server", "--no-browser", "--ip=127.0.0.1", "--port=0", "--allow-root"]
        with (base / "server.log").open("w+b") as log:
            process = subprocess.Popen(
                [*command, f"--ServerApp.root_dir={workspace}"], env=environment, stdout=log, stderr=log
            )
            try:
                url = _wait_for_url(process, base / "runtime", base / "server.log")
                yield Server(url, token, process.pid, base / "server.log", workspace, environment)
            finally:
                process.terminate()
                try:
                    process.wait(timeout=15)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()


def _wait_for_url(process: subprocess.Popen[bytes], runtime: Path, log: Path) -> str:
    """Return the server's address, from the file that the server writes shortly before it listens."""
    announced = runtime / f"jpserver-{process.pid}.json"
    deadline = time.monotonic() + START_SECONDS
    while process.poll() is None and time.monotonic() < deadline:
        try:
            info = json.loads(announced.read_text())
            with socket.create_connection(("127.0.0.1", info["port"])):
                return str(info["url"])
        except (FileNotFoundError, json.JSONDecodeError, ConnectionRefusedError):  # missing, half written, too early
            time.sleep(0.05)
    raise SystemExit(f"The server did not start:\n{log.read_text(errors='replace')}")


def run_notebook(notebook: nbformat.NotebookNode, server: Server) -> None:
    """Execute every cell in a kernel that is told where the server is; outputs are stored in the notebook."""
    environment = {**server.environment, "WAP_URL": server.url, "WAP_TOKEN": server.token}
    client = NotebookClient(
        notebook,
        timeout=60,
        record_timing=False,
        resources={"metadata": {"path": str(server.workspace)}},
        # It would warn about its unencrypted connection, which stays on this machine.
        extra_arguments=["--IPKernelApp.log_level=ERROR"],
    )
    client.execute(env=environment)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = _joined(cell.outputs)


def _joined(outputs: list[nbformat.NotebookNode]) -> list[nbformat.NotebookNode]:
    """Join text that was printed in a row: a kernel under load sends it in any number of pieces."""
    joined: list[nbformat.NotebookNode] = []
    for output in outputs:
        last = joined[-1] if joined else None
        if last is not None and last.output_type == output.output_type == "stream" and last.name == output.name:
            last.text += output.text
        else:
            joined.append(output)
    return joined


def as_text(cell: Any) -> str:
    """Render a cell for a terminal: prose as it is, code with a bar, then its output."""
    if cell.cell_type != "code":
        return str(cell.source)
    lines = [f"| {line}".rstrip() for line in cell.source.splitlines()]
    for output in cell.outputs:
        if output.output_type == "stream":
            lines.append(output.text.rstrip())
        elif output.output_type == "error":
            lines.append(f"{output.ename}: {output.evalue}")
        else:
            lines.append(output.data["text/plain"])
    return "\n".join(lines)


def main() -> int:
    argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None).parse_args()
    notebook = nbformat.read(QUICKSTART, as_version=4)
    log_of_failure = None
    with running_server() as server:
        try:
            run_notebook(notebook, server)
        except CellExecutionError:
            log_of_failure = server.log.read_text(errors="replace")
    print("\n\n".join(as_text(cell) for cell in notebook.cells))
    if log_of_failure is not None:
        print(f"\nThe quickstart failed. The server's log:\n{log_of_failure}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
