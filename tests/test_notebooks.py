"""The notebooks do what they say, on a real server, and what they say stands in the repository."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import nbformat
import pytest

from scripts.notebooks import NAMES, PERSON, answers, executed, path_of
from tests.support.python_kernels import ask
from tests.support.server_processes import start_demo
from tests.support.wap_kernels import running_kernel


@pytest.mark.parametrize("name", NAMES)
def test_outputs_are_those_in_the_repository(name: str) -> None:
    stored = nbformat.read(path_of(name), as_version=4)
    with start_demo(PERSON) as server:
        done = executed(path_of(name), server)
        left = list(server.workspace.iterdir())
        open_ = [ask(server, f"wap/runs?status={status}")["runs"] for status in ("running", "awaiting_approval")]
    assert answers(done) == answers(stored), f"run scripts/notebooks.py {name}"
    assert left == []
    assert open_ == [[], []], "nobody is left waiting"


def test_the_agents_run_is_approved_and_undone() -> None:
    """As the notebook says of it; that this is what happens is shown above."""
    said = {cell.id: cell.outputs for cell in nbformat.read(path_of("agent"), as_version=4).cells if "outputs" in cell}
    assert "completed, editFile, shell, approvalRequired, shell" in said["go-on"][0].text
    assert "restored" in said["revert"][0].data["text/plain"]
    assert "+ 32" not in said["read"][0].data["text/plain"]
    assert not any("not done" in str(outputs) for outputs in said.values())


def test_the_demo_is_a_transcript_that_reads_well() -> None:
    """`make demo`, as whoever calls it sees it; what the cells answer is compared above."""
    done = subprocess.run([sys.executable, "scripts/demo.py"], capture_output=True, check=False, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "| %wap search TODO wap-quickstart\nTODO · 1 match" in done.stdout
    assert "denied  create wap-quickstart/.env" in done.stdout
    assert "<div" not in done.stdout
    for source in _sources("quickstart").values():
        assert source.splitlines()[-1] in done.stdout, "every cell is there"


@pytest.mark.parametrize("name", NAMES)
def test_a_stored_notebook_is_small_and_tells_nothing_of_the_machine(name: str) -> None:
    text = path_of(name).read_text()
    assert len(text) < 100_000
    assert not re.search(r"/tmp/|/root/|127\.0\.0\.1|wap-demo-", text)
    nbformat.validate(nbformat.read(path_of(name), as_version=4))


def _sources(name: str) -> dict[str, str]:
    return {cell["id"]: cell["source"] for cell in nbformat.read(path_of(name), as_version=4).cells}


CONVERSATION: list[dict[str, Any]] = [
    {"role": "user", "text": "Look."},
    {"role": "assistant", "text": "I look.", "calls": [("1", "readFile", {"path": "a"}), ("2", "seeRun", {})]},
    {"role": "tool", "call": "1", "answer": {"content": "x"}},
    {"role": "tool", "call": "2", "answer": {"status": "completed"}},
]


def _model(name: str) -> Any:
    """The function that a cell of the agent's notebook defines."""
    names: dict[str, Any] = {"json": json, "openai_tools": ["tool"], "anthropic_tools": ["tool"]}
    exec(_sources("agent")[name], names)  # noqa: S102 - our own notebook
    return names[f"{name}_model"]


def test_the_loop_fits_openai() -> None:
    """Their service is not asked; what would be sent has the shape that it documents."""
    sent: dict[str, Any] = {}

    def create(**asked: Any) -> Any:
        sent.update(asked)
        call = SimpleNamespace(id="3", function=SimpleNamespace(name="readFile", arguments='{"path": "b"}'))
        return SimpleNamespace(choices=[SimpleNamespace(message=SimpleNamespace(content=None, tool_calls=[call]))])

    client = SimpleNamespace(chat=SimpleNamespace(completions=SimpleNamespace(create=create)))
    assert _model("openai")(CONVERSATION, client) == ("", [("3", "readFile", {"path": "b"})])
    roles = [message["role"] for message in sent["messages"]]
    assert roles == ["user", "assistant", "tool", "tool"]
    calls = sent["messages"][1]["tool_calls"]
    assert [call["id"] for call in calls] == [message["tool_call_id"] for message in sent["messages"][2:]]
    assert json.loads(calls[0]["function"]["arguments"]) == {"path": "a"}


def test_the_loop_fits_anthropic() -> None:
    sent: dict[str, Any] = {}

    def create(**asked: Any) -> Any:
        sent.update(asked)
        said = SimpleNamespace(type="text", text="I read.")
        return SimpleNamespace(
            content=[said, SimpleNamespace(type="tool_use", id="3", name="readFile", input={"path": "b"})]
        )

    client = SimpleNamespace(messages=SimpleNamespace(create=create))
    assert _model("anthropic")(CONVERSATION, client) == ("I read.", [("3", "readFile", {"path": "b"})])
    roles = [message["role"] for message in sent["messages"]]
    assert roles == ["user", "assistant", "user"], "they have to take turns"
    used = [block["id"] for block in sent["messages"][1]["content"] if block["type"] == "tool_use"]
    assert used == [block["tool_use_id"] for block in sent["messages"][2]["content"]]


def test_the_policy_for_a_teacher_does_what_is_said_of_it(tmp_path: Path) -> None:
    """Closes the solutions, keeps the data, and lets nobody delete by command; not even who approves everything."""
    found = re.search(r"```json\n(.*?)```", _sources("classroom")["teacher"], re.DOTALL)
    assert found is not None
    (tmp_path / "policy.json").write_text(found[1])
    workspace = tmp_path / "workspace"
    for name in ("solutions/one.py", "data/table.csv", "mine.txt"):
        (workspace / name).parent.mkdir(parents=True, exist_ok=True)
        (workspace / name).write_text("1\n")
    with running_kernel(workspace, tmp_path / "jupyter", {"WAP_POLICY": str(tmp_path / "policy.json")}) as (talk, _):
        assert talk.run("read solutions/one.py").reply["ename"] == "PERMISSION_DENIED"
        assert talk.run("read data/table.csv").reply["status"] == "ok"
        assert "denied" in talk.run("write --yes data/table.csv 2").text
        assert "Ask your teacher." in talk.run("sh --yes rm mine.txt").text
        assert talk.run("write mine.txt 2").reply["status"] == "ok"
    assert (workspace / "data/table.csv").read_text() == "1\n"
    assert (workspace / "mine.txt").read_text() == "2"
