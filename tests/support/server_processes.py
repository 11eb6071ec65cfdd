"""Servers that come and go on one folder with one state, each a process; and `wap run` beside them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.jupyter_ext.conftest import OPEN_LINES, PROJECT, SECONDS, LiveServer, _wait_for_runtime_file

TOKEN = "a-token"
OTHERS = ("jupyterlab", "jupyter_lsp", "jupyter_server_terminals", "notebook_shim")
"""Extensions that these tests do without: to import them takes longer than all the rest."""


class Place:
    """A workspace and Jupyter's folders, which every server here shares."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.root = folder / "root"
        self.root.mkdir()
        (folder / "config").mkdir()
        (folder / "config" / "jupyter_server_config.py").write_text(OPEN_LINES)
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("JUPYTER", "JPY_", "WAP_"))}
        self.environment = {
            **kept,
            "HOME": str(folder),
            "JUPYTER_CONFIG_DIR": str(folder / "config"),
            "JUPYTER_DATA_DIR": str(folder / "data"),
            "JUPYTER_RUNTIME_DIR": str(folder / "runtime"),
            "JUPYTER_TOKEN": TOKEN,
            "PYTHONPATH": str(PROJECT),
        }

    @contextmanager
    def server(self) -> Iterator[LiveServer]:
        """A server; it may be dead already when this ends."""
        command = [sys.executable, "-m", "jupyter_server", "--no-browser", "--allow-root", "--ServerApp.port=0"]
        command += [f"--ServerApp.root_dir={self.root}", "--ServerApp.jpserver_extensions=jupyter_ext=True"]
        command += [f"--ServerApp.jpserver_extensions={name}=False" for name in OTHERS]
        with (self.folder / "log").open("ab") as log:
            process = subprocess.Popen(command, env=self.environment, cwd=self.folder, stdout=log, stderr=log)
        try:
            info = _wait_for_runtime_file(self.folder, process)
            yield LiveServer(process, info["port"], TOKEN, self.root, info["base_url"])
        finally:
            process.terminate()
            process.wait(SECONDS)

    def wap(self, *arguments: str, **options: Any) -> subprocess.Popen[str]:
        """A `wap` command with the same configuration, in the workspace."""
        return subprocess.Popen(
            [sys.executable, "-m", "wap_kernel.cli.main", *arguments],
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
