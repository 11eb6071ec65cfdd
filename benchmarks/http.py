"""A client with one kept-alive connection that costs next to nothing.

http.client takes as long to read an answer's head as the server takes for a small request; it would hide differences.
"""

from __future__ import annotations

import json
import socket
from types import TracebackType
from typing import Any
from urllib.parse import urlsplit

_HEAD_END = b"\r\n\r\n"
_LAST_CHUNK = b"\r\n0\r\n\r\n"


class Client:
    """A client with one connection, which costs as little as possible."""

    def __init__(self, url: str, token: str) -> None:
        parts = urlsplit(url)
        self._base = parts.path.rstrip("/")
        self._head = f"Host: {parts.netloc}\r\nAuthorization: token {token}\r\n"
        self._socket = socket.create_connection((parts.hostname or "", parts.port or 80), timeout=120)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def get(self, path: str) -> bytes:
        return self._successful("GET", path, b"")

    def tool(self, name: str, **parameters: object) -> bytes:
        """Return the raw answer of `POST wap/api/{name}`."""
        return self._successful("POST", f"/wap/api/{name}", json.dumps(parameters).encode())

    def answer(self, name: str, **parameters: object) -> Any:
        return json.loads(self.tool(name, **parameters))

    def request(self, method: str, path: str, body: bytes) -> tuple[int, bytes]:
        """Status and body, whatever the status is."""
        status, _, answer = self.exchange(method, path, body)
        return status, answer

    def exchange(self, method: str, path: str, content: bytes, more: str = "") -> tuple[int, list[str], bytes]:
        """With further lines of the head, and with those of the answer's. Of what comes in chunks, their sizes stay."""
        head = f"{method} {self._base}{path} HTTP/1.1\r\n{self._head}{more}Content-Length: {len(content)}\r\n\r\n"
        self._socket.sendall(head.encode() + content)
        received = bytearray()
        while (end := received.find(_HEAD_END)) < 0:
            received += self._receive()
        status_line, *fields = received[:end].decode("latin-1").split("\r\n")
        body_begins = end + len(_HEAD_END)
        length = next((int(field[15:]) for field in fields if field.lower().startswith("content-length:")), None)
        while len(received) < body_begins + length if length is not None else not received.endswith(_LAST_CHUNK):
            received += self._receive()
        return int(status_line.split()[1]), fields, bytes(received[body_begins:])

    def close(self) -> None:
        self._socket.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _successful(self, method: str, path: str, body: bytes) -> bytes:
        status, answer = self.request(method, path, body)
        if status != 200:
            raise RuntimeError(f"{method} {path} answered {status}: {answer[:500].decode(errors='replace')}")
        return answer

    def _receive(self) -> bytes:
        data = self._socket.recv(1 << 20)
        if not data:
            raise ConnectionError("The server closed the connection.")
        return data
