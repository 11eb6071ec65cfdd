"""A real JupyterHub culls idle servers, and leaves one alone in which a command runs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.hub import Hub, install_hub, start_hub
from tests.support.server_processes import batch

pytestmark = [pytest.mark.download, pytest.mark.slow]

CULL_SECONDS = 5
WAITS = {"type": "shell", "command": "touch begun; while [ ! -e go ]; do sleep 0.1; done", "timeout": 600_000}


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Hub]:
    install_hub()
    with start_hub(tmp_path, CULL_SECONDS) as hub:
        yield hub


def test_a_command_that_runs_keeps_its_server_alive(hub: Hub) -> None:
    root = hub.start_server("busy")
    message: Any = hub.request("POST", "user/busy/wap/runs?wait=0", json.loads(batch(WAITS)))
    hub.wait((root / "begun").exists)
    started = hub.find_server("busy")["started"]
    # From here on the server gets no request. Servers that were used later are culled before it, and again.
    for _ in range(2):
        hub.start_server("idle")
        hub.wait(lambda: not hub.find_server("idle"))
    assert hub.find_server("busy")["started"] == started
    (root / "go").touch()
    hub.wait(lambda: hub.request("GET", f"user/busy/wap/runs/{message['runId']}")["status"] == "completed")
    hub.wait(lambda: not hub.find_server("busy"))
