"""The operations of an Agent Spaces message: what is accepted, what is refused with which words, what it means."""

from __future__ import annotations

import json
from typing import Any

import pytest

from wap_kernel.dialects.agent_spaces import MAX_COMMAND, MAX_CONTENT, MAX_MESSAGE, parse_message
from wap_kernel.errors import InvalidArgument
from wap_kernel.operations import DeleteFile, ModifyFile, Operation, ReadFile, ReplaceText, RunCommand, WriteFile


def message(*operations: Any, **fields: Any) -> bytes:
    return json.dumps({"protocolVersion": "1.0", "operations": operations, **fields}).encode()


EXAMPLES: tuple[tuple[dict[str, Any], Operation | None], ...] = (
    ({"type": "message", "id": "msg-1", "content": "Processing data..."}, None),
    (
        {
            "type": "createFile",
            "id": "file-1",
            "path": "src/utils.ts",
            "content": "export const helper = () => {};",
            "encoding": "utf-8",
            "overwrite": False,
        },
        WriteFile(
            path="src/utils.ts",
            content=b"export const helper = () => {};",
            mode="create",
            create_directories=True,
        ),
    ),
    (
        {"type": "createFile", "path": "b", "content": "AAH/", "encoding": "base64", "overwrite": True},
        WriteFile(path="b", content=b"\x00\x01\xff", mode="overwrite", create_directories=True),
    ),
    ({"type": "readFile", "id": "read-1", "path": "config.json", "encoding": "utf-8"}, ReadFile(path="config.json")),
    (
        {
            "type": "editFile",
            "id": "edit-1",
            "path": "src/app.ts",
            "edits": [{"oldContent": "const x = 1;", "newContent": "const x = 42;"}],
        },
        ModifyFile(path="src/app.ts", changes=(ReplaceText(old_content="const x = 1;", new_content="const x = 42;"),)),
    ),
    ({"type": "deleteFile", "id": "del-1", "path": "temp.txt"}, DeleteFile(path="temp.txt")),
    (
        {
            "type": "shell",
            "id": "shell-1",
            "command": "bun run test.ts",
            "cwd": "src",
            "timeout": 30000,
            "env": {"DEBUG": "true"},
        },
        RunCommand(command="bun run test.ts", cwd="src", timeout_ms=30_000, environment={"DEBUG": "true"}),
    ),
)


@pytest.mark.parametrize(("sent", "meant"), EXAMPLES, ids=[sent["type"] for sent, _ in EXAMPLES])
def test_the_examples_of_the_specification(sent: dict[str, Any], meant: Operation | None) -> None:
    assert parse_message(message(sent)).numbered() == [(sent.get("id", "op-1"), meant)]


def test_an_empty_list_is_valid_and_operations_without_an_id_get_a_number() -> None:
    assert parse_message(message()).numbered() == []
    read = {"type": "readFile", "path": "a"}
    assert [name for name, _ in parse_message(message(read, {**read, "id": "x"}, read)).numbered()] == [
        "op-1",
        "x",
        "op-3",
    ]


READ = {"type": "readFile", "path": "a"}
SHELL = {"type": "shell", "command": "ls"}
REFUSED: tuple[tuple[dict[str, Any], str, str], ...] = (
    ({**READ, "path": "/etc/passwd"}, "operations.0.readFile", "Path must be relative"),
    ({**READ, "path": "a/../b"}, "operations.0.readFile", "Path must not contain '..'"),
    ({**READ, "path": "a..b"}, "operations.0.readFile", "Path must not contain '..'"),
    ({**READ, "path": "a\0"}, "operations.0.readFile", "Path must not contain null bytes"),
    ({**READ, "path": "a" * 256}, "operations.0.readFile", "Path must not exceed 255 characters"),
    ({**READ, "path": ""}, "operations.0.readFile", "Path must not be empty"),
    ({**READ, "colour": 1}, "operations.0.readFile.colour", "Unknown field."),
    ({**SHELL, "command": ""}, "operations.0.shell.command", "at least 1 character"),
    ({**SHELL, "command": "x" * (MAX_COMMAND + 1)}, "operations.0.shell.command", "at most 4096 characters"),
    ({**SHELL, "cwd": ".."}, "operations.0.shell", "Path must not contain '..'"),
    ({**SHELL, "timeout": 999}, "operations.0.shell.timeout", "greater than or equal to 1000"),
    ({**SHELL, "timeout": 3_600_001}, "operations.0.shell.timeout", "less than or equal to 3600000"),
    ({**SHELL, "timeout": 1000.5}, "operations.0.shell.timeout", "valid integer"),
    ({"type": "editFile", "path": "a", "edits": []}, "operations.0.editFile.edits", "at least 1 item"),
    ({"type": "message", "content": "x" * (MAX_MESSAGE + 1)}, "operations.0.message.content", "at most 100000"),
    (
        {"type": "createFile", "path": "a", "content": "?", "encoding": "base64"},
        "operations.0.createFile",
        "Content is not valid base64",
    ),
    (
        {"type": "createFile", "path": "a", "content": "x" * (MAX_CONTENT + 1)},
        "operations.0.createFile",
        "Content must not exceed 10485760 bytes",
    ),
    ({"type": "format"}, "operations.0", "does not match any of the expected tags"),
    ({"path": "a"}, "operations.0", "Unable to extract tag"),
)


@pytest.mark.parametrize(("operation", "field", "text"), REFUSED, ids=lambda value: str(value)[:40])
def test_a_malformed_operation_names_its_position_and_field(operation: dict[str, Any], field: str, text: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        parse_message(message(operation))
    (problem,) = caught.value.details["problems"]
    assert problem["field"] == field
    assert text in problem["message"]


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[]", b"{}", message(protocolVersion="2.0"), json.dumps({"operations": []}).encode()],
)
def test_a_malformed_message_is_refused(body: bytes) -> None:
    with pytest.raises(InvalidArgument):
        parse_message(body)
