"""Agents of others go on after a failed call: the model sees what was wrong, and which run waits for a person.

Each framework runs in an environment of its own with a scripted model, by the block of docs/clients.md.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.support import peers
from tests.support.client_configurations import DOCUMENT, find_block
from tests.support.program_cache import install_python
from tests.support.server_processes import LiveServer, start_server

pytestmark = pytest.mark.download

SECONDS = 180
PROGRAM = Path(__file__).parents[1] / "support" / "agent_frameworks" / "snippet.py"
REASON = "Files are not truncated here."
POLICY = {
    "shell": {
        "unconfined": "allow",
        "rules": [
            {"command": "truncate", "verdict": "deny", "reason": REASON},
            {"command": "touch", "verdict": "ask"},
        ],
    }
}
CONFIGURATION = f"""c.WapExtension.provider = 'local'
c.WapExtension.preset = 'permissive'
c.WapExtension.allow_unconfined = True
c.WapExtension.policy = {POLICY!r}
"""
CALLS = [
    ("readFile", {"path": "missing.txt"}),
    ("runCommand", {"command": "truncate", "args": ["-s", "0", "todo.txt"]}),
    ("runCommand", {"command": "touch", "args": ["new.txt"]}),
    ("readFile", {"path": "todo.txt"}),
]
FASTMCP = """from fastmcp import Client

async with Client("http://localhost:8888/wap/mcp", auth=token, timeout=600) as client:
    answer = await model.run(lambda tool, values: client.call_tool(tool, values, raise_on_error=False))
"""


class Framework(NamedTuple):
    client: str
    """Name in docs/clients.md."""
    module: str
    requirements: tuple[str, ...]

    @property
    def block(self) -> str:
        return FASTMCP if self.client == "fastmcp" else find_block(DOCUMENT.read_text(), self.client, "python")


FRAMEWORKS = (
    Framework("LangChain", "langchain", ("langchain==1.4.0", "langchain-mcp-adapters==0.3.1", "mcp==1.30.0")),
    Framework("openai-agents", "openai_agents", ("openai-agents==0.24.0",)),
    Framework("pydantic-ai", "pydantic_ai", ("pydantic-ai-slim[mcp]==2.66.0",)),
    Framework("fastmcp", "fastmcp", ("fastmcp==4.1.0",)),
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    with start_server(tmp_path_factory.mktemp("server"), configuration=CONFIGURATION) as started:
        (started.root / "todo.txt").write_text("TODO: this\n")
        yield started


@pytest.mark.parametrize("framework", FRAMEWORKS, ids=lambda framework: framework.client)
def test_an_agent_goes_on(server: LiveServer, framework: Framework) -> None:
    python = install_python(framework.client.lower(), *framework.requirements)
    status, minted = server.request("POST", "wap/tokens", json.dumps({"name": framework.client}))
    assert status == 201, minted
    block = framework.block.replace("http://localhost:8888/", server.url)
    told = _run(python, framework, {"block": block, "token": minted["token"], "calls": CALLS})

    missing, denied, asked, found = told["results"]
    assert "FILE_NOT_FOUND" in missing and "missing.txt" in missing
    assert "PERMISSION_DENIED" in denied and REASON in denied
    assert "APPROVAL_REQUIRED" in asked
    assert [run for run in _list_waiting(server, framework.client) if run in asked]
    assert "TODO: this" in found
    assert told["answer"] == "Done."
    assert (server.root / "todo.txt").read_text() == "TODO: this\n" and not (server.root / "new.txt").exists()


def _run(python: Path, framework: Framework, given: dict[str, Any]) -> Any:
    environment = {**peers.environment(), "OPENAI_AGENTS_DISABLE_TRACING": "1", "LANGSMITH_TRACING": "false"}
    done = subprocess.run(
        [str(python), str(PROGRAM), framework.module],
        input=json.dumps(given),
        env=environment,
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def _list_waiting(server: LiveServer, agent: str) -> list[str]:
    status, listed = server.request("GET", "wap/runs?status=awaiting_approval")
    assert status == 200, listed
    return [run["runId"] for run in listed["runs"] if run["agent"] == agent]
