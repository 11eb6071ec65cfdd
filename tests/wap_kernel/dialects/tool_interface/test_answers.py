"""The answers of the tools as data: what became of a command's changes, and the run that undoes a call."""

from __future__ import annotations

import json
from typing import Any

from wap_kernel.dialects.tool_interface import git_answers
from wap_kernel.dialects.tool_interface.errors import translate_error
from wap_kernel.dialects.tool_interface.tool_call import encode_result
from wap_kernel.model.edits import ReplaceText
from wap_kernel.model.errors import TimedOut
from wap_kernel.model.git.operations import GitChange
from wap_kernel.model.git.results import GitFailure, GitFailureReason, GitResult
from wap_kernel.model.operations import ModifyFile, Operation, RunCommand, WriteFile
from wap_kernel.model.results import CommandResult, ModifyResult, RefusedPath, Result, WriteResult
from wap_kernel.model.run import Step

REFUSED = RefusedPath(path=".bashrc", rule="protected", reason="Start-up file")
LOST = {
    "refused_changes": [{"path": "/workspace/.bashrc", "rule": "protected", "reason": "Start-up file"}],
    "conflicts": ["/workspace/src/a.py"],
}


def command_result(**fields: Any) -> CommandResult:
    given = {"stdout": "", "stderr": "", "exit_code": 0, "duration_ms": 5, "stdout_bytes": 0, "stderr_bytes": 0}
    return CommandResult(**{**given, "is_output_truncated": False, **fields})


def encode(tool: str, operation: Operation, result: Result) -> dict[str, Any]:
    return encode_result(Step(tool, tool, operation), result)


def test_the_changes_of_a_command_that_were_not_applied_are_named_by_the_dialects_paths() -> None:
    result = command_result(refused_changes=[REFUSED], conflicts=["src/a.py"], run_id="run_1")
    answer = encode("bash", RunCommand(command="make"), result)
    assert {name: answer[name] for name in LOST} == LOST
    assert (answer["runId"], "isolation" in answer) == ("run_1", False)


def test_a_command_without_such_changes_has_none_of_the_fields() -> None:
    answer = encode("bash", RunCommand(command="make"), command_result())
    assert not {"refused_changes", "conflicts", "isolation", "runId"} & answer.keys()


def test_a_shared_command_says_that_it_is_not_undone() -> None:
    shared = RunCommand(command="make", isolation="shared")
    assert encode("bash", shared, command_result(isolation="shared"))["isolation"] == "shared"


def test_every_change_names_its_run() -> None:
    written = WriteResult(path="a", bytes_written=1, hash="sha256:0", run_id="run_1")
    edit = ModifyFile(path="a", edits=(ReplaceText(old_content="a", new_content="b", which="only"),))
    edited = ModifyResult(path="a", hash="sha256:0", diff="", run_id="run_1")
    assert encode("write", WriteFile(path="a", content=b"x"), written)["runId"] == "run_1"
    assert encode("edit", edit, edited)["runId"] == "run_1"
    locked = GitFailure(GitFailureReason.LOCKED, "It is locked.", 128, "")
    committed = git_answers.answer_git(GitChange(action="add"), GitResult(failure=locked, run_id="run_1"))
    assert json.loads(committed.model_dump_json(exclude_none=True))["runId"] == "run_1"


def test_an_error_of_a_command_names_them_too_and_is_translated_once() -> None:
    details = {"refusedChanges": [REFUSED.model_dump()], "conflicts": ["src/a.py"], "durationMs": 5, "runId": "run_1"}
    once = translate_error(TimedOut("It took too long.", **details))
    assert {name: once.details[name] for name in LOST} == LOST and once.details["runId"] == "run_1"
    assert translate_error(once).details == once.details
