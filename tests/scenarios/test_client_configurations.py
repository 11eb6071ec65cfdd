"""docs/clients.md: every configuration in it connects, lists the tools and calls one, by exactly what it says."""

from __future__ import annotations

import ast
import asyncio
import inspect
import json
import os
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from mcp import Client, StdioServerParameters

from tests.support.client_configurations import DOCUMENT, TOKEN, Connection, connections
from tests.support.mcp_clients import LEGACY, answer, connected
from tests.support.server_processes import Place
from wap_kernel.dialects.coding_environment.tools import TOOLS

SECONDS = 60
TEXT = DOCUMENT.read_text()
WRITTEN = list(connections(TEXT, {TOKEN: "wap_..."}))
CLIENTS = {"Claude Code", "Codex", "opencode", "Cursor", "VS Code", "Jupyter AI"}


@dataclass(frozen=True)
class Desk:
    """A reader's own server, token and folder."""

    place: Place
    url: str
    token: str
    token_file: Path

    @property
    def environment(self) -> dict[str, str]:
        found = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
        return {**self.place.environment, "PATH": found, TOKEN: self.token}

    def filled(self, text: str) -> str:
        """What the document says to do: put your own address and your own paths."""
        own = {
            "http://localhost:8888/": self.url,
            "/home/me/token": str(self.token_file),
            "/home/me/project": str(self.place.root),
            "wap_...": self.token,
        }
        for theirs, mine in own.items():
            text = text.replace(theirs, mine)
        return text


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    place = Place(tmp_path_factory.mktemp("place"))
    (place.root / "todo.txt").write_text("TODO: this\n")
    file = place.folder / "token"
    with place.server() as server:
        status, minted = server.request("POST", "wap/tokens", json.dumps({"name": "helper"}))
        assert status == 201, minted
        file.write_text(minted["token"] + "\n")
        file.chmod(0o600)
        yield Desk(place, server.url, minted["token"], file)


def test_every_client_has_one() -> None:
    assert {connection.client for connection in WRITTEN} == CLIENTS
    assert {bool(connection.url) for connection in WRITTEN} == {True, False}


@pytest.mark.parametrize("number", range(len(WRITTEN)), ids=[str(connection) for connection in WRITTEN])
def test_a_configuration_works(desk: Desk, number: int) -> None:
    connection = list(connections(desk.filled(TEXT), desk.environment))[number]
    assert replace(connection, url=None, headers={}, command=()) == replace(
        WRITTEN[number], url=None, headers={}, command=()
    )
    asyncio.run(asyncio.wait_for(_use(desk, connection), SECONDS))


async def _use(desk: Desk, connection: Connection) -> None:
    if connection.url is not None:
        async with connected(connection.url, dict(connection.headers), LEGACY) as client:
            await _call(client)
        return
    command, *arguments = connection.command
    told = StdioServerParameters(command=command, args=arguments, env=desk.environment, cwd=str(desk.place.folder))
    async with Client(told, mode=LEGACY, read_timeout_seconds=SECONDS) as client:
        await _call(client)


async def _call(client: Client) -> None:
    assert [tool.name for tool in (await client.list_tools()).tools] == list(TOOLS)
    found = answer(await client.call_tool("searchFiles", {"query": "todo"}))
    assert [one["path"] for one in found["results"]] == ["todo.txt"]


def test_the_program_in_python_works(desk: Desk, capsys: pytest.CaptureFixture[str]) -> None:
    (block,) = re.findall(r"^```python\n(.*?)^```", desk.filled(TEXT), re.MULTILINE | re.DOTALL)
    program = compile(block, "clients.md", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    work = eval(program, {"token": desk.token})  # noqa: S307 - of our own document
    assert inspect.iscoroutine(work)
    asyncio.run(asyncio.wait_for(work, SECONDS))
    assert "todo.txt" in capsys.readouterr().out
