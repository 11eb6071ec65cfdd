"""A model on loopback for real agents: answers with scripted tool calls, one at a time, and records what it was told.

It speaks the OpenAI chat and responses APIs, Anthropic's messages and Gemini's. Each request holds the whole
conversation, so the number of tool results in it says which call comes next: a repeated request gets the same answer.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

from tests.support import model_wires
from tests.support.model_wires import Wire


class Call(NamedTuple):
    """A tool call that the model makes; clients offer the tool by this name with a prefix."""

    tool: str
    arguments: dict[str, Any]


class ScriptedModel:
    """The script, and what the model was told."""

    def __init__(self, calls: Sequence[Call], last_words: str = "Done.") -> None:
        self.calls = tuple(calls)
        self.last_words = last_words
        self.url = ""
        self.results: list[str] = []
        """The text of each tool result, in order, of the longest conversation so far."""
        self.offered: set[str] = set()
        self.paths: list[str] = []

    @contextmanager
    def serve(self) -> Iterator[ScriptedModel]:
        """Listen on a free port of loopback; `url` is the address."""
        model = self

        class Handler(_Handler):
            scripted = model

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.daemon_threads = True
        self.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield self
        finally:
            server.shutdown()
            server.server_close()
            thread.join()

    def answer(self, wire: Wire, body: dict[str, Any]) -> Call | str:
        """Return the next call with the client's own name of the tool, or text."""
        offered = wire.list_tools(body)
        self.offered |= set(offered)
        results = wire.list_results(body)
        if len(results) > len(self.results):
            self.results = results
        if not offered:  # titles and summaries are asked for without tools
            return self.last_words
        if len(results) >= len(self.calls):
            return self.last_words
        call = self.calls[len(results)]
        names = [name for name in offered if name.endswith(call.tool)]
        return Call(min(names, key=len), call.arguments) if names else f"There is no tool {call.tool}: {offered}"


class _Handler(BaseHTTPRequestHandler):
    scripted: ScriptedModel
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self._send("application/json", json.dumps({"object": "list", "data": [], "models": []}).encode())

    do_HEAD = do_GET

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or b"{}")
        self.scripted.paths.append(self.path)
        wire = model_wires.find_wire(self.path)
        if wire is None:
            self._send("application/json", json.dumps(model_wires.OTHERS).encode())
            return
        answer = self.scripted.answer(wire, body)
        tool, content = (answer.tool, answer.arguments) if isinstance(answer, Call) else (None, answer)
        if wire.streams(self.path, body):
            self._send("text/event-stream", model_wires.encode_events(wire.stream(tool, content)))
        else:
            self._send("application/json", json.dumps(wire.message(tool, content)).encode())

    def _send(self, kind: str, body: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *arguments: Any) -> None:
        """Log nothing: the tests read `paths`."""
