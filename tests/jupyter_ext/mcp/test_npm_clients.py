"""MCP programs from npm: the TypeScript client, the conformance suite and the inspector."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support import mcp_calls
from tests.support.server_processes import LiveServer, start_server
from wap_kernel.dialects.coding_environment.tools import TOOLS

MODULES = Path(__file__).parents[2] / "node_modules"
PACKAGES = MODULES / "@modelcontextprotocol"
SECONDS = 120

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


def _node(oldest: int) -> str:
    """A Node.js that is new enough: npm's own package of it, or the system's."""
    for candidate in (*MODULES.glob("node-*/bin/node"), shutil.which("node")):
        if candidate is None:
            continue
        version = subprocess.run([candidate, "--version"], capture_output=True, text=True, check=True, timeout=SECONDS)
        if int(version.stdout.removeprefix("v").split(".")[0]) >= oldest:
            return str(candidate)
    pytest.skip(f"needs Node.js {oldest}")


def _package(name: str) -> Path:
    if not (PACKAGES / name / "package.json").exists():
        pytest.skip(f"@modelcontextprotocol/{name} is not installed: scripts/setup.sh test")
    return PACKAGES / name


def _run(*command: str | Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "NO_COLOR": "1"}
    return subprocess.run(
        [str(word) for word in command], capture_output=True, text=True, timeout=SECONDS, env=environment
    )


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    with start_server(tmp_path_factory.mktemp("server")) as started:
        yield started


def test_the_typescript_client_does_everything(server: LiveServer, tmp_path: Path) -> None:
    _package("sdk")
    script, calls = Path(__file__).parents[2] / "support" / "mcp_client.mjs", tmp_path / "calls.json"
    calls.write_text(json.dumps(mcp_calls.CALLS))
    mcp_calls.prepare(server.root)
    ended = _run(_node(18), script, MODULES, f"{server.url}wap/mcp", server.token, calls)
    (server.root / ".cws-policy.json").unlink(missing_ok=True)
    assert ended.returncode == 0, ended.stderr
    output: dict[str, Any] = json.loads(ended.stdout)
    assert (output["server"], output["tools"], output["info"]) == ("wap", list(TOOLS), str(server.root))
    mcp_calls.compare(output["calls"])
    assert (output["updated"], output["resource"], output["prompts"]) == (True, "seen\n", 2)
    assert (output["progress"], output["cancelled"], output["both"], output["resumed"]) == (
        True,
        True,
        [0, 0],
        "resumed\n",
    )
    assert output["agreed"] == ["hi\n", True]
    assert output["declined"] == [[-32005, "APPROVAL_REQUIRED"], True]


def _conformance(*arguments: str) -> subprocess.CompletedProcess[str]:
    return _run(_node(22), _package("conformance") / "dist" / "index.js", *arguments)


def test_every_conformance_scenario_is_known() -> None:
    listed = _conformance("list").stdout.partition("Client scenarios")[0]
    found = set(re.findall(r"^\s+- ([\w-]+)", listed, re.MULTILINE))
    assert found == {*APPLY, *DO_NOT_APPLY}


@pytest.mark.parametrize("scenario", APPLY)
def test_conformance(server: LiveServer, scenario: str) -> None:
    """The suite sends no header of ours, so the token goes in the address, as Jupyter has it."""
    (server.root / "a.txt").write_text("a\n")
    url = f"{server.url}wap/mcp?token={server.token}"
    ended = _conformance("server", "--url", url, "--scenario", scenario)
    passed = re.search(r"Passed: (\d+)/(\d+), 0 failed, 0 warnings", ended.stdout)
    assert ended.returncode == 0 and passed and int(passed[1]) >= 1, ended.stdout + ended.stderr


def test_the_inspector_lists_and_calls_the_tools(server: LiveServer) -> None:
    launcher = _package("inspector") / "clients" / "launcher" / "build" / "index.js"
    (server.root / "a.txt").write_text("inspected\n")

    def inspect(*arguments: str) -> Any:
        where = ("--cli", f"{server.url}wap/mcp", "--transport", "http")
        header = ("--header", f"Authorization: Bearer {server.token}")
        ended = _run(_node(22), launcher, *where, *header, *arguments)
        assert ended.returncode == 0, ended.stdout + ended.stderr
        return json.loads(ended.stdout)

    assert "readFile" in [tool["name"] for tool in inspect("--method", "tools/list")["tools"]]
    called = inspect("--method", "tools/call", "--tool-name", "readFile", "--tool-arg", "path=a.txt")
    assert called["structuredContent"]["content"] == "inspected\n"
