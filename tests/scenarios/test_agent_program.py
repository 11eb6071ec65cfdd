"""A real agent finds a bug, corrects it, runs the tests in the sandbox, and commits once a person has approved it."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support import peers
from tests.support.provider_workspace import skip_unless_works
from tests.support.server_processes import LiveServer, start_server
from wap_kernel.dialects.coding_environment.tools import TOOLS

SECONDS = 120
PROGRAM = Path(__file__).parents[1] / "support" / "agent_program.py"
CONFIGURATION = """c.WapExtension.provider = 'bubblewrap'
c.WapExtension.policy = {"shell": {"rules": [{"command": "git commit", "verdict": "ask"}]}}
"""
SUMS = '''def total(n):
    """The sum of 1 to n."""
    return sum(range(n))
'''
TEST = """import unittest

from sums import total


class Total(unittest.TestCase):
    def test_total(self):
        self.assertEqual(total(4), 10)
"""


@pytest.fixture
def python() -> str:
    return peers.python()


@pytest.fixture
def server(python: str, tmp_path: Path) -> Iterator[LiveServer]:
    skip_unless_works("bubblewrap")
    with start_server(tmp_path, configuration=CONFIGURATION) as started:
        (started.root / "sums.py").write_text(SUMS)
        (started.root / "test_sums.py").write_text(TEST)
        (started.root / ".gitignore").write_text("__pycache__/\n")
        _git(started.root, "init", "--quiet", "--initial-branch=main")
        _git(started.root, "config", "user.name", "A Person")
        _git(started.root, "config", "user.email", "person@example.org")
        _git(started.root, "add", ".")
        _git(started.root, "commit", "--quiet", "-m", "begin")
        yield started


def test_an_agent_corrects_a_bug_and_commits(server: LiveServer, python: str) -> None:
    status, minted = server.request("POST", "wap/tokens", json.dumps({"name": "fixer"}))
    assert status == 201, minted
    command = [python, str(PROGRAM), f"{server.url}wap/mcp", minted["token"]]
    agent = subprocess.Popen(
        command, env=peers.environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        _approve(server, agent)
        said, complaints = agent.communicate(timeout=SECONDS)
    finally:
        agent.kill()
        agent.wait()
    assert agent.returncode == 0, complaints
    told = json.loads(said)
    assert told["tools"] == sorted(TOOLS)
    assert (told["before"], told["after"], told["commit"]["exitCode"]) == (1, 0, 0)

    assert "range(n + 1)" in _git(server.root, "show", "HEAD:sums.py")
    assert _git(server.root, "log", "--format=%s") == "total counts to n\nbegin\n"
    assert _git(server.root, "status", "--short") == ""
    _, audit = server.request("GET", "wap/audit?limit=100")
    done = [record for record in audit["records"] if record.get("agent") == "fixer"]
    assert {record["tool"] for record in done} >= {"runCommand", "searchFiles", "readFile", "editFile", "git"}
    assert {record["token"] for record in done} == {minted["id"]}


def _approve(server: LiveServer, agent: subprocess.Popen[str]) -> None:
    """As the person does: look at what is asked, and say yes to this."""
    asking = _question(server, agent)
    assert "git commit" in json.dumps(asking)
    decision = {"approvalId": asking["pendingApproval"]["approvalId"], "decision": "approved"}
    status, answer = server.request("POST", f"wap/runs/{asking['runId']}/decision", json.dumps(decision))
    assert status == 200, answer


def _question(server: LiveServer, agent: subprocess.Popen[str]) -> dict[str, Any]:
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline and agent.poll() is None:
        _, listed = server.request("GET", "wap/runs?status=awaiting_approval")
        if listed["runs"]:
            found: dict[str, Any] = listed["runs"][0]
            return found
        time.sleep(0.05)
    agent.kill()
    raise AssertionError(agent.communicate(timeout=SECONDS))


def _git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=folder, capture_output=True, text=True, timeout=SECONDS)
    assert done.returncode == 0, done.stderr
    return done.stdout
