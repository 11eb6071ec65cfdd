"""docs/clients.md: every configuration in it connects, lists the tools and calls one, by exactly what it says."""

from __future__ import annotations

import ast
import asyncio
import inspect
from collections.abc import Iterator
from dataclasses import replace

import pytest
from mcp import Client, StdioServerParameters

from tests.support.client_configurations import DOCUMENT, TOKEN, Connection, connections, find_block
from tests.support.client_desk import Desk, open_desk
from tests.support.mcp_clients import LEGACY, answer, connected
from wap_kernel.dialects.coding_environment.tools import TOOLS

SECONDS = 60
TEXT = DOCUMENT.read_text()
WRITTEN = list(connections(TEXT, {TOKEN: "wap_..."}))
CLIENTS = {"Claude Code", "Codex", "Gemini CLI", "opencode", "Cursor", "VS Code", "Jupyter AI"}


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    with open_desk(tmp_path_factory.mktemp("place")) as opened:
        yield opened


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
    block = find_block(desk.filled(TEXT), "Python", "python")
    program = compile(block, "clients.md", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    work = eval(program, {"token": desk.token})  # noqa: S307 - of our own document
    assert inspect.iscoroutine(work)
    asyncio.run(asyncio.wait_for(work, SECONDS))
    assert "todo.txt" in capsys.readouterr().out
