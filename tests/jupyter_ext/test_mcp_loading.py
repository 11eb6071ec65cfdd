"""A server that nobody speaks MCP to does without the SDK, which takes most of a second to import."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.request import Request, urlopen

import pytest

from tests.jupyter_ext.mcp_clients import ACCEPT, INITIALIZE, SECONDS
from tests.jupyter_ext.restarting import TOKEN, Place

TELLS = """
import sys
from jupyter_server.base.handlers import APIHandler
class Loaded(APIHandler):
    def get(self):
        self.finish({"sdk": "mcp" in sys.modules})
c.ServerApp.extra_handlers = [("/loaded", Loaded)]
"""


@pytest.fixture
def place(tmp_path: Path) -> Place:
    made = Place(tmp_path)
    config = tmp_path / "config" / "jupyter_server_config.py"
    config.write_text(config.read_text() + TELLS)
    return made


def test_the_sdk_is_loaded_by_the_first_message(place: Place) -> None:
    with place.server() as server:

        def ask(path: str, body: bytes | None = None) -> bytes:
            headers = {**ACCEPT, "Authorization": f"token {TOKEN}"}
            with urlopen(Request(server.url + path, body, headers), timeout=SECONDS) as answer:
                content: bytes = answer.read()
            return content

        def is_loaded() -> bool:
            return bool(json.loads(ask("loaded"))["sdk"])

        ask("wap/policy")
        assert not is_loaded()
        assert b"serverInfo" in ask("wap/mcp", json.dumps(INITIALIZE).encode())
        assert is_loaded()
