"""Jupyter AI's way to the tools: functions in the server's process, which jupyter-server-mcp lists and calls."""

from __future__ import annotations

import asyncio
import json
import subprocess
import time
from collections.abc import Iterator
from datetime import timedelta
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pytest
from mcp import Client

from jupyter_ext import jupyter_ai
from tests.support import peers
from tests.support.agent_tokens import mint, use
from tests.support.mcp_clients import answer, connected
from tests.support.program_cache import install_python
from tests.support.server_processes import OPEN_LINES, PROJECT
from wap_kernel.dialects.coding_environment.tools import TOOLS
from wap_kernel.files import content_hash

SECONDS = 60
MODULE = "jupyter_ext.jupyter_ai"

pytestmark = pytest.mark.own_server  # a server keeps one token for all calls


async def test_each_tool_is_a_function(extension: Any) -> None:
    assert jupyter_ai.tools() == [f"{MODULE}:{name}" for name in TOOLS]
    for name, tool in TOOLS.items():
        function = getattr(jupyter_ai, name)
        assert (function.__name__, function.__doc__) == (name, tool.description)


def test_jupyter_server_mcp_finds_them_by_our_entry_point() -> None:
    """Find the tools as jupyter-server-mcp does: by the entry points of installed distributions."""
    (found,) = (point for point in entry_points(group="jupyter_server_mcp.tools") if point.name == "wap")
    assert found.dist is not None and found.dist.name.replace("_", "-") == "wap-kernel"
    assert found.load() is jupyter_ai.tools


async def test_a_setting_chooses_which_are_listed(extension: Any) -> None:
    extension.mcp_tools = ["readFile", "listFiles"]
    assert jupyter_ai.tools() == [f"{MODULE}:readFile", f"{MODULE}:listFiles"]


async def test_what_is_no_tool_is_no_function() -> None:
    with pytest.raises(AttributeError, match="nothing"):
        jupyter_ai.nothing  # noqa: B018


async def test_calls_are_an_agents(extension: Any, jp_root_dir: Path, fetch: Any) -> None:
    first, second = await asyncio.gather(
        *(jupyter_ai.writeFile(path=name, contents="x\n", options=None) for name in ("a", "b"))
    )
    assert (first["path"], second["path"], (jp_root_dir / "a").read_text()) == ("a", "b", "x\n")
    run = await jupyter_ai.runOperations(operations=[{"type": "readFile", "path": "a"}])
    assert (await jupyter_ai.getRun(runId=run["runId"]))["events"] == run["events"]
    records = (await fetch("wap/audit")).body["records"]
    assert {record["agent"] for record in records} == {"jupyter-server-mcp"}
    assert all(record["token"] for record in records)


async def test_a_failure_says_what_to_do(extension: Any) -> None:
    for name, arguments in (("readFile", {"path": "missing"}), ("deleteFile", {"path": "missing"})):
        with pytest.raises(jupyter_ai.ToolError) as caught:
            await getattr(jupyter_ai, name)(**arguments)
        reply = json.loads(str(caught.value))
        assert reply["error"]["data"]["code"] == "FILE_NOT_FOUND" and "listFiles" in reply["error"]["message"]


async def test_a_person_can_end_it(extension: Any, fetch: Any) -> None:
    await jupyter_ai.getWorkspaceInfo()
    (token,) = (await fetch("wap/tokens")).body["tokens"]
    assert token["name"] == "jupyter-server-mcp"
    await extension.tokens.revoke(token["id"])
    with pytest.raises(jupyter_ai.ToolError, match="revoked"):
        await jupyter_ai.getWorkspaceInfo()


async def _tokens(fetch: Any) -> list[dict[str, Any]]:
    listed: list[dict[str, Any]] = (await fetch("wap/tokens")).body["tokens"]
    return [token for token in listed if token["name"] == "jupyter-server-mcp" and not token.get("revokedAt")]


async def test_calls_that_come_at_once_have_one_token(extension: Any, fetch: Any) -> None:
    await asyncio.gather(*(jupyter_ai.getWorkspaceInfo() for _ in range(6)))
    assert len(await _tokens(fetch)) == 1


async def test_tokens_of_servers_that_ran_before_are_revoked(
    extension: Any, fetch: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jupyter_ai, "DEFAULT_PAGE", 2)
    for _ in range(5):
        await jupyter_ai._mint_token(extension.tokens)
    namesake = await mint(fetch, name="jupyter-server-mcp")  # a person's
    assert len(await _tokens(fetch)) == 6, "another server may hold one"
    monkeypatch.setattr(jupyter_ai, "UNUSED_LIFETIME", timedelta(seconds=-1))
    await jupyter_ai.getWorkspaceInfo()
    assert len(await _tokens(fetch)) == 2
    assert (await use(fetch, namesake, "exploreFiles", path=".")).status == 200


@pytest.fixture(params=["alone", pytest.param("in Jupyter AI", marks=pytest.mark.download)])
def python(request: pytest.FixtureRequest) -> str:
    """The Python of an environment with wap and jupyter-server-mcp; the other one has all of Jupyter AI."""
    if request.param == "alone":
        return peers.python()
    return str(install_python("jupyter-ai", "--editable", str(PROJECT), "jupyter-ai==3.2.0", "jupyter-server-mcp"))


@pytest.fixture
def url(python: str, tmp_path: Path) -> Iterator[str]:
    """Start jupyter-server-mcp in a server with its own environment, which finds the tools by their entry point."""
    root, runtime, config = (tmp_path / name for name in ("root", "runtime", "config"))
    root.mkdir()
    config.mkdir()
    (config / "jupyter_server_config.py").write_text(f"{OPEN_LINES}c.MCPExtensionApp.mcp_port = 0\n")
    folders = {"CONFIG": config, "DATA": tmp_path / "data", "RUNTIME": runtime}
    environment = {
        **{name: value for name, value in peers.environment().items() if not name.startswith("JUPYTER")},
        **{f"JUPYTER_{name}_DIR": str(path) for name, path in folders.items()},
        "HOME": str(tmp_path),
    }
    command = [python, "-m", "jupyter_server", "--no-browser", "--allow-root", "--ServerApp.port=0"]
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(
            [*command, f"--ServerApp.root_dir={root}"], cwd=root, env=environment, stdout=log, stderr=log
        )
    try:
        yield _announced(runtime / f"jpserver-mcp-{process.pid}.json", process, tmp_path / "log")
    finally:
        process.terminate()
        process.wait(SECONDS)


def _announced(path: Path, process: subprocess.Popen[bytes], log: Path) -> str:
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        if path.exists():  # it is put there whole
            return str(json.loads(path.read_text())["url"])
        time.sleep(0.05)
    raise AssertionError(log.read_text())


async def test_jupyter_server_mcp_lists_and_calls_them(url: str, tmp_path: Path) -> None:
    async with connected(url, {}, "legacy") as client:
        await _use(client)
    assert (tmp_path / "root" / "src" / "a.py").read_text() == "x = 1\n"


async def _use(client: Client) -> None:
    listed = {tool.name: tool for tool in (await client.list_tools()).tools}
    assert listed.keys() >= TOOLS.keys()
    schema = listed["readFile"].input_schema
    assert schema["required"] == ["path"] and schema["properties"]["path"]["minLength"] == 1
    written = await client.call_tool("writeFile", {"path": "src/a.py", "contents": "x = 1\n"})
    expected = {"path": "src/a.py", "size": 6, "hash": content_hash.hash_bytes(b"x = 1\n")}
    assert answer(written) == {**expected, "runId": answer(written)["runId"]}
    found = answer(await client.call_tool("searchFiles", {"query": "X", "options": {"globs": ["**/*.py"]}}))
    assert found["results"] == [{"path": "src/a.py", "line": 1, "column": 1, "text": "x = 1"}]
    failed = await client.call_tool("readFile", {"path": "missing"})
    assert failed.is_error and "FILE_NOT_FOUND" in failed.content[0].text
