"""The programs of npm that `scripts/peers.sh` installs, and a Node.js that is new enough for them."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

MODULES = Path(__file__).parents[1] / "node_modules"
SECONDS = 120


def find_node(oldest: int) -> str:
    """Return a Node.js that is new enough: npm's own package of it, or the system's."""
    for candidate in (*MODULES.glob("node-*/bin/node"), shutil.which("node")):
        if candidate is None:
            continue
        version = subprocess.run([candidate, "--version"], capture_output=True, text=True, check=True, timeout=SECONDS)
        if int(version.stdout.removeprefix("v").split(".")[0]) >= oldest:
            return str(candidate)
    pytest.skip(f"needs Node.js {oldest}")


def run_node(oldest: int, *arguments: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [find_node(oldest), *map(str, arguments)]
    given = {**os.environ, "NO_COLOR": "1", **environment}
    return subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, env=given)
