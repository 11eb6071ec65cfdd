"""An operation is parsed and evaluated once, whichever way it takes to its verdict."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.run_workspace import ASKING, PERSON, Scene, play
from wap_kernel.engine.workspace import Workspace
from wap_kernel.model.errors import ApprovalRequired
from wap_kernel.model.git.operations import GitRead
from wap_kernel.model.operations import DeleteFile, RunCommand
from wap_kernel.model.policy import NetworkPolicy, Policy
from wap_kernel.model.run import Step
from wap_kernel.policy import decide
from wap_kernel.policy.commands import git_actions
from wap_kernel.policy.presets import load_preset
from wap_kernel.policy.shell import parser

NO_NETWORK = Policy(name="administrator", network=NetworkPolicy(access="none"))


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Iterator[Counter[str]]:
    """How often a text was parsed, and a line evaluated by a layer. A layer is one evaluation."""
    counts: Counter[str] = Counter()
    parse, evaluate = parser._parse, decide.evaluate_commands

    def count_parse(command: str) -> parser.Script:
        counts[f"parse {command}"] += 1
        return parse(command)

    def count_evaluation(script: parser.Script, *more: object) -> object:
        counts[f"evaluate {script.text}"] += 1
        return evaluate(script, *more)  # type: ignore[arg-type]

    monkeypatch.setattr(parser, "_parse", count_parse)
    monkeypatch.setattr(decide, "evaluate_commands", count_evaluation)
    monkeypatch.setattr(git_actions, "evaluate_commands", count_evaluation)
    parser._parse_cached.cache_clear()
    yield counts
    parser._parse_cached.cache_clear()


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    (tmp_path / "ws" / "data").mkdir(parents=True)
    return Scene(tmp_path / "ws", tmp_path / "state", policy=ASKING)


def _once(line: str) -> dict[str, int]:
    return {f"parse {line}": 1, f"evaluate {line}": 1}


def test_a_command_of_a_batch_is_judged_once(scene: Scene, calls: Counter[str]) -> None:
    async def scenario(scene: Scene) -> None:
        message = await scene.run({"type": "shell", "command": "echo one"}, {"type": "shell", "command": "echo two"})
        assert message["status"] == "completed"

    play(scene, scenario)
    assert calls == _once("echo one") | _once("echo two")


@pytest.mark.parametrize("layers", [1, 2])
def test_a_single_command_is_judged_once_by_every_layer(
    tmp_path: Path, calls: Counter[str], layers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    if layers == 2:
        (tmp_path / ".cws-policy.json").write_text("{}")

    async def scenario() -> None:
        workspace = Workspace(str(tmp_path), policy=ASKING, provider="local", state_dir=str(tmp_path / "state"))
        try:
            await workspace.perform(RunCommand(command="echo one"))
        finally:
            await workspace.close()

    asyncio.run(scenario())
    assert calls == {"parse echo one": 1, "evaluate echo one": layers}


def test_a_wrapped_line_is_parsed_once_for_all_layers(calls: Counter[str]) -> None:
    from tests.wap_kernel.policy.test_decide import facts
    from wap_kernel.policy.effective import EffectivePolicy

    operation = RunCommand(command="sh -c 'echo one'")
    decide.judge(operation, EffectivePolicy((ASKING, ASKING, ASKING)), facts(operation))
    assert calls["parse echo one"] == 1


def test_a_command_that_asks_is_judged_once_and_again_after_the_decision(scene: Scene, calls: Counter[str]) -> None:
    line = "rm -rf data/"

    async def scenario(scene: Scene) -> None:
        message = await scene.run({"type": "shell", "id": "delete", "command": line})
        assert message["status"] == "awaiting_approval"
        assert calls == _once(line), "the approval, its grant and its evidence use the judgement of the refusal"
        ended = await scene.decide(message["runId"], True)
        assert ended["status"] == "completed"
        assert calls[f"evaluate {line}"] == 2, "the policy may have changed while the person decided"

    play(scene, scenario)


def test_a_single_command_that_asks_is_judged_once(scene: Scene, calls: Counter[str]) -> None:
    line = "rm -rf data/"

    async def scenario(scene: Scene) -> None:
        step = Step("delete", "executeCommand", RunCommand(command=line))
        with pytest.raises(ApprovalRequired):
            await scene.runner.answer_call(step, PERSON, dialect="wap", encode=lambda result: result)
        assert calls == _once(line)

    play(scene, scenario)


def test_network_by_a_rule_needs_no_second_evaluation(calls: Counter[str]) -> None:
    from tests.wap_kernel.policy.test_decide import facts, rule, shell
    from wap_kernel.policy.effective import EffectivePolicy

    operation = RunCommand(command="pip install x | sort")
    granting = shell(rules=(rule("pip install", "allow", network=True), rule("sort", "allow")))
    closed = granting.model_copy(update={"network": NetworkPolicy(access="none")})
    assert decide.judge(operation, EffectivePolicy((closed,)), facts(operation)).verdict.network
    assert calls[f"evaluate {operation.command}"] == 1
    assert not decide.judge(operation, EffectivePolicy((closed, NO_NETWORK)), facts(operation)).verdict.network


def test_a_git_action_is_judged_once(tmp_path: Path, calls: Counter[str]) -> None:
    from tests.wap_kernel.policy.test_decide import facts
    from wap_kernel.policy.effective import EffectivePolicy

    operation = GitRead(action="status")
    decide.judge(operation, EffectivePolicy((ASKING,)), facts(operation))
    assert calls == _once(operation.line)


def test_a_recursive_delete_of_many_files_asks_as_a_command_would(tmp_path: Path) -> None:
    few, many = tmp_path / "ws/few", tmp_path / "ws/many"
    for folder, number in ((few, 100), (many / "deep", 101)):
        folder.mkdir(parents=True)
        for name in range(number):
            (folder / str(name)).touch()

    async def delete(scene: Scene, path: str) -> None:
        step = Step(path, "deleteFile", DeleteFile(path=path, recursive=True))
        await scene.runner.answer_call(step, PERSON, dialect="wap", encode=lambda result: result)

    async def scenario(scene: Scene) -> None:
        await delete(scene, "few")
        with pytest.raises(ApprovalRequired, match='deletes more than 100 files: those in "many"'):
            await delete(scene, "many")

    play(Scene(tmp_path / "ws", tmp_path / "state", policy=load_preset("standard")), scenario)
    assert not few.exists() and len(list((many / "deep").iterdir())) == 101
