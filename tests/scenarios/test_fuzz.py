"""Requests made from the OpenAPI document, by schemathesis on a real server: no server error, no undocumented answer.

A few seconds by default; `make fuzz` sets WAP_FUZZ_SECONDS to more. `fuzz_hooks.py` keeps commands harmless.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from wap_kernel.dialects.tool_interface import tools as interface_tools
from wap_kernel.dialects.wap import tools as wap

SECONDS = int(os.environ.get("WAP_FUZZ_SECONDS", "8"))
CHECKS = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance"
EVERYTHING = {
    *(f"/wap/api/{name}" for name in wap.TOOLS),
    *(f"/wap/workspace/{name}" for name in interface_tools.TOOLS),
    *("/wap/tools", "/wap/runs", "/wap/mcp"),
}


@pytest.mark.fuzz
def test_schemathesis_finds_nothing(live_server: Any, tmp_path: Path) -> None:
    tally = tmp_path / "tally"
    tally.touch()
    reached: set[str] = set()
    for seconds in (SECONDS, 4 * SECONDS, 16 * SECONDS):  # a busy machine does not come to everything at first
        _search(live_server, tmp_path, tally, seconds)
        reached = {line.split()[0] for line in tally.read_text().splitlines()}
        if reached >= EVERYTHING:
            break
    assert reached >= EVERYTHING
    assert "Traceback" not in (live_server.root.parent / "log").read_text()


def _search(live_server: Any, tmp_path: Path, tally: Path, seconds: int) -> None:
    command = [sys.executable, "-m", "schemathesis.cli", "--no-color", "run", f"{live_server.url}wap/openapi.json"]
    command += ["--header", f"Authorization: token {live_server.token}", "--checks", CHECKS]
    command += ["--phases", "examples,coverage,fuzzing", "--max-time", str(seconds), "--seed", "1"]
    command += ["--exclude-path", "/wap/events"]  # never ends
    command += ["--generation-database", "none", "--continue-on-failure", "--request-timeout", "60"]
    environment = {
        **os.environ,
        "PYTHONPATH": str(Path(__file__).parents[1] / "support"),
        "SCHEMATHESIS_HOOKS": "fuzz_hooks",
        "WAP_FUZZ_ROOT": str(live_server.root),
        "WAP_FUZZ_TALLY": str(tally),
    }
    result = subprocess.run(
        command, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=seconds + 300
    )
    assert result.returncode == 0, result.stdout[-20_000:] + result.stderr[-5_000:]
