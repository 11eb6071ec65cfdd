"""Lines at standard input that are no message are answered with an error; lines at standard output keep nothing up."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable

import pytest

from tests.support.mcp_lines import Process, server, shared, start, token_file, where
from tests.support.server_processes import Place
from wap_kernel.dialects.mcp.stdio import lines

__all__ = ["server", "shared", "start", "token_file", "where"]

NO_MESSAGES = [
    ('{"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": "cut \\ud83d"}}', -32700),
    ('{"jsonrpc": "2.0", "id": 7, "method": "ping", "params": {"a": "\udcff"}}', -32700),
    ('{"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": []}', -32602),
    ('{"jsonrpc": "2.0", "id": 7, "method": 1}', -32600),
    ('{"jsonrpc": "2.0", "id": 7,', -32700),
    ('{"jsonrpc": "2.0", "method": "ping", "params": {"id": 7,', None),
    ('{"id": 007, "method": "x"}', None),
    ('{"id": "a\tb", "method": "x"}', None),
]
"""Lines that are no message, each with the code of its error where the id of the request can be known."""


def test_a_line_that_is_no_message_is_answered(start: Callable[..., Process], where: list[str]) -> None:
    """The client waits for an answer."""
    server = start(*where)
    server.initialize()
    for line, code in NO_MESSAGES:
        server.say(line)
        answered = server.answer(7 if code else None)
        assert answered["error"]["code"] == (code or -32700)
        assert answered["error"]["data"]["code"] == "INVALID_ARGUMENT" and answered["error"]["data"]["hint"]
    server.send("ping", 8)
    assert server.answer(8)["result"] == {}


def test_an_answer_that_is_none_is_no_yes(start: Callable[..., Process], shared: Place, where: list[str]) -> None:
    (shared.root / ".cws-policy.json").write_text(json.dumps({"confirmationRequired": ["runCommand"]}))
    server = start(*where)
    server.initialize(elicitation={})
    server.send("tools/call", 1, name="runCommand", arguments={"command": "true"})
    asked = server.message(lambda message: message.get("method") == "elicitation/create")
    server.say(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": {"action": "\ud83d"}}))
    assert server.answer(1)["result"]["structuredContent"]["error"]["code"] == -32005


def test_a_client_may_ping_and_probe_before_it_initializes(start: Callable[..., Process], shared: Place) -> None:
    """A version that the server does not speak decides nothing."""
    (shared.root / ".cws-policy.json").unlink(missing_ok=True)
    server = start(str(shared.root))
    version = {"io.modelcontextprotocol/protocolVersion": "2099-01-01"}
    server.send("server/discover", 1, _meta={**version, "io.modelcontextprotocol/clientCapabilities": {}})
    assert server.answer(1)["error"]["code"] == -32022
    server.send("ping", 2)
    assert server.answer(2)["result"] == {}
    assert server.initialize()["result"]["protocolVersion"] == "2025-11-25"
    sleep = {"command": "sh", "args": ["-c", "until [ -e go ]; do sleep 0.01; done"]}
    server.send("tools/call", 1, name="runCommand", arguments={**sleep, "options": {"isolation": "shared"}})
    for wrong in (True, [], {}, None, 1.5, "1"):
        server.send("notifications/cancelled", requestId=wrong)
    (shared.root / "go").touch()
    assert server.answer(1)["result"]["structuredContent"]["exitCode"] == 0


def test_each_message_of_a_batch_is_answered_or_none_is_done(
    start: Callable[..., Process], shared: Place, where: list[str]
) -> None:
    server = start(*where)
    info = {"name": "hand", "version": "1"}
    server.send("initialize", 0, protocolVersion="2025-03-26", capabilities={}, clientInfo=info)
    server.answer(0)
    server.say('[{"jsonrpc": "2.0", "id": 5, "method": "ping"}, 5, {"id": 6}]')
    answers = server.message(lambda message: isinstance(message, list))
    assert {(answer["id"], answer.get("error", {}).get("code")) for answer in answers} == {
        (5, None),
        (None, -32600),
        (6, -32600),
    }
    write = {"name": "writeFile", "arguments": {"path": "made.txt", "contents": "x"}}
    calls = [{"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": write} for _ in range(2)]
    server.say(json.dumps(calls))
    assert "id of its own" in server.message(lambda message: "error" in message)["error"]["message"]
    server.send("ping", 8)
    assert server.answer(8)["result"] == {}
    assert not (shared.root / "made.txt").exists()


def test_a_reader_that_does_not_read_does_not_keep_the_process_from_ending(monkeypatch: pytest.MonkeyPatch) -> None:
    reading, writing = os.pipe()
    monkeypatch.setattr(lines, "STANDARD_OUTPUT", writing)
    monkeypatch.setattr(lines, "STALL_SECONDS", 0.1)
    writer = lines.LineWriter()
    writer.write(b"x" * 1024 * 1024)
    closing = threading.Thread(target=writer.close, daemon=True)
    closing.start()
    closing.join(30)
    assert not closing.is_alive()
    os.close(reading)  # ends the thread that writes
    writer._thread.join()
    os.close(writing)
