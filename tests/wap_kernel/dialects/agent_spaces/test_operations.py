"""The operations of an Agent Spaces message: what is accepted, what is refused with which words, what it means."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from tests.support.agent_spaces_examples import OPERATIONS, OPERATIONS_MESSAGE
from wap_kernel import parse_operation, parse_operations_message, validate_operation
from wap_kernel.dialects.agent_spaces.operations import MAX_TIMEOUT_MS, MIN_TIMEOUT_MS
from wap_kernel.model.edits import ReplaceText
from wap_kernel.model.errors import InvalidArgument
from wap_kernel.model.limits import (
    AGENT_SPACES_MAX_COMMAND_CHARACTERS,
    AGENT_SPACES_MAX_CONTENT_BYTES,
    AGENT_SPACES_MAX_ID_CHARACTERS,
    AGENT_SPACES_MAX_MESSAGE_CHARACTERS,
    AGENT_SPACES_MAX_OPERATIONS,
    AGENT_SPACES_MAX_PATH_CHARACTERS,
)
from wap_kernel.model.operations import DeleteFile, Message, ModifyFile, Operation, ReadFile, RunCommand, WriteFile
from wap_kernel.model.run import BatchOptions, Step

HASH = f"sha256:{'0' * 64}"


def message(*operations: Any, **fields: Any) -> dict[str, Any]:
    return {"protocolVersion": "1.0", "operations": list(operations), **fields}


MEANT: dict[str, Operation] = {
    "message": Message(content="Processing data..."),
    "createFile": WriteFile(
        path="src/utils.ts", content=b"export const helper = () => {};", mode="create", create_directories=True
    ),
    "readFile": ReadFile(path="config.json"),
    "editFile": ModifyFile(
        path="src/app.ts", edits=(ReplaceText(old_content="const x = 1;", new_content="const x = 42;"),)
    ),
    "deleteFile": DeleteFile(path="temp.txt"),
    "shell": RunCommand(command="bun run test.ts", cwd="src", timeout_ms=30_000, environment={"DEBUG": "true"}),
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_the_examples_of_the_specification(name: str) -> None:
    sent = OPERATIONS[name]
    operation = parse_operation(sent)
    assert operation.engine() == MEANT[name]
    assert operation.model_dump(by_alias=True, exclude_unset=True) == sent
    assert parse_operation(json.dumps(sent)) == parse_operation(json.dumps(sent).encode()) == operation


def test_the_message_of_the_specification() -> None:
    parsed = parse_operations_message(OPERATIONS_MESSAGE)
    assert parsed.model_dump(by_alias=True, exclude_unset=True) == OPERATIONS_MESSAGE
    assert parsed.options() == BatchOptions()
    assert parsed.steps() == [
        Step("op-1", "message", Message(content="Starting...")),
        Step("op-2", "createFile", WriteFile(path="app.ts", content=b"...", mode="create", create_directories=True)),
        Step("op-3", "shell", RunCommand(command="bun run app.ts", timeout_ms=30_000, is_timeout_default=True)),
    ]


READ = {"type": "readFile", "path": "a"}
CREATE = {"type": "createFile", "path": "a", "content": "x"}
EDIT = {"type": "editFile", "path": "a", "edits": [{"oldContent": "a", "newContent": ""}]}
DELETE = {"type": "deleteFile", "path": "a"}
SHELL = {"type": "shell", "command": "ls"}
SAY = {"type": "message", "content": ""}


def test_where_the_changes_of_a_command_go() -> None:
    shared, default = parse_operation({**SHELL, "isolation": "shared"}).engine(), parse_operation(SHELL).engine()
    assert isinstance(shared, RunCommand) and isinstance(default, RunCommand)
    assert (shared.isolation, default.isolation) == ("shared", "layer")
    with pytest.raises(InvalidArgument, match=r"shell.isolation: Input should be 'layer' or 'shared'"):
        parse_operation({**SHELL, "isolation": "none"})


def test_an_empty_list_is_valid() -> None:
    assert parse_operations_message(message()).steps() == []


@pytest.mark.parametrize(
    ("given", "got"),
    [
        ([None, "x", None], ["op-1", "x", "op-3"]),
        (["op-2", None], ["op-2", "op-2_"]),
        ([None, "op-1", "op-1_"], ["op-1__", "op-1", "op-1_"]),
    ],
)
def test_operations_without_an_id_get_one_that_is_free(given: list[str | None], got: list[str]) -> None:
    sent = message(*({**READ, "id": name} for name in given))
    assert [step.id for step in parse_operations_message(sent).steps()] == got


def test_an_id_is_given_once() -> None:
    with pytest.raises(InvalidArgument) as caught:
        parse_operations_message(message({**READ, "id": "x"}, READ, {**SHELL, "id": "x"}))
    assert caught.value.message == "operations.2.shell.id: operations.0 has this id already"


def test_the_options_of_a_message() -> None:
    assert parse_operations_message(message(atomic=True, dryRun=True)).options() == BatchOptions(
        atomic=True, dry_run=True
    )


@pytest.mark.parametrize("operation", [CREATE, EDIT, DELETE], ids=lambda one: one["type"])
def test_every_change_takes_the_hash_that_the_caller_saw(operation: dict[str, Any]) -> None:
    assert getattr(parse_operation({**operation, "expectedHash": HASH}).engine(), "expected_hash") == HASH  # noqa: B009
    assert not validate_operation({**operation, "expectedHash": "sha256:x"}).success


def test_base64_brings_any_bytes() -> None:
    data = bytes(range(256))
    sent = {**CREATE, "content": base64.b64encode(data).decode(), "encoding": "base64", "overwrite": True}
    assert parse_operation(sent).engine() == WriteFile(
        path="a", content=data, mode="overwrite", create_directories=True
    )
    assert parse_operation({**READ, "encoding": "base64"}).engine() == ReadFile(path="a", encoding="base64")


def test_paths_reach_the_engine_in_its_own_form() -> None:
    assert parse_operation({**READ, "path": "./a//b/"}).engine() == ReadFile(path="a/b")
    assert parse_operation({**SHELL, "cwd": "./"}).engine() == RunCommand(
        command="ls", timeout_ms=30_000, is_timeout_default=True
    )


AT_THE_LIMIT: dict[str, dict[str, Any]] = {
    "path": {**READ, "path": "a/" * 127 + "a"},
    "id": {**READ, "id": "é" * AGENT_SPACES_MAX_ID_CHARACTERS},
    "command": {**SHELL, "command": "é" * AGENT_SPACES_MAX_COMMAND_CHARACTERS},
    "message": {**SAY, "content": "é" * AGENT_SPACES_MAX_MESSAGE_CHARACTERS},
    "content": {**CREATE, "content": "é" * (AGENT_SPACES_MAX_CONTENT_BYTES // 2)},
    "content in base64": {
        **CREATE,
        "content": base64.b64encode(bytes(AGENT_SPACES_MAX_CONTENT_BYTES)).decode(),
        "encoding": "base64",
    },
    "shortest timeout": {**SHELL, "timeout": MIN_TIMEOUT_MS},
    "longest timeout": {**SHELL, "timeout": MAX_TIMEOUT_MS},
    "a whole number with a point": {**SHELL, "timeout": 1000.0},
    "null is absent": {**SHELL, "id": None, "cwd": None, "timeout": None, "env": None},
    "an empty file": {**CREATE, "content": ""},
    "an empty message": SAY,
    "a deletion": EDIT,
}


@pytest.mark.parametrize("name", AT_THE_LIMIT)
def test_what_is_just_allowed(name: str) -> None:
    parse_operation(AT_THE_LIMIT[name]).engine()


REFUSED: dict[str, tuple[dict[str, Any], str, str]] = {
    "absolute": ({**READ, "path": "/etc/passwd"}, "readFile.path", "Path must be relative"),
    "parent": ({**READ, "path": "a/../b"}, "readFile.path", "Path must not contain '..'"),
    "two dots in a name": ({**READ, "path": "a..b"}, "readFile.path", "Path must not contain '..'"),
    "NUL": ({**READ, "path": "a\0"}, "readFile.path", "Path must not contain null bytes"),
    "long path": (
        {**READ, "path": "a" * (AGENT_SPACES_MAX_PATH_CHARACTERS + 1)},
        "readFile.path",
        "Path must not exceed 255 characters",
    ),
    "no path": ({**READ, "path": ""}, "readFile.path", "Path must not be empty"),
    "a file that is a folder": ({**CREATE, "path": "a/"}, "createFile.path", "The path names a folder"),
    "path of editFile": ({**EDIT, "path": "/a"}, "editFile.path", "Path must be relative"),
    "path of deleteFile": ({**DELETE, "path": ".."}, "deleteFile.path", "Path must not contain '..'"),
    "path of createFile": ({**CREATE, "path": "\0"}, "createFile.path", "Path must not contain null bytes"),
    "cwd": ({**SHELL, "cwd": ".."}, "shell.cwd", "Path must not contain '..'"),
    "unknown field": ({**READ, "colour": 1}, "readFile.colour", "Unknown field."),
    "no command": ({**SHELL, "command": ""}, "shell.command", "at least 1 character"),
    "long command": (
        {**SHELL, "command": "x" * (AGENT_SPACES_MAX_COMMAND_CHARACTERS + 1)},
        "shell.command",
        "at most 4096 characters",
    ),
    "short timeout": ({**SHELL, "timeout": MIN_TIMEOUT_MS - 1}, "shell.timeout", "greater than or equal to 1"),
    "long timeout": ({**SHELL, "timeout": MAX_TIMEOUT_MS + 1}, "shell.timeout", "less than or equal to 3600000"),
    "half a millisecond": ({**SHELL, "timeout": 1000.5}, "shell.timeout", "valid integer"),
    "true is no number": ({**SHELL, "timeout": True}, "shell.timeout", "valid integer"),
    "text is no number": ({**SHELL, "timeout": "1000"}, "shell.timeout", "valid integer"),
    "no end": ({**SHELL, "timeout": float("inf")}, "shell.timeout", "valid integer"),
    "environment": ({**SHELL, "env": {"A": 1}}, "shell.env.A", "valid string"),
    "no edit": ({**EDIT, "edits": []}, "editFile.edits", "at least 1 item"),
    "edit of nothing": (
        {**EDIT, "edits": [{"oldContent": "", "newContent": "x"}]},
        "editFile.edits.0.oldContent",
        "at least 1 character",
    ),
    "edit without replacement": (
        {**EDIT, "edits": [{"oldContent": "x"}]},
        "editFile.edits.0.newContent",
        "This field is required.",
    ),
    "long message": (
        {**SAY, "content": "x" * (AGENT_SPACES_MAX_MESSAGE_CHARACTERS + 1)},
        "message.content",
        "at most 100000 characters",
    ),
    "not base64": ({**CREATE, "content": "?", "encoding": "base64"}, "createFile.content", "not valid base64"),
    "not even ASCII": ({**CREATE, "content": "é", "encoding": "base64"}, "createFile.content", "not valid base64"),
    "base64 in lines": (
        {**CREATE, "content": "AAAA\n", "encoding": "base64"},
        "createFile.content",
        "not valid base64",
    ),
    "much content": (
        {**CREATE, "content": "x" * (AGENT_SPACES_MAX_CONTENT_BYTES + 1)},
        "createFile.content",
        "exceed 10485760 bytes",
    ),
    "much content in few characters": (
        {**CREATE, "content": "é" * (AGENT_SPACES_MAX_CONTENT_BYTES // 2 + 1)},
        "createFile.content",
        "exceed 10485760 bytes",
    ),
    "much content in base64": (
        {
            **CREATE,
            "content": base64.b64encode(bytes(AGENT_SPACES_MAX_CONTENT_BYTES + 1)).decode(),
            "encoding": "base64",
        },
        "createFile.content",
        "exceed 10485760 bytes",
    ),
    "encoding": ({**CREATE, "encoding": "latin-1"}, "createFile.encoding", "'utf-8' or 'base64'"),
    "overwrite": ({**CREATE, "overwrite": "yes"}, "createFile.overwrite", "valid boolean"),
    "empty id": ({**READ, "id": ""}, "readFile.id", "at least 1 "),
    "long id": ({**READ, "id": "x" * (AGENT_SPACES_MAX_ID_CHARACTERS + 1)}, "readFile.id", "at most 200 "),
    "type": ({"type": "format"}, "", "does not match any of the expected tags"),
    "no type": ({"path": "a"}, "", "Unable to extract tag"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_malformed_operation_names_its_position_and_field(name: str) -> None:
    operation, field, text = REFUSED[name]
    with pytest.raises(InvalidArgument) as caught:
        parse_operations_message(message(SAY, operation))
    (problem,) = caught.value.details["problems"]
    assert problem["field"] == f"operations.1.{field}".rstrip(".")
    assert text in problem["message"]


HALF = "\ud800"


@pytest.mark.parametrize(
    "operation",
    [
        {**SAY, "content": HALF},
        {**SAY, "id": HALF},
        {**CREATE, "content": HALF},
        {**READ, "path": HALF},
        {**EDIT, "edits": [{"oldContent": HALF, "newContent": ""}]},
        {**EDIT, "edits": [{"oldContent": "a", "newContent": HALF}]},
        {**SHELL, "command": HALF},
        {**SHELL, "env": {HALF: ""}},
        {**SHELL, "env": {"A": HALF}},
    ],
)
def test_half_a_character_is_no_text(operation: dict[str, Any]) -> None:
    assert not validate_operation(operation).success
    assert not validate_operation(json.dumps(operation)).success


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"{",
        b"[]",
        b"{}",
        b"\xff",
        None,
        [READ],
        message(protocolVersion="2.0"),
        message(protocolVersion=1.0),
        {"operations": []},
        {"protocolVersion": "1.0"},
        message(colour=1),
        message(atomic="yes"),
        message(*[READ] * (AGENT_SPACES_MAX_OPERATIONS + 1)),
    ],
    ids=lambda sent: str(sent)[:40],
)
def test_a_malformed_message_is_refused(sent: object) -> None:
    with pytest.raises(InvalidArgument):
        parse_operations_message(sent)
