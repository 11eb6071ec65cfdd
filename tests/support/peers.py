"""The Python in which others' programs are installed (`scripts/peers.sh`), where there is one."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

ENVIRONMENT = Path(__file__).parents[2] / ".venv-peers"


def python() -> str:
    if not (ENVIRONMENT / "setup-done").exists():
        pytest.skip(".venv-peers is not installed: scripts/peers.sh")
    return str(ENVIRONMENT / "bin" / "python")


def environment() -> dict[str, str]:
    """Without what would have a client go through a proxy, or a program speak to its makers."""
    kept = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
    return {**kept, "FASTMCP_CHECK_FOR_UPDATES": "off", "FASTMCP_SHOW_SERVER_BANNER": "false"}
