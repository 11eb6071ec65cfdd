"""Lines at standard input that are no message are answered with an error."""

from __future__ import annotations

import json
from collections.abc import Callable

from tests.support.mcp_lines import Process, server, shared, start, token_file, where
from tests.support.server_processes import Place

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
    assert server.answer(1)["error"]["code"] == -32005
