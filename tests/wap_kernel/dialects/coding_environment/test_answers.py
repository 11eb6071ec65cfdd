"""The answers of the tools as data: what became of a command's changes, and the run that undoes a call."""

from __future__ import annotations

import json
from typing import Any

import pytest

from wap_kernel.dialects.coding_environment import outcome
from wap_kernel.dialects.coding_environment.rpc_errors import relocate_error
from wap_kernel.dialects.coding_environment.tools import TOOLS
from wap_kernel.dialects.coding_environment.workspace_root import build_root_folder
from wap_kernel.model.edits import ReplaceText
from wap_kernel.model.errors import InvalidArgument, TimedOut
from wap_kernel.model.git.operations import GitChange
from wap_kernel.model.git.results import GitFailure, GitFailureReason, GitResult
from wap_kernel.model.operations import DeleteFile, ModifyFile, Operation, RunCommand, WriteFile
from wap_kernel.model.results import CommandResult, ModifyResult, PathResult, RefusedPath, Result, WriteResult

LOCKED = GitFailure(GitFailureReason.LOCKED, "It is locked.", 128, "")
REFUSED = RefusedPath(path=".bashrc", rule="protected", reason="Start-up file")


def command_result(**fields: Any) -> CommandResult:
    given = {"stdout": "", "stderr": "", "exit_code": 0, "duration_ms": 5, "stdout_bytes": 0, "stderr_bytes": 0}
    return CommandResult(**{**given, "is_output_truncated": False, **fields})


def encode(tool: str, operation: Operation, result: Result) -> dict[str, Any]:
    structured = outcome.encode_result(TOOLS[tool], operation, result).structured
    assert structured is not None
    return structured


def test_paths_of_a_commands_changes_are_relative_to_the_workspace_root_also_outside_of_it() -> None:
    result = command_result(refused_changes=[REFUSED], conflicts=["app/src/a.py"], run_id="run_1")
    answer = encode("runCommand", RunCommand(command="make", args=(), within="app"), result)
    assert answer["refusedChanges"] == [{"path": "../.bashrc", "rule": "protected", "reason": "Start-up file"}]
    assert (answer["conflicts"], answer["runId"]) == (["src/a.py"], "run_1")


def test_a_command_without_such_changes_has_none_of_the_fields() -> None:
    answer = encode("runCommand", RunCommand(command="make", args=()), command_result())
    assert not {"refusedChanges", "conflicts", "isolation", "runId"} & answer.keys()


def test_a_shared_command_says_that_it_is_not_undone() -> None:
    answer = encode("runCommand", RunCommand(command="make", args=()), command_result(isolation="shared"))
    assert answer["isolation"] == "shared"


@pytest.mark.parametrize(
    ("tool", "operation", "result"),
    [
        ("writeFile", WriteFile(path="a", content=b"x"), WriteResult(path="a", bytes_written=1, hash="sha256:0")),
        (
            "editFile",
            ModifyFile(path="a", edits=(ReplaceText(old_content="a", new_content="b"),)),
            ModifyResult(path="a", hash="sha256:0", diff=""),
        ),
        ("deleteFile", DeleteFile(path="a"), PathResult(path="a")),
        ("git", GitChange(action="add"), GitResult(failure=LOCKED)),
    ],
)
def test_every_change_names_its_run(tool: str, operation: Operation, result: Result) -> None:
    assert encode(tool, operation, result.model_copy(update={"run_id": "run_1"}))["runId"] == "run_1"
    assert "runId" not in encode(tool, operation, result)


@pytest.mark.parametrize(("options", "isolation"), [({}, "layer"), ({"isolation": "shared"}, "shared")])
def test_where_the_changes_of_a_command_go(options: dict[str, Any], isolation: str) -> None:
    parameters = TOOLS["runCommand"].parse(json.dumps({"command": "ls", "options": options}).encode())
    assert parameters.build_operation(build_root_folder(".", ("/ws",))).isolation == isolation


def test_another_isolation_is_refused() -> None:
    with pytest.raises(InvalidArgument, match=r"options.isolation: Input should be 'layer' or 'shared'"):
        TOOLS["runCommand"].parse(b'{"command": "ls", "options": {"isolation": "none"}}')


def test_an_error_of_a_command_names_its_changes_relative_to_the_workspace_root() -> None:
    error = TimedOut("It took too long.", refusedChanges=[REFUSED.model_dump()], conflicts=["app/a.py"])
    details = relocate_error(error, RunCommand(command="make", within="app")).details
    assert details["refusedChanges"][0]["path"] == "../.bashrc" and details["conflicts"] == ["a.py"]
