"""docs/policy.md: its policies can be read, and its recipes do what it says."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.provider_workspace import skip_unless_works
from wap_kernel.dialects.agent_spaces.operations import parse_message
from wap_kernel.engine import jupyter_config
from wap_kernel.engine.workspace import Workspace
from wap_kernel.model.errors import ApprovalRequired, PermissionDenied, TooLarge
from wap_kernel.model.operations import DeleteFile, ListFiles, Operation, ReadFile, RunCommand, WriteFile
from wap_kernel.model.policy import Policy
from wap_kernel.policy import presets
from wap_kernel.policy.decide import Facts, Verdict, decide
from wap_kernel.policy.effective import EffectivePolicy
from wap_kernel.policy.layers import POLICY_VARIABLE
from wap_kernel.policy.parse import merge_policy, parse_policy

TEXT = (Path(__file__).parents[3] / "docs" / "policy.md").read_text()
BLOCKS = re.findall(r"```json\n(.*?)```", TEXT, re.DOTALL)
CONSOLES = re.findall(r"```console\n(.*?)```", TEXT, re.DOTALL)
MESSAGES = [message for console in CONSOLES for message in re.findall(r"--data '(.*?)'\n", console, re.DOTALL)]
RECIPES = {
    name: (form, text)
    for name, form, text in re.findall(r"### (A .*?)\n.*?```(json|python)\n(.*?)```", TEXT, re.DOTALL)
}
"""Files, beside the preset that a server has by itself, and configurations, which make the preset's own layer."""


@pytest.mark.parametrize("block", BLOCKS)
def test_every_policy_of_the_document_can_be_read(block: str) -> None:
    assert parse_policy(block.encode(), "document").broken is None


def test_what_the_document_posts_is_accepted_and_answered_so() -> None:
    documented = re.findall(r'"operationId": "(\d)", "verdict": "(\w+)", "rule": "(.*?)"', TEXT)
    (message,) = map(parse_message, map(str.encode, MESSAGES))
    operations = {step.id: step.operation for step in message.steps()}
    push = RunCommand(command="git push", timeout_ms=30_000, is_timeout_default=True)
    assert operations == {"1": ReadFile(path=".env"), "2": push}
    layers = (presets.load_preset("standard"),)
    verdicts = {name: verdict(layers, operation) for name, operation in operations.items()}
    assert [(name, said.kind.value, said.rule) for name, said in verdicts.items()] == documented
    closed = verdicts["1"]
    assert json.dumps(closed.reason) in TEXT and json.dumps(closed.suggestion) in TEXT
    assert f"| `{closed.reason}` | `{closed.rule}` (layer and pattern) | `{closed.suggestion}` |" in TEXT


def verdict(layers: tuple[Policy, ...], operation: Operation) -> Verdict:
    facts = Facts(
        accesses=operation.path_accesses(),
        confined=True,
        resolve=lambda name: name if name.startswith("/") else f"/usr/bin/{name}",
        home="/home/u",
        root="/home/u/ws",
        size=len(LARGE) if isinstance(operation, ReadFile) and operation.path.endswith("large.csv") else None,
    )
    return decide(operation, EffectivePolicy(layers), facts)


@pytest.fixture
def configure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Policy]:
    """Puts a recipe where it says that it belongs; gives the layer of the server's configuration."""

    def put(recipe: str) -> Policy:
        form, text = RECIPES[recipe]
        (tmp_path / "config").mkdir()
        monkeypatch.setenv("JUPYTER_CONFIG_DIR", str(tmp_path / "config"))
        if form == "python":
            (tmp_path / "config/jupyter_server_config.py").write_text(text)
        else:
            (tmp_path / "policy.json").write_text(text)
            monkeypatch.setenv(POLICY_VARIABLE, str(tmp_path / "policy.json"))
        configured = jupyter_config.read_settings()
        return merge_policy(
            presets.load_preset(configured.get("preset", presets.DEFAULT)), configured.get("policy", {})
        )

    return put


@pytest.fixture
def layers(configure: Callable[[str], Policy]) -> Callable[[str], tuple[Policy, ...]]:
    def of(recipe: str) -> tuple[Policy, ...]:
        form, text = RECIPES[recipe]
        own = configure(recipe)
        return (own,) if form == "python" else (own, parse_policy(text.encode(), recipe))

    return of


LARGE = b"a,b,c\n" * (2 << 20)
"""More than `standard` lets be read by itself."""


def run(command: str) -> RunCommand:
    return RunCommand(command=command)


def write(path: str, size: int = 1) -> WriteFile:
    return WriteFile(path=path, content=bytes(size))


PROMISED = [
    ("A read-only class", ReadFile(path="lesson.ipynb"), "allow"),
    ("A read-only class", ReadFile(path="solutions/1.ipynb"), "deny"),
    ("A read-only class", ReadFile(path="week1/a_solution.ipynb"), "deny"),
    ("A read-only class", ReadFile(path=".env"), "deny"),
    ("A read-only class", write("lesson.ipynb"), "deny"),
    ("A read-only class", run("ls"), "deny"),
    ("A data-science default", write("report.md"), "allow"),
    ("A data-science default", ReadFile(path="data/raw/a.csv"), "allow"),
    ("A data-science default", write("data/raw/a.csv"), "deny"),
    ("A data-science default", ReadFile(path="credentials/db.json"), "deny"),
    ("A data-science default", ReadFile(path=".env"), "deny"),
    ("A data-science default", DeleteFile(path="report.md"), "ask"),
    ("A data-science default", run("python3 train.py"), "allow"),
    ("A data-science default", run("dvc status"), "allow"),
    ("A data-science default", run("dvc pull"), "ask"),
    ("A data-science default", run("git push"), "deny"),
    ("A data-science default", run("sudo id"), "deny"),
    ("A data-science default", ReadFile(path="large.csv", start_line=1, end_line=1), "allow"),
    ("A locked-down exam", ReadFile(path="exam/large.csv", start_line=1, end_line=1), "deny"),
    ("A locked-down exam", ReadFile(path="exam/questions/1.md"), "allow"),
    ("A locked-down exam", ListFiles(path="."), "allow"),
    ("A locked-down exam", ListFiles(path="notes"), "deny"),
    ("A locked-down exam", ReadFile(path="notes/cheat.md"), "deny"),
    ("A locked-down exam", ReadFile(path="exam/grading/key.json"), "deny"),
    ("A locked-down exam", write("exam/questions/1.md"), "deny"),
    ("A locked-down exam", write("exam/answer.py"), "allow"),
    ("A locked-down exam", write("exam/answer.py", 200_000), "deny"),
    ("A locked-down exam", run("python3 exam/answer.py"), "allow"),
    ("A locked-down exam", run("git log"), "deny"),
    ("A locked-down exam", run("python3 $(ls)"), "deny"),
]


@pytest.mark.parametrize(("recipe", "operation", "answer"), PROMISED)
def test_a_recipe_does_what_it_says(layers: Any, recipe: str, operation: Operation, answer: str) -> None:
    assert verdict(layers(recipe), operation).kind.value == answer


FILES = """
lesson.ipynb solutions/1.ipynb week1/a_solution.ipynb .env report.md data/raw/a.csv credentials/db.json notes/cheat.md
exam/questions/1.md exam/grading/key.json exam/answer.py train.py
""".split()


@pytest.mark.parametrize("recipe", RECIPES)
def test_a_recipe_at_work(recipe: str, tmp_path: Path, configure: Callable[[str], Policy]) -> None:
    """The same promises, kept by a workspace with that file or that configuration."""
    skip_unless_works("bubblewrap")
    for name in FILES:
        (tmp_path / "ws" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "ws" / name).write_text("{}" if name.endswith(".ipynb") else "")
    for name in ("large.csv", "exam/large.csv"):
        (tmp_path / "ws" / name).write_bytes(LARGE)
    workspace = Workspace(
        str(tmp_path / "ws"),
        policy=configure(recipe),
        provider="bubblewrap",
        state_dir=str(tmp_path / "state"),
        undo=False,
    )
    # `dvc` is not installed here, so nobody vouches for it.
    promised = [
        (operation, answer) for name, operation, answer in PROMISED if name == recipe and not _is_dvc(operation)
    ]
    try:
        found = [asyncio.run(_performed(workspace, operation)) for operation, _ in promised]
    finally:
        asyncio.run(workspace.close())
    assert list(zip([operation for operation, _ in promised], found, strict=True)) == promised


def _is_dvc(operation: Operation) -> bool:
    return isinstance(operation, RunCommand) and operation.command.startswith("dvc")


async def _performed(workspace: Workspace, operation: Operation) -> str:
    try:
        await workspace.perform(operation)
    except ApprovalRequired:
        return "ask"
    except (PermissionDenied, TooLarge):
        return "deny"
    return "allow"


def test_the_network_and_the_timeouts_of_data_science(layers: Any) -> None:
    data = layers("A data-science default")
    assert verdict(data, run("dvc pull")).network
    assert not verdict(data, run("python3 train.py")).network
    assert EffectivePolicy(data).max_timeout_ms == 1_800_000


def test_the_network_and_the_timeouts_of_an_exam(layers: Any) -> None:
    exam = layers("A locked-down exam")
    assert not verdict(exam, run("python3 exam/answer.py")).network
    assert EffectivePolicy(exam).max_timeout_ms == 60_000


def test_every_field_is_documented() -> None:
    schema = Policy.model_json_schema(by_alias=True)
    sections = {"FilesystemPolicy", "ShellPolicy", "CommandRule", "EffectsPolicy"}
    fields = {field for name in sections for field in schema["$defs"][name]["properties"]}
    assert {field for field in fields if f"{field}`" not in TEXT} == set()


@pytest.mark.parametrize(
    ("name", "access", "largest", "network", "timeout"),
    [
        ("restrictive", "read", 1 << 20, "none", 60),
        ("standard", "read-write", 10 << 20, "none", 600),
        ("permissive", "read-write", 100 << 20, "full", 3600),
    ],
)
def test_the_table_of_presets(name: str, access: str, largest: int, network: str, timeout: int) -> None:
    shown = json.loads(json.dumps(EffectivePolicy((presets.load_preset(name),)).to_dict()))["effective"]
    assert (shown["access"], shown["maxFileSize"], shown["network"]) == (access, largest, network)
    assert shown["maxTimeoutMs"] == timeout * 1000
    assert f"`{name}`" in TEXT and f"{largest >> 20} MiB" in TEXT
