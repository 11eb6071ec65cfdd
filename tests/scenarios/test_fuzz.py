"""Requests made from the OpenAPI document, by schemathesis on a real server, with all of its checks.

A person's and an agent's requests find no server error, no undocumented answer, and no difference between what the
document allows and what the server takes. A few seconds by default; `make fuzz` sets WAP_FUZZ_SECONDS to more.
`fuzz_hooks.py` keeps commands harmless.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.server_processes import OPEN_LINES, LiveServer, start_server
from wap_kernel.dialects.tool_interface import tools as interface_tools
from wap_kernel.dialects.wap import tools as wap

SECONDS = int(os.environ.get("WAP_FUZZ_SECONDS", "8"))
CONFIGURATION = f"""{OPEN_LINES}c.WapExtension.allow_unconfined = True
"""
# A request that follows its schema may still name a missing file or a folder instead of a file. `fuzz_hooks` checks
# that no such refusal is one by the model of the request.
ACCEPTANCE = """[checks.positive_data_acceptance]
expected-statuses = ["2xx", "400", "403", "404", "409", "413", "415", "422", "429", "507"]
"""
LIMITS = {"concurrentOperations": 1_000, "commandsPerMinute": 1_000_000}
EVERYTHING = {
    *(f"/wap/api/{name}" for name in wap.TOOLS),
    *(f"/wap/workspace/{name}" for name in interface_tools.TOOLS),
    *("/wap/tools", "/wap/runs", "/wap/mcp", "/wap/tokens"),
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    with start_server(tmp_path_factory.mktemp("server"), configuration=CONFIGURATION) as started:
        yield started


@pytest.mark.fuzz
@pytest.mark.parametrize("holder", ["person", "agent"])
def test_schemathesis_finds_nothing(server: LiveServer, tmp_path: Path, holder: str) -> None:
    token = server.token if holder == "person" else _mint(server)
    tally = tmp_path / "tally"
    tally.touch()
    reached: set[str] = set()
    for seconds in (SECONDS, 4 * SECONDS, 16 * SECONDS):  # a busy machine does not come to everything at first
        _search(server, token, tmp_path, tally, seconds)
        reached = {line.split()[0] for line in tally.read_text().splitlines()}
        if reached >= EVERYTHING:
            break
    assert reached >= EVERYTHING
    assert "Traceback" not in (server.root.parent / "log").read_text()


def _mint(server: LiveServer) -> str:
    status, minted = server.request("POST", "wap/tokens", json.dumps({"name": "fuzz", "limits": LIMITS}))
    assert status == 201, minted
    return str(minted["token"])


def _search(server: LiveServer, token: str, tmp_path: Path, tally: Path, seconds: int) -> None:
    (tmp_path / "schemathesis.toml").write_text(ACCEPTANCE)
    command = [sys.executable, "-m", "schemathesis.cli", "--config-file", str(tmp_path / "schemathesis.toml")]
    command += ["--no-color", "run", f"{server.url}wap/openapi.json"]
    command += ["--header", f"Authorization: Bearer {token}", "--checks", "all"]
    command += ["--phases", "examples,coverage,fuzzing", "--max-time", str(seconds), "--seed", "1"]
    command += ["--exclude-path", "/wap/events"]  # never ends
    command += ["--generation-database", "none", "--continue-on-failure"]
    # A run answers within the 60 s that it waits by default; a batch of as many commands as allowed needs them.
    command += ["--max-response-time", "65", "--request-timeout", "90"]
    environment = {
        **os.environ,
        "PYTHONPATH": str(Path(__file__).parents[1] / "support"),
        "SCHEMATHESIS_HOOKS": "fuzz_hooks",
        "WAP_FUZZ_ROOT": str(server.root),
        "WAP_FUZZ_TALLY": str(tally),
    }
    result = subprocess.run(
        command, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=seconds + 300
    )
    assert result.returncode == 0, result.stdout[-20_000:] + result.stderr[-5_000:]
