"""MCP programs from npm: the TypeScript client, the conformance suite and the inspector.

The suite here is 0.1.16, which knows nothing of 2026-07-28; test_conformance.py has the next one.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support import mcp_calls
from tests.support.conformance_suite import find_troubles, list_passed, run_scenarios, run_suite
from tests.support.node_programs import MODULES, run_node
from tests.support.server_processes import PYTHON_PATH, LiveServer, Place, start_server
from wap_kernel.dialects.coding_environment.tools import TOOLS

PACKAGES = MODULES / "@modelcontextprotocol"

APPLY = (
    *("server-initialize", "ping", "logging-set-level", "completion-complete", "tools-list", "resources-list"),
    *("prompts-list", "server-sse-multiple-streams", "dns-rebinding-protection"),
)
_TOOLS = "calls a tool of the suite's own example server (test_...), which a workspace does not have"
_FILES = "names a resource of the suite's own example server (test://...); ours are files"
_PROMPTS = "names a prompt of the suite's own example server (test_...)"
DO_NOT_APPLY = {
    **dict.fromkeys(
        (
            *("tools-call-simple-text", "tools-call-image", "tools-call-audio", "tools-call-embedded-resource"),
            *("tools-call-mixed-content", "tools-call-with-logging", "tools-call-error", "tools-call-with-progress"),
            *("tools-call-sampling", "tools-call-elicitation", "json-schema-2020-12", "elicitation-sep1034-defaults"),
            *("elicitation-sep1330-enums", "server-sse-polling"),
        ),
        _TOOLS,
    ),
    **dict.fromkeys(
        (
            *("resources-read-text", "resources-read-binary", "resources-templates-read"),
            *("resources-subscribe", "resources-unsubscribe"),
        ),
        _FILES,
    ),
    **dict.fromkeys(
        (
            *("prompts-get-simple", "prompts-get-with-args", "prompts-get-embedded-resource"),
            "prompts-get-with-image",
        ),
        _PROMPTS,
    ),
}


def _package(name: str) -> Path:
    if not (PACKAGES / name / "package.json").exists():
        pytest.skip(f"@modelcontextprotocol/{name} is not installed: scripts/setup.sh test")
    return PACKAGES / name


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    with start_server(tmp_path_factory.mktemp("server")) as started:
        yield started


@pytest.fixture(params=["http", "folder", "bridge"])
def way(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[dict[str, Any], Path]]:
    """The way to a workspace, as the client's program expects it, and the workspace's folder."""
    if request.param == "folder":
        place = Place(tmp_path)
        yield build_command(str(place.root), environment=place.environment), place.root
        return
    server: LiveServer = request.getfixturevalue("server")
    if request.param == "http":
        yield {"url": f"{server.url}wap/mcp", "token": server.token}, server.root
    else:
        environment = {**os.environ, "PYTHONPATH": PYTHON_PATH, "WAP_TOKEN": server.token}
        yield build_command("--url", server.url, environment=environment), server.root
    for path in server.root.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()


def build_command(*where: str, environment: dict[str, str]) -> dict[str, Any]:
    return {"command": sys.executable, "args": ["-m", "wap_kernel.cli", "mcp", *where], "env": environment}


def test_the_typescript_client_does_everything(way: tuple[dict[str, Any], Path], tmp_path: Path) -> None:
    _package("sdk")
    given, root = way
    script = Path(__file__).parents[2] / "support" / "mcp_client.mjs"
    way_file, calls = tmp_path / "way.json", tmp_path / "calls.json"
    way_file.write_text(json.dumps(given))
    calls.write_text(json.dumps(mcp_calls.CALLS))
    mcp_calls.prepare(root)
    ended = run_node(18, script, MODULES, way_file, calls)
    assert ended.returncode == 0, ended.stderr
    output: dict[str, Any] = json.loads(ended.stdout)
    assert (output["server"], output["tools"], output["info"]) == ("wap", list(TOOLS), str(root))
    mcp_calls.compare(output["calls"])
    assert (output["updated"], output["resource"], output["prompts"]) == (True, "seen\n", 2)
    assert (output["progress"], output["cancelled"], output["both"]) == (True, [True, True], [0, 0])
    assert output.get("resumed") == ("resumed\n" if "url" in given else None)
    assert output["agreed"] == ["hi\n", True]
    assert output["declined"] == [[-32005, "APPROVAL_REQUIRED"], True]


def test_every_conformance_scenario_is_known() -> None:
    _package("conformance")
    listed = run_suite(MODULES, "list").stdout.partition("Client scenarios")[0]
    found = set(re.findall(r"^\s+- ([\w-]+)", listed, re.MULTILINE))
    assert found == {*APPLY, *DO_NOT_APPLY}


@pytest.mark.parametrize("version", ["2025-03-26", "2025-06-18", "2025-11-25"])
def test_conformance(server: LiveServer, tmp_path: Path, version: str) -> None:
    _package("conformance")
    (server.root / "a.txt").write_text("a\n")
    found = run_scenarios(MODULES, server, tmp_path, version, "--suite", "all")
    assert set(found) == {*APPLY, *DO_NOT_APPLY}
    for scenario in APPLY:
        checks = found[scenario]
        assert list_passed(checks) and not find_troubles(checks), checks


def test_the_inspector_lists_and_calls_the_tools(server: LiveServer) -> None:
    launcher = _package("inspector") / "clients" / "launcher" / "build" / "index.js"
    (server.root / "a.txt").write_text("inspected\n")

    def inspect(*arguments: str) -> Any:
        where = ("--cli", f"{server.url}wap/mcp", "--transport", "http")
        header = ("--header", f"Authorization: Bearer {server.token}")
        ended = run_node(22, launcher, *where, *header, *arguments)
        assert ended.returncode == 0, ended.stdout + ended.stderr
        return json.loads(ended.stdout)

    assert "readFile" in [tool["name"] for tool in inspect("--method", "tools/list")["tools"]]
    called = inspect("--method", "tools/call", "--tool-name", "readFile", "--tool-arg", "path=a.txt")
    assert called["structuredContent"]["content"] == "inspected\n"
