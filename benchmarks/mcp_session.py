"""An MCP session over HTTP as far as a benchmark needs one: JSON-RPC by POST on one kept-alive connection."""

from __future__ import annotations

import json

from benchmarks.http import Client

JSON = "application/json"
EVENTS = "application/json, text/event-stream"
"""As the protocol wants it; each answer is then a stream of events."""
VERSION = "2025-11-25"
SESSION = "mcp-session-id:"


class Session:
    """An MCP session over HTTP, written by hand."""

    def __init__(self, client: Client, path: str, accept: str) -> None:
        self._client = client
        self._path = path
        self._head = f"Content-Type: application/json\r\nAccept: {accept}\r\n"
        self._number = 0
        about = {"name": "benchmarks", "version": "1"}
        fields, _ = self._ask("initialize", {"protocolVersion": VERSION, "capabilities": {}, "clientInfo": about})
        opened = next(field.partition(":")[2].strip() for field in fields if field.lower().startswith(SESSION))
        self._head += f"Mcp-Session-Id: {opened}\r\nMcp-Protocol-Version: {VERSION}\r\n"
        self._post({"method": "notifications/initialized"})

    def call(self, tool: str, **arguments: object) -> bytes:
        """Return the answer unread: reading it is not measured."""
        _, answer = self._ask("tools/call", {"name": tool, "arguments": arguments})
        if b'"result"' not in answer or b'"isError":true' in answer:
            raise RuntimeError(f"{tool} failed: {answer[:500].decode(errors='replace')}")
        return answer

    def _ask(self, method: str, params: dict[str, object]) -> tuple[list[str], bytes]:
        self._number += 1
        return self._post({"id": self._number, "method": method, "params": params})

    def _post(self, message: dict[str, object]) -> tuple[list[str], bytes]:
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        status, fields, answer = self._client.exchange("POST", self._path, body, self._head)
        if status not in (200, 202):
            raise RuntimeError(f"{message['method']} answered {status}: {answer[:500].decode(errors='replace')}")
        return fields, answer
