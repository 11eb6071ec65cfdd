"""MCP's conformance suite: run it against a server in a version of the protocol, and read what it checked."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

from tests.support.node_programs import run_node
from tests.support.server_processes import LiveServer
from wap_kernel.dialects.mcp.protocol import ENVELOPE_VERSIONS, HANDSHAKE_VERSIONS

SOURCE = Path(__file__).parent / "mcp_conformance"
PROGRAM = Path("@modelcontextprotocol/conformance/dist/index.js")
"""The program, in a folder of node modules."""
PINNED = "2025-03-26"
"""The version that a scenario of 0.1.16 names in its headers, whatever was negotiated."""

Checks = list[dict[str, Any]]


def run_suite(modules: Path, *arguments: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return run_node(22, "--import", SOURCE / "preload.mjs", modules / PROGRAM, *arguments, **environment)


def run_scenarios(modules: Path, server: LiveServer, folder: Path, version: str, *which: str) -> dict[str, Checks]:
    """Return the checks of each scenario that ran, all of them in `version`."""
    spoken = folder / "spoken.json"
    environment = {"WAP_TOKEN": server.token, "WAP_SPOKEN": str(spoken)}
    if version in HANDSHAKE_VERSIONS:
        environment["WAP_PROTOCOL"] = version
    url = f"{server.url}wap/mcp?token={server.token}"
    ended = run_suite(modules, "server", "--url", url, *which, "--output-dir", folder, **environment)
    found = {_read_name(file.parent.name): json.loads(file.read_text()) for file in folder.glob("*/checks.json")}
    assert found, ended.stdout + ended.stderr
    others = {*HANDSHAKE_VERSIONS, *ENVELOPE_VERSIONS} - {version, PINNED}
    versions = set(json.loads(spoken.read_text()))
    assert version in versions and not versions & others, versions
    return found


def _read_name(folder: str) -> str:
    """Return the scenario of a folder of results, server-NAME-TIME."""
    match = re.fullmatch(r"server-(.+)-\d{4}-\d\d-\d\dT[\d-]+Z", folder)
    assert match is not None, folder
    return match[1]


def find_troubles(checks: Checks) -> dict[str, str]:
    """Return the messages of the checks that failed or warn, by their ids."""
    return {check["id"]: check.get("errorMessage", "") for check in checks if check["status"] in ("FAILURE", "WARNING")}


def list_passed(checks: Checks) -> list[str]:
    return [check["id"] for check in checks if check["status"] == "SUCCESS"]
