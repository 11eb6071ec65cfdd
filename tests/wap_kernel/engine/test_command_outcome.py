"""The result of a command: notes on what was not applied, and the errors of commands that did not end by themselves."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.support.run_workspace import Scene, play
from wap_kernel.engine.command_outcome import (
    MAX_NAMED,
    NO_EFFECT_HINT,
    build_result,
    describe_refused,
    raise_unless_ended,
)
from wap_kernel.model.command import Command, CommandOutcome
from wap_kernel.model.errors import PARTIAL_EFFECT_HINT, ExecutionFailed, NoSpace, TimedOut
from wap_kernel.model.results import Limits
from wap_kernel.policy import presets
from wap_kernel.policy.effects.judge import RefusedChange

OUTCOME = CommandOutcome("out\n", "", 4, 0, False, False, exit_code=0, duration=0.25)
COMMAND = Command(command="true", timeout=1.5, output_limit=100)


def suggest(name: str) -> str | None:
    return {"pyhton": "python", "gti": "git"}.get(name)


def refused(*paths: str) -> tuple[RefusedChange, ...]:
    return tuple(RefusedChange(path, "deniedPaths", "closed") for path in paths)


def test_a_result_has_the_outcome_and_nothing_else() -> None:
    result = build_result(OUTCOME, COMMAND, suggest)
    assert result.model_dump(exclude_none=True) == {
        **{"stdout": "out\n", "stderr": "", "exit_code": 0, "duration_ms": 250},
        **{"stdout_bytes": 4, "stderr_bytes": 0, "is_output_truncated": False},
    }


@pytest.mark.parametrize("stderr", ["", "a line\n", "half a line"])
def test_one_line_each_names_refused_changes_and_conflicts(stderr: str) -> None:
    outcome = replace(OUTCOME, stderr=stderr)
    result = build_result(outcome, COMMAND, suggest, refused(".git/hooks/x"), ["notes.txt"])
    said = result.stderr.removeprefix(stderr).lstrip("\n").splitlines()
    assert said == [
        "wap: not applied: .git/hooks/x (see refusedChanges)",
        "wap: not applied, since they were changed meanwhile: notes.txt (see conflicts)",
    ]
    assert stderr.rstrip("\n") in result.stderr.splitlines() or not stderr
    assert result.refused_changes is not None
    assert [each.path for each in result.refused_changes] == [".git/hooks/x"]
    assert result.conflicts == ["notes.txt"]


def test_of_many_paths_the_line_names_some_and_the_result_a_bounded_number() -> None:
    paths = [f"f{number}" for number in range(MAX_NAMED + 5)]
    result = build_result(OUTCOME, COMMAND, suggest, refused(*paths), paths)
    assert f"f4 and {MAX_NAMED} more" in result.stderr
    assert len(result.refused_changes or ()) == len(result.conflicts or ()) == MAX_NAMED
    assert len(describe_refused(refused(*paths))) == MAX_NAMED


def test_names_that_are_no_text_cannot_forge_lines() -> None:
    result = build_result(OUTCOME, COMMAND, suggest, refused("a\nwap: fine"), ["\udcff"])
    assert len(result.stderr.splitlines()) == 2
    result.stderr.encode()


@pytest.mark.parametrize(
    ("stderr", "meant"),
    [
        ("bash: line 1: pyhton: command not found\n", "python"),
        ("sh: 1: gti: not found\n", "git"),
        ("warning\nbash: line 2: gti: command not found\n", "git"),
        ("bash: line 1: unlike-any: command not found\n", None),
        ("something else\n", None),
        ("", None),
    ],
)
def test_a_mistyped_program_gets_a_suggestion(stderr: str, meant: str | None) -> None:
    missing = replace(OUTCOME, stderr=stderr, exit_code=127)
    assert build_result(missing, COMMAND, suggest).stderr == stderr + (f"wap: did you mean {meant}?\n" if meant else "")
    assert build_result(replace(missing, exit_code=1), COMMAND, suggest).stderr == stderr


def test_a_shared_command_is_marked() -> None:
    assert build_result(OUTCOME, COMMAND, suggest, is_shared=True).isolation == "shared"


def raise_for(outcome: CommandOutcome, *, applied: bool) -> None:
    raise_unless_ended(outcome, build_result(outcome, COMMAND, suggest), COMMAND, Limits(), applied=applied)


def test_a_command_that_ended_by_itself_raises_nothing() -> None:
    raise_for(replace(OUTCOME, exit_code=3), applied=True)


@pytest.mark.parametrize(("applied", "hint"), [(True, PARTIAL_EFFECT_HINT), (False, NO_EFFECT_HINT)])
@pytest.mark.parametrize(
    ("end", "error"), [({"cancelled": True}, ExecutionFailed), ({"overflowed": True, "cancelled": True}, NoSpace)]
)
def test_other_ends_are_errors_that_tell_what_became_of_the_changes(
    end: dict[str, Any], error: type[Exception], applied: bool, hint: str
) -> None:
    with pytest.raises(error) as raised:
        raise_for(replace(OUTCOME, **end), applied=applied)
    assert raised.value.hint == hint  # type: ignore[attr-defined]
    assert raised.value.details["stdout"] == "out\n"  # type: ignore[attr-defined]


def test_a_timeout_names_its_time() -> None:
    with pytest.raises(TimedOut, match=r"after 1\.5 seconds") as raised:
        raise_for(replace(OUTCOME, timed_out=True), applied=True)
    assert (raised.value.details["timeoutMs"], raised.value.details["changesApplied"]) == (1500, True)


def test_a_program_that_does_not_exist_asks_nobody_and_gets_a_suggestion(tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    scene = Scene(tmp_path / "root", tmp_path / "state", provider="bubblewrap", policy=presets.load_preset("standard"))

    async def scenario(scene: Scene) -> None:
        (event,) = (await scene.run({"type": "shell", "command": "pythn3 -c 'print(1)'"}))["events"]
        assert (event["exitCode"], "did you mean" in event["stderr"]) == (127, True), event

    play(scene, scenario)
