"""Agent Spaces operations in a real workspace, and the events that their answers become."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime, timezone
from typing import Any

from tests.support.time_limits import growing
from tests.support.workspace_tools import Tools
from wap_kernel import parse_operation, validate_event
from wap_kernel.dialects.agent_spaces.event_writer import AgentSpacesEventWriter
from wap_kernel.model.errors import WapError

events = AgentSpacesEventWriter(lambda: datetime.now(timezone.utc))


def play(tools: Tools, sent: dict[str, Any]) -> dict[str, Any]:
    operation = parse_operation(sent).engine()
    try:
        return events.write_result("x", operation, asyncio.run(tools.workspace.perform(operation)))
    except WapError as error:
        return events.write_failure("x", operation, error)


def test_files_from_their_creation_to_their_end(make_tools: Callable[..., Tools]) -> None:
    tools = make_tools()
    create = {"type": "createFile", "path": "src/a.txt", "content": "one\n"}
    made = play(tools, create)
    assert (made["success"], made["bytesWritten"]) == (True, 4)
    again = play(tools, create)
    assert (again["error"], again["code"]) == ("File already exists", "FILE_EXISTS")
    assert play(tools, {"type": "readFile", "path": "src/a.txt"})["hash"] == made["hash"]
    binary = play(tools, {"type": "createFile", "path": "b", "content": "AAH/", "encoding": "base64"})
    assert binary["bytesWritten"] == 3
    assert play(tools, {"type": "readFile", "path": "b", "encoding": "base64"})["content"] == "AAH/"
    assert play(tools, {"type": "readFile", "path": "b"})["code"] == "BINARY_FILE"

    edits = [{"oldContent": "one", "newContent": "two"}, {"oldContent": "x" * 60, "newContent": ""}]
    failed = play(tools, {"type": "editFile", "path": "src/a.txt", "edits": edits})
    assert failed["error"] == f'Could not find content to replace: "{"x" * 50}..."'
    edited = play(tools, {"type": "editFile", "path": "src/a.txt", "edits": edits[:1]})
    assert (edited["editsApplied"], "+two" in edited["diff"]) == (1, True)

    delete = {"type": "deleteFile", "path": "src/a.txt"}
    stale = play(tools, {**delete, "expectedHash": made["hash"]})
    assert (stale["code"], stale["hash"]) == ("CONFLICT", edited["hash"])
    assert play(tools, delete)["success"] is True
    assert play(tools, delete)["code"] == "FILE_NOT_FOUND"


def test_a_command_that_fails_and_one_that_takes_too_long(make_tools: Callable[..., Tools]) -> None:
    tools = make_tools()
    failed = play(tools, {"type": "shell", "command": "echo out; echo err >&2; exit 3"})
    assert (failed["success"], failed["exitCode"]) == (False, 3)
    assert (failed["stdout"], failed["stderr"], "error" in failed) == ("out\n", "err\n", False)
    for seconds in growing(1.0):
        late = play(tools, {"type": "shell", "command": "echo begun; sleep 1000", "timeout": round(seconds * 1000)})
        if late["stdout"]:
            break
    assert (late["success"], late["timedOut"], late["exitCode"]) == (False, True, 124)
    assert (late["stdout"], late["code"]) == ("begun\n", "TIMEOUT")
    assert late["durationMs"] >= 1000
    assert validate_event(failed).success and validate_event(late).success
