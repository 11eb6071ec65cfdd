"""`wap mcp --url` before a server that restarts, is behind a proxy, or is not there: every request gets an answer."""

from __future__ import annotations

import json
import os
import queue
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.support.scripted_server import Answer, Handler, client, serving
from wap_kernel.client.mcp import bridge as bridges
from wap_kernel.client.mcp.bridge import McpBridge

SECONDS = 30
VERSION = "2025-11-25"
META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}
LOST = {"code": -32600, "message": "Session not found.", "data": {"code": "NOT_FOUND"}}


class Client:
    """A stdio client of a bridge in this process."""

    def __init__(self, pipe: int, lines: queue.Queue[bytes]) -> None:
        self._pipe = pipe
        self._lines = lines

    def send(self, message: Any) -> None:
        os.write(self._pipe, json.dumps(message).encode() + b"\n")

    def request(self, number: Any, method: str = "ping", **params: Any) -> None:
        self.send({"jsonrpc": "2.0", "id": number, "method": method, "params": params})

    def receive(self) -> dict[str, Any]:
        message: dict[str, Any] = json.loads(self._lines.get(timeout=SECONDS))
        return message

    def initialize(self) -> None:
        info = {"name": "a", "version": "1"}
        self.request(0, "initialize", protocolVersion=VERSION, capabilities={}, clientInfo=info)
        assert "result" in self.receive()


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bridges, "RETRY_SECONDS", 0.01)


@contextmanager
def _bridged(url: str) -> Iterator[Client]:
    reading, writing = os.pipe()
    lines: queue.Queue[bytes] = queue.Queue()
    with client(url) as http, os.fdopen(reading, "rb") as standard_input:
        bridge = McpBridge(http, lines.put)
        thread = threading.Thread(target=lambda: bridge.run(standard_input, 0))
        thread.start()
        try:
            yield Client(writing, lines)
        finally:
            os.close(writing)
            thread.join(SECONDS)
            bridge.close()
    assert not thread.is_alive()


class Server:
    """An MCP server that knows one session, and answers every other request as the test says."""

    def __init__(self, answer: Answer) -> None:
        self.sessions = 0
        self.known: set[str] = set()
        self.listen: Answer = lambda handler: handler.say(405, b"")
        self._answer = answer
        self._lock = threading.Lock()

    def __call__(self, handler: Handler) -> None:
        session = handler.headers.get("Mcp-Session-Id")
        if handler.command == "GET":
            self.listen(handler)
        elif handler.command == "DELETE":
            handler.say(200, b"")
        elif session is None and "Mcp-Method" not in handler.headers:
            with self._lock:
                self.sessions += 1
                self.known.add(str(self.sessions))
            result = {"jsonrpc": "2.0", "id": 0, "result": {"protocolVersion": VERSION}}
            say(handler, 200, result, **{"Mcp-Session-Id": str(self.sessions)})
        else:
            self._answer(handler)


def say(handler: Handler, status: int, message: Any, **headers: str) -> None:
    handler.say(status, json.dumps(message).encode(), **{"Content-Type": "application/json", **headers})


def stream(handler: Handler, *frames: str) -> None:
    """Answer with events, and break the connection."""
    handler.send_response(200)
    handler.send_header("Content-Type", "text/event-stream")
    handler.send_header("Connection", "close")
    handler.end_headers()
    handler.wfile.write("".join(frames).encode())
    handler.close_connection = True


def answered(number: Any) -> str:
    return f'id: 9\ndata: {{"jsonrpc": "2.0", "id": {json.dumps(number)}, "result": {{}}}}\n\n'


@pytest.mark.parametrize("status", [200, 302, 404, 502, 503, 504])
def test_an_answer_that_is_not_of_wap_is_an_error(status: int) -> None:
    server = Server(lambda handler: handler.say(status, b"<html>", **{"Content-Type": "text/html"}))
    with serving(server) as served, _bridged(served.url) as client:
        client.initialize()
        client.send([{"jsonrpc": "2.0", "id": number, "method": "ping"} for number in (1, "two")])
        errors = [client.receive() for _ in range(2)]
    assert [error["id"] for error in errors] == [1, "two"]
    words = {200: "There is no wap", 302: "redirect", 404: "There is no wap"}
    assert all(words.get(status, "Try again") in error["error"]["message"] for error in errors)


@pytest.mark.parametrize("meta", [{}, META], ids=["session", "envelope"])
def test_a_server_that_is_gone_is_an_error(meta: dict[str, Any]) -> None:
    with _bridged_to_server_that_ends() as client:
        for number in (1, 2):
            client.request(number, _meta=meta)
            assert (client.receive()["error"]["data"]["code"], number) == ("PROVIDER_UNAVAILABLE", number)


@contextmanager
def _bridged_to_server_that_ends() -> Iterator[Client]:
    with serving(Server(lambda handler: handler.say(202, b""))) as served:
        bridged = _bridged(served.url)
        client = bridged.__enter__()
        client.initialize()
    try:
        yield client
    finally:
        bridged.__exit__(None, None, None)


def test_a_server_that_was_never_there_is_an_error() -> None:
    with serving(Server(lambda handler: None)) as served:
        pass
    with _bridged(served.url) as client:
        client.request(1, "server/discover", _meta=META)
        assert "There is no server" in client.receive()["error"]["message"]


def test_a_session_is_renewed_once_also_after_a_failed_attempt() -> None:
    """The proxy answers first while the server restarts; many requests are under way."""

    def answer(handler: Handler) -> None:
        if handler.headers["Mcp-Session-Id"] not in server.known:
            say(handler, 404, {"jsonrpc": "2.0", "id": None, "error": LOST})
        elif b"initialized" in handler.body:
            handler.say(202, b"")
        else:
            say(handler, 200, {"jsonrpc": "2.0", "id": json.loads(handler.body)["id"], "result": {}})

    server = Server(answer)

    def restart(handler: Handler) -> None:
        is_opening = handler.command == "POST" and "Mcp-Session-Id" not in handler.headers
        if is_opening and server.sessions == 1 and restarting.is_set():
            restarting.clear()
            handler.say(503, b"<html>")
        else:
            server(handler)

    restarting = threading.Event()
    with serving(restart) as served, _bridged(served.url) as client:
        client.initialize()
        server.known.clear()
        restarting.set()
        client.request(1)
        assert client.receive()["error"]["message"] == LOST["message"]
        for number in range(2, 20):
            client.request(number)
        answers = [client.receive() for _ in range(2, 20)]
    assert [answer for answer in answers if "error" in answer] == []
    assert sorted(answer["id"] for answer in answers) == [*range(2, 20)]
    assert server.sessions == 2


def test_a_stream_is_resumed_behind_a_proxy_that_cannot_reach_the_server_for_a_while() -> None:
    server = Server(lambda handler: stream(handler, "id: 1\nretry: 1\ndata: \n\n"))
    statuses = iter((503, 409, 502))

    def listen(handler: Handler) -> None:
        if handler.headers.get("Last-Event-ID") != "1":
            handler.say(405, b"")
        elif (status := next(statuses, None)) is not None:
            handler.say(status, b"")
        else:
            stream(handler, answered(7))

    server.listen = listen
    with serving(server) as served, _bridged(served.url) as client:
        client.initialize()
        client.request(7)
        assert client.receive() == {"jsonrpc": "2.0", "id": 7, "result": {}}


def test_messages_of_a_session_go_on_after_the_last_one() -> None:
    """A notification that was sent while the connection was lost is not missed, and a conflict passes."""
    server, asked = Server(lambda handler: handler.say(202, b"")), queue.Queue[str | None]()
    notified = 'data: {"jsonrpc": "2.0", "method": "notifications/message"}\n\n'
    answers = [
        lambda handler: stream(handler, f"id: 4\n{notified}"),
        lambda handler: handler.say(409, b""),
        lambda handler: stream(handler, f"id: 5\n{notified}"),
        lambda handler: stream(handler),
        lambda handler: handler.say(404, b""),
    ]

    def listen(handler: Handler) -> None:
        asked.put(handler.headers.get("Last-Event-ID"))
        answers.pop(0)(handler)

    server.listen = listen
    with serving(server) as served, _bridged(served.url) as client:
        client.initialize()
        assert [asked.get(timeout=SECONDS) for _ in range(5)] == [None, "4", "4", "5", None]
        assert [client.receive()["method"] for _ in range(2)] == ["notifications/message"] * 2


def test_every_method_and_name_can_be_a_header() -> None:
    server = Server(lambda handler: handler.say(404, b""))
    with serving(server) as served, _bridged(served.url) as client:
        client.request(1, "tools/call\r\nX: y", _meta=META)
        client.request(2, "méthode\u20ac", _meta={**META, "io.modelcontextprotocol/protocolVersion": "\u20ac\n"})
        assert {client.receive()["id"] for _ in range(2)} == {1, 2}
        assert all("X" not in headers for _, _, headers, _ in served.seen)


@pytest.mark.parametrize("wrong", [[], {}, None, True, 1.5, "1"])
def test_a_cancellation_of_nothing_ends_nothing(wrong: Any) -> None:
    server = Server(lambda handler: handler.say(202 if "Mcp-Method" not in handler.headers else 404, b""))
    with serving(server) as served, _bridged(served.url) as client:
        client.initialize()
        client.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": wrong}})
        client.request(1, _meta=META)
        assert client.receive()["id"] == 1


def test_a_request_is_cancelled_before_its_connection_is_open() -> None:
    ended = threading.Event()

    def answer(handler: Handler) -> None:
        if handler.rfile.read(1) == b"":  # until the client closes the connection
            ended.set()

    with serving(Server(answer)) as served, _bridged(served.url) as client:
        client.request(1, "tools/call", name="a", _meta=META)
        client.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}})
        assert ended.wait(SECONDS)
