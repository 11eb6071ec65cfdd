"""desktop-commander, an MCP server that many clients have for files and commands, over its pipes."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks import peers

FOLDER = Path(__file__).resolve().parent / "node_modules" / "@wonderwhy-er" / "desktop-commander"
"""Where `make bench` installs it."""


def is_installed() -> bool:
    return peers.has("node") and (FOLDER / "dist" / "index.js").exists()


@contextmanager
def running() -> Iterator[peers.McpFilesystem]:
    """With a home of its own: it keeps a log and a configuration there."""
    with tempfile.TemporaryDirectory(prefix="wap-benchmark-peer-", ignore_cleanup_errors=True) as home:
        command = ["node", str(FOLDER / "dist" / "index.js"), "--no-onboarding"]
        environment = {"PATH": os.environ["PATH"], "HOME": home}
        with peers.McpFilesystem(Path(home), command, environment) as server:
            yield server
