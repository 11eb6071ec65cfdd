"""The events of Agent Spaces as they are written: every example of the reference, every result and every error."""

from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.agent_spaces_examples import EVENTS
from wap_kernel import parse_event, validate_event
from wap_kernel.dialects.agent_spaces.event_models import TYPES
from wap_kernel.dialects.agent_spaces.event_writer import AgentSpacesEventWriter
from wap_kernel.model import errors
from wap_kernel.model.edits import ReplaceText
from wap_kernel.model.git.operations import GitChange, GitRead, GitTransfer
from wap_kernel.model.git.results import GitFailure, GitFailureReason, GitResult
from wap_kernel.model.limits import AGENT_SPACES_MAX_EVENT_MESSAGE_CHARACTERS
from wap_kernel.model.operations import (
    ApplyChanges,
    CopyFile,
    CreateDirectory,
    DeleteFile,
    DescribeWorkspace,
    ListFiles,
    Message,
    ModifyFile,
    MoveFile,
    Operation,
    ReadFile,
    ReadNotebook,
    RevertRun,
    RunCommand,
    SearchFiles,
    ViewFile,
    WriteFile,
)
from wap_kernel.model.results import (
    AppliedChanges,
    CommandResult,
    FileContent,
    FileEntry,
    FileList,
    FileMetadata,
    Limits,
    ModifyResult,
    NotebookContent,
    PathResult,
    RefusedPath,
    Result,
    RevertResult,
    SearchResult,
    WorkspaceDescription,
    WriteResult,
)
from wap_kernel.model.run import KINDS
from wap_kernel.redaction.redactor import Redactor

MOMENT = datetime(2024, 1, 15, 10, 30, tzinfo=timezone.utc)
HASH = f"sha256:{'0' * 64}"
events = AgentSpacesEventWriter(lambda: MOMENT)


def command_result(**fields: Any) -> CommandResult:
    given = {"stdout": "", "stderr": "", "exit_code": 0, "duration_ms": 5, "stdout_bytes": 0, "stderr_bytes": 0}
    return CommandResult(**{**given, "is_output_truncated": False, **fields})


def content(text: str = "", **fields: Any) -> FileContent:
    about = FileMetadata(path="/ws/config.json", size=16, is_directory=False, last_modified="2024-01-15T10:30:00.000Z")
    given = {"encoding": "utf-8", "is_truncated": False, "total_lines": 1, "returned_lines": 1}
    return FileContent(**{**given, "content": text, "metadata": about, "hash": HASH, **fields})


CREATE = WriteFile(path="src/utils.ts", content=b"export const helper = () => {};", mode="create")
READ = ReadFile(path="config.json")
EDIT = ModifyFile(path="src/app.ts", edits=(ReplaceText(old_content="const x = 1;", new_content="const x = 42;"),))
DELETE = DeleteFile(path="temp.txt")
TEST = RunCommand(command="bun run test.ts")
PARTIAL = {"stdout": "a", "stderr": "b", "durationMs": 30_000, "stdoutBytes": 1, "stderrBytes": 1}

WRITTEN: dict[str, dict[str, Any]] = {
    "message": events.write_result("msg-1", Message(content="Processing data..."), Result()),
    "createFile": events.write_result("file-1", CREATE, WriteResult(path="src/utils.ts", bytes_written=31, hash=HASH)),
    "createFile on failure": events.write_failure(
        "file-1", CREATE, errors.AlreadyExists("Already exists: src/utils.ts")
    ),
    "readFile": events.write_result("read-1", READ, content('{"key": "value"}')),
    "editFile": events.write_result("edit-1", EDIT, ModifyResult(path="src/app.ts", hash=HASH, diff="@@ ...")),
    "deleteFile": events.write_result("del-1", DELETE, PathResult(path="temp.txt")),
    "shell": events.write_result("shell-1", TEST, command_result(stdout="All tests passed!\n", duration_ms=1234)),
    "shell on timeout": events.write_failure(
        "shell-1", RunCommand(command="sleep 1000"), errors.TimedOut("Too long.", timeoutMs=30_000, **PARTIAL)
    ),
    "approvalRequired": events.write_approval(
        "shell-1",
        RunCommand(command="rm -rf data/"),
        "Destructive command requires approval",
        {"command": "rm -rf data/", "policy": "shell.approvalRequired"},
    ),
    "policyDenied": events.write_denial("shell-1", TEST, "Command 'sudo' is blocked", "Remove sudo from command"),
    "error": events.write_error("execution", "Docker container not available"),
}


@pytest.mark.parametrize("name", EVENTS)
def test_the_examples_of_the_specification_are_written(name: str) -> None:
    example = {field: value for field, value in EVENTS[name].items() if field != "timestamp"}
    assert example.items() <= WRITTEN[name].items()
    assert WRITTEN[name]["timestamp"] == "2024-01-15T10:30:00.000Z"
    assert validate_event(WRITTEN[name]).success


def test_times_are_utc() -> None:
    elsewhere = AgentSpacesEventWriter(lambda: MOMENT.astimezone(timezone(timedelta(hours=5))))
    assert elsewhere.write_error("system", "")["timestamp"] == "2024-01-15T10:30:00.000Z"


# -- every result

DONE: tuple[tuple[Operation, Result, dict[str, Any]], ...] = (
    (
        RunCommand(command="false"),
        command_result(exit_code=1, stderr="no", stderr_bytes=2),
        {
            "type": "shell",
            "command": "false",
            "success": False,
            "exitCode": 1,
            "stdout": "",
            "stderr": "no",
            "durationMs": 5,
            "stdoutBytes": 0,
            "stderrBytes": 2,
        },
    ),
    (
        TEST,
        command_result(is_output_truncated=True, stdout_bytes=5_000_000),
        {
            "type": "shell",
            "command": "bun run test.ts",
            "success": True,
            "exitCode": 0,
            "stdout": "",
            "stderr": "",
            "durationMs": 5,
            "stdoutBytes": 5_000_000,
            "stderrBytes": 0,
            "truncated": True,
        },
    ),
    (
        ReadFile(path="b", encoding="base64"),
        content("AAH/", encoding="base64", is_truncated=True),
        {
            "type": "readFile",
            "path": "b",
            "success": True,
            "content": "AAH/",
            "encoding": "base64",
            "size": 16,
            "hash": HASH,
            "truncated": True,
        },
    ),
    (
        READ,
        content("\ufffd", is_lossy=True),
        {
            "type": "readFile",
            "path": "config.json",
            "success": True,
            "content": "\ufffd",
            "encoding": "utf-8",
            "size": 16,
            "hash": HASH,
            "isLossy": True,
        },
    ),
    (
        EDIT,
        ModifyResult(path="src/app.ts", hash=HASH, diff="@@", is_diff_truncated=True),
        {
            "type": "editFile",
            "path": "src/app.ts",
            "success": True,
            "editsApplied": 1,
            "hash": HASH,
            "diff": "@@",
            "truncated": True,
        },
    ),
    (
        MoveFile(source="a", destination="b"),
        PathResult(path="b"),
        {"type": "moveFile", "source": "a", "destination": "b", "success": True},
    ),
    (
        CopyFile(source="a", destination="b"),
        PathResult(path="b", hash=HASH),
        {"type": "copyFile", "source": "a", "destination": "b", "success": True, "hash": HASH},
    ),
    (
        CreateDirectory(path="d"),
        PathResult(path="d"),
        {"type": "createDirectory", "path": "d", "success": True},
    ),
    (
        RevertRun(run="run_1"),
        RevertResult(restored=["a"], left=["b"]),
        {"type": "revert", "run": "run_1", "success": True, "restored": ["a"], "left": ["b"]},
    ),
    (
        ApplyChanges(run="run_1", paths=("a",)),
        AppliedChanges(applied=["a"], refused_changes=[RefusedPath(path=".bashrc", rule="protected", reason="No")]),
        {
            **{"type": "apply", "run": "run_1", "success": True, "applied": ["a"]},
            "refusedChanges": [{"path": ".bashrc", "rule": "protected", "reason": "No"}],
        },
    ),
    (
        RunCommand(command="make"),
        command_result(
            refused_changes=[RefusedPath(path=".bashrc", rule="protected", reason="No")],
            conflicts=["a"],
            isolation="shared",
        ),
        {
            **{"type": "shell", "command": "make", "success": True, "exitCode": 0, "stdout": "", "stderr": ""},
            **{"durationMs": 5, "stdoutBytes": 0, "stderrBytes": 0, "conflicts": ["a"], "isolation": "shared"},
            "refusedChanges": [{"path": ".bashrc", "rule": "protected", "reason": "No"}],
        },
    ),
    (
        ListFiles(path="."),
        FileList(files=[FileEntry(path="a", is_directory=False)], is_truncated=False, total_found=1),
        {"type": "listFiles", "path": ".", "success": True},
    ),
    (
        SearchFiles(paths=(".",), query="x"),
        SearchResult(matches=[], is_truncated=False, total_matches=0),
        {"type": "searchFiles", "success": True},
    ),
    (
        DescribeWorkspace(),
        WorkspaceDescription(
            root="/ws",
            default_exclusions=[],
            limits=Limits(),
            version="0",
            dialects=[],
            provider="local",
            confines_commands=False,
            isolation="shared",
        ),
        {"type": "describeWorkspace", "success": True},
    ),
    (
        ViewFile(path="a"),
        content("x"),
        {
            **{"type": "viewFile", "path": "a", "success": True},
            **{"content": "x", "encoding": "utf-8", "size": 16, "hash": HASH},
        },
    ),
    (
        ReadNotebook(path="a.ipynb"),
        NotebookContent(cells=[], total_cells=0, is_truncated=False, metadata=content("x").metadata, hash=HASH),
        {"type": "readNotebook", "path": "a.ipynb", "success": True},
    ),
    (GitRead(action="status"), GitResult(), {"type": "gitRead", "command": "git status", "success": True}),
    (
        GitChange(action="checkout", branch="x"),
        GitResult(failure=GitFailure(GitFailureReason.LOCKED, "It is locked.", 128, "")),
        {"type": "gitChange", "command": "git checkout x", "success": False},
    ),
    (
        GitTransfer(action="push", branch="x", force=True),
        GitResult(),
        {"type": "gitTransfer", "command": "git push --force origin x", "success": True},
    ),
)


@pytest.mark.parametrize(("operation", "result", "expected"), DONE, ids=lambda one: getattr(one, "kind", ""))
def test_every_result(operation: Operation, result: Result, expected: dict[str, Any]) -> None:
    event = events.write_result("x", operation, result)
    assert event == {"timestamp": "2024-01-15T10:30:00.000Z", "operationId": "x", **expected}
    assert parse_event(event).model_dump(by_alias=True, exclude_unset=True) == event


def test_what_the_runner_adds() -> None:
    event = events.write_result("x", DELETE, PathResult(path="temp.txt"), simulated=True, note="Binary", diff=None)
    assert (event["simulated"], event["note"], "diff" in event) == (True, "Binary", False)
    assert validate_event(event).success


# -- every error

WAP_ERRORS = [one for one in vars(errors).values() if isinstance(one, type) and issubclass(one, errors.WapError)]
EXAMPLE_OF = {
    **{operation.kind: operation for operation, _, _ in DONE},
    **{operation.kind: operation for operation in (Message(content=""), CREATE, READ, EDIT, DELETE, TEST)},
}


def test_the_tables_of_this_test_are_complete() -> None:
    assert set(EXAMPLE_OF) == set(KINDS) == set(TYPES)


@pytest.mark.parametrize("error", WAP_ERRORS)
def test_every_error_of_every_operation(error: type[errors.WapError]) -> None:
    for kind, operation in EXAMPLE_OF.items():
        event = events.write_failure("x", operation, error("It went wrong", hint="Try again."))
        assert validate_event(json.dumps(event)).success
        if issubclass(error, errors.PermissionDenied | errors.ApprovalRequired):
            assert (event["type"], event["operationType"]) == ("policyDenied", TYPES[kind])
            assert (event["reason"], event["suggestion"]) == ("It went wrong", "Try again.")
        else:
            assert (event["type"], event["success"], event["code"]) == (TYPES[kind], False, error.code.value)
            assert "exitCode" not in event and "timedOut" not in event


def test_what_was_denied_is_named_without_what_it_holds() -> None:
    named = {kind: events.write_denial("x", operation, "No").get("details") for kind, operation in EXAMPLE_OF.items()}
    assert named[CREATE.kind] == {"path": "src/utils.ts"} and named[TEST.kind] == {"command": "bun run test.ts"}
    assert named[Message.kind] is None and "helper" not in json.dumps(named)


def test_no_message_tells_a_credential_that_is_known() -> None:
    telling = AgentSpacesEventWriter(lambda: MOMENT, Redactor(("correct-horse-battery",)))
    event = telling.write_result("m", Message(content="token: correct-horse-battery"), Result())
    assert event["content"] == "token: ***"


def test_a_message_is_told_as_it_was_said_but_not_at_any_length() -> None:
    assert WRITTEN["message"]["content"] == "Processing data..." and "truncated" not in WRITTEN["message"]
    long = events.write_result("x", Message(content="é" * 5_000), Result())
    assert (long["content"], long["truncated"]) == ("é" * AGENT_SPACES_MAX_EVENT_MESSAGE_CHARACTERS, True)
    assert validate_event(long).success
    secret = events.write_result("x", Message(content="with https://ada:hunter2@example.org/x"), Result())
    assert "hunter2" not in secret["content"]


def test_whatever_names_a_rule_is_denied_by_it() -> None:
    event = events.write_failure("x", CREATE, errors.TooLarge("Too much", hint="Write less.", rule="maxFileSize"))
    assert event == {
        "type": "policyDenied",
        "timestamp": "2024-01-15T10:30:00.000Z",
        "operationId": "x",
        "operationType": "createFile",
        "reason": "Too much",
        "suggestion": "Write less.",
        "rule": "maxFileSize",
        "details": {"path": "src/utils.ts"},
    }


def test_an_edit_that_is_not_found_shows_what_is_close() -> None:
    closest = {"startLine": 3, "endLine": 3, "text": "const x = 2;", "similarity": 0.9}
    event = events.write_failure("x", EDIT, errors.EditNotFound("Could not find", hint="Read it.", closest=closest))
    assert (event["error"], event["closest"]) == ("Could not find", closest)
    assert validate_event(event).success


def test_a_revert_that_would_lose_something_names_the_files() -> None:
    error = errors.Conflict("Changed since", paths=["a", "b"])
    event = events.write_failure("x", RevertRun(run="run_1"), error)
    assert (event["code"], event["paths"]) == ("CONFLICT", ["a", "b"])
    assert validate_event(event).success


HALVES = ("\ud800", "\udcff", "a\udc80b\ud83d")


@pytest.mark.parametrize("half", HALVES)
def test_text_that_is_not_unicode_is_shown_escaped(half: str) -> None:
    for event in (
        events.write_failure(half, ReadFile(path=half), errors.FileNotFound(half)),
        events.write_result("x", TEST, command_result(stdout=half)),
        events.write_approval("x", TEST, half, {half: [half, {"a": half}]}),
        events.write_denial("x", TEST, half, half, half),
        events.write_error("system", half, {"path": half}),
    ):
        json.dumps(event, ensure_ascii=False).encode()
        assert validate_event(json.dumps(event)).success


@given(
    st.sampled_from(list(EXAMPLE_OF.values())),
    st.sampled_from(WAP_ERRORS),
    st.text(st.characters()),
    st.dictionaries(st.sampled_from(["rule", "currentHash", "path"]), st.text(st.characters())),
)
def test_whatever_is_written_can_be_read(
    operation: Operation, error: type[errors.WapError], text: str, details: dict[str, Any]
) -> None:
    for event in (
        events.write_failure(text or "x", operation, error(text, hint=text, **details)),
        events.write_approval(text, operation, text, details),
        events.write_error("system", text, details),
    ):
        again = parse_event(json.dumps(event))
        assert again.model_dump(by_alias=True, exclude_unset=True) == event


def test_a_command_that_was_ended_keeps_its_output() -> None:
    event = events.write_failure(
        "x", TEST, errors.ExecutionFailed("The command was ended before it was done.", **PARTIAL)
    )
    assert (event["success"], event["error"]) == (False, "The command was ended before it was done.")
    assert (event["stdout"], event["stderr"], event["durationMs"]) == ("a", "b", 30_000)
    assert "exitCode" not in event and "timedOut" not in event
