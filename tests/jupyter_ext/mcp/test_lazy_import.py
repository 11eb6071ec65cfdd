"""A server that nobody speaks MCP to does without the SDK, which takes most of a second to import."""

from __future__ import annotations

import json
import signal
import time
from pathlib import Path
from urllib.request import Request, urlopen

import pytest

from tests.support.mcp_clients import ACCEPT, INITIALIZE, SECONDS
from tests.support.server_processes import TOKEN, Place

TELLS = """
import os, signal, sys
def tell(*_):
    with open("loaded.new", "w") as file:
        file.write(str("mcp" in sys.modules))
    os.replace("loaded.new", "loaded")
signal.signal(signal.SIGUSR2, tell)
"""
"""The server's configuration reports the loaded modules: no other code runs inside the server."""


@pytest.fixture
def folder(tmp_path: Path) -> Place:
    made = Place(tmp_path)
    config = tmp_path / "config" / "jupyter_server_config.py"
    config.write_text(config.read_text() + TELLS)
    return made


def test_the_sdk_is_loaded_by_the_first_message(folder: Place) -> None:
    with folder.server() as server:

        def ask(path: str, body: bytes | None = None) -> bytes:
            headers = {**ACCEPT, "Authorization": f"token {TOKEN}"}
            with urlopen(Request(server.url + path, body, headers), timeout=SECONDS) as answer:
                content: bytes = answer.read()
            return content

        def is_loaded() -> str:
            report = folder.folder / "loaded"
            report.unlink(missing_ok=True)
            server.process.send_signal(signal.SIGUSR2)
            deadline = time.monotonic() + SECONDS
            while not report.exists():
                assert time.monotonic() < deadline
                time.sleep(0.01)
            return report.read_text()

        ask("wap/policy")
        assert is_loaded() == "False"
        assert b"serverInfo" in ask("wap/mcp", json.dumps(INITIALIZE).encode())
        assert is_loaded() == "True"
