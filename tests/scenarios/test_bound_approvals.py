"""Commands that ask before they run: what an agent changes between the question and the yes does not run."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.agent_server import USERS, Agent, AgentServer, SharedAgentServer, share_place
from tests.support.script_lines import lay_out

NETWORK_LINES = {
    "pip install --no-index ./pkg": "pkg/setup.py",
    "pip install --no-index /workspace/pkg": "pkg/src/part.py",
    "pip install --no-index ROOT/pkg": "pkg/pyproject.toml",
    "pip install --no-index ~/ws/pkg": "pkg/setup.py",
    'pip install --no-index "$PWD/pkg"': "pkg/setup.py",
    "cd pkg && pip install --no-index .": "pkg/src/part.py",
    "pip install --no-index -r requirements.txt": "pkg/setup.py",
    "pip install --no-index wheels/*.whl": "wheels/pkg-1.whl",
    "npm ci --offline": "package.json",
    "npm install --offline": "scripts/setup.js",
}
"""Lines that need the network in `standard`, and a file that each of them uses."""
SHARED_LINES = {
    "sh /workspace/build.sh": "build.sh",
    "sh ROOT/build.sh": "build.sh",
    "bash < build.sh": "build.sh",
    "sh -c 'sh build.sh'": "build.sh",
    "sh ~/ws/build.sh": "build.sh",
    "sh $PWD/build.sh": "build.sh",
    "sh buil?.sh": "build.sh",
    "bash build.{sh,nothing}": "build.sh",
    "f=build.sh; sh $f": "build.sh",
    "sh $(cat list)": "build.sh",
    f"echo {' '.join(map(str, range(60)))}; sh build.sh": "build.sh",
    "make -C pkg": "pkg/Makefile",
}
"""Lines that write into the workspace directly, and the script that each of them runs."""


@pytest.fixture(scope="module", params=USERS)
def shared_place(request: pytest.FixtureRequest) -> Iterator[SharedAgentServer]:
    with share_place(request.param) as place:
        yield place


@pytest.fixture
def place(shared_place: SharedAgentServer) -> AgentServer:
    shared_place.clear()
    lay_out(shared_place.root)
    return shared_place


def ask(agent: Agent, place: AgentServer, line: str, **more: Any) -> dict[str, Any]:
    command = {"type": "shell", "id": "it", "command": line.replace("ROOT", str(place.root)), **more}
    message = agent.start(command)
    assert message["status"] == "awaiting_approval", message
    assert "effect" not in message["pendingApproval"], "it has not run"
    assert message["pendingApproval"]["boundTo"]
    return message


def approve(agent: Agent, message: dict[str, Any]) -> tuple[int, Any]:
    """Approve as the person, and return the answer whatever it is."""
    body = {"approvalId": message["pendingApproval"]["approvalId"], "decision": "approved"}
    answer: tuple[int, Any] = agent.server.request(
        "POST", f"wap/runs/{message['runId']}/decision?wait=60", json.dumps(body)
    )
    return answer


def swap(agent: Agent, path: str) -> None:
    content = agent.call("readFile", path=path).body["content"]
    answer = agent.call("writeFile", path=path, content=f"{content}\n", mode="overwrite")
    assert answer.status == 200, answer


def test_what_an_agent_changed_meanwhile_does_not_run(place: AgentServer) -> None:
    with place.start() as agent:
        for line, path in NETWORK_LINES.items():
            expect_conflict(agent, ask(agent, place, line), path)
        for line, path in SHARED_LINES.items():
            expect_conflict(agent, ask(agent, place, line, isolation="shared"), path)
    assert not [*place.root.rglob("ran")]


def expect_conflict(agent: Agent, message: dict[str, Any], path: str) -> None:
    swap(agent, path)
    status, body = approve(agent, message)
    assert (status, body.get("code")) == (409, "CONFLICT"), (message["pendingApproval"]["command"], body)
    details = body["details"]
    assert details["approvalId"] != message["pendingApproval"]["approvalId"]
    _, run = agent.server.request("GET", f"wap/runs/{message['runId']}")
    assert run["pendingApproval"]["approvalId"] == details["approvalId"]
    agent.decide(run, "denied")


def test_what_nobody_changed_runs(place: AgentServer) -> None:
    with place.start() as agent:
        for line in SHARED_LINES:
            status, body = approve(agent, ask(agent, place, line, isolation="shared"))
            assert (status, body["status"], body["events"][-1]["exitCode"]) == (200, "completed", 0), (line, body)
            (ran,) = place.root.rglob("ran")
            assert ran.read_text() == "first\n"
            ran.unlink()
        for line in ("pip install --no-index --dry-run ./pkg", "npm ci --offline --ignore-scripts"):
            status, body = approve(agent, ask(agent, place, line))
            assert (status, body["status"], body["events"][-1]["type"]) == (200, "completed", "shell"), (line, body)
