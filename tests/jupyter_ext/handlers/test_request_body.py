"""Bodies on a real server: nothing is buffered for strangers, the limit holds, and no client loses its answer."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from jupyter_ext.handlers import request_body

MB = 1024 * 1024
BLOCK = b"x" * MB


class Client:
    """A plain client over one connection: sends everything first and reads afterwards, as most libraries do."""

    def __init__(self, server: Any, token: str | None) -> None:
        self._server = server
        self._token = token
        self._socket = socket.create_connection(("127.0.0.1", server.port), timeout=60)
        self._file = self._socket.makefile("rb")
        self.headers: dict[str, str] = {}
        """The headers of the last answer."""

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()
        self._socket.close()

    def head(self, *headers: str, route: str = "api/readFile", method: str = "POST") -> None:
        lines = [f"{method} {self._server.base_url}wap/{route} HTTP/1.1", "Host: localhost", *headers]
        if self._token is not None:
            scheme = "Bearer" if self._token.startswith("wap_") else "token"
            lines.append(f"Authorization: {scheme} {self._token}")
        self._socket.sendall("\r\n".join([*lines, "", ""]).encode())

    def send(self, *parts: bytes) -> None:
        for part in parts:
            self._socket.sendall(part)

    def answer(self) -> tuple[int, Any]:
        status = int(self._file.readline().split()[1])
        self.headers = {}
        while (line := self._file.readline().strip()) != b"":
            name, _, value = line.decode().partition(": ")
            self.headers[name.lower()] = value
        return status, json.loads(self._file.read(int(self.headers.get("content-length", 0))) or b"null")

    def closed(self) -> bool:
        """Return whether the server closes the connection without sending another byte; waits for that."""
        return self._file.read(1) == b""


def _fixed(size: int) -> tuple[str, Iterator[bytes]]:
    return f"Content-Length: {size}", iter([BLOCK] * (size // MB))


def _chunked(size: int) -> tuple[str, Iterator[bytes]]:
    chunk = b"%x\r\n%s\r\n" % (MB, BLOCK)
    return "Transfer-Encoding: chunked", iter([*[chunk] * (size // MB), b"0\r\n\r\n"])


FRAMINGS = pytest.mark.parametrize("framing", [_fixed, _chunked])


@FRAMINGS
@pytest.mark.parametrize(
    ("token", "route"),
    [(None, "api/readFile"), ("wrong", "api/readFile"), (None, "workspace/read"), (None, "runs"), (None, "mcp")],
)
def test_a_strangers_100_mb_are_not_kept(live_server: Any, framing: Any, token: str | None, route: str) -> None:
    with Client(live_server, token) as client:  # what a first refusal allocates is not the body
        client.head("Content-Length: 2")
        client.send(b"{}")
        assert client.answer()[1]["code"] == "UNAUTHENTICATED"
    before = live_server.memory("VmHWM")
    header, parts = framing(100 * MB)
    with Client(live_server, token) as client:
        client.head(header, route=route)
        client.send(*parts)
        status, answer = client.answer()
    reply = answer["error"]["data"] if route == "mcp" else answer
    assert (status, reply["code"]) == (401 if route == "mcp" else 403, "UNAUTHENTICATED")
    assert live_server.memory("VmHWM") - before < 5 * MB


@pytest.mark.parametrize("token", [None, "wrong"])
def test_a_stranger_is_refused_before_the_body_is_sent(live_server: Any, token: str | None) -> None:
    with Client(live_server, token) as client:
        client.head(f"Content-Length: {100 * MB}")
        status, answer = client.answer()
        assert (status, answer["code"]) == (403, "UNAUTHENTICATED")
        assert client.closed()


def test_a_body_that_announces_too_much_is_refused_before_it_is_sent(live_server: Any) -> None:
    for length in (request_body.MAX_BODY_BYTES + 1, 10**12, "9" * 5000):
        with Client(live_server, live_server.token) as client:
            client.head(f"Content-Length: {length}")
            status, answer = client.answer()
            assert (status, answer["code"]) == (413, "SIZE_LIMIT_EXCEEDED")
            assert answer["details"] == {"limit": request_body.MAX_BODY_BYTES}


@FRAMINGS
def test_33_mb_are_refused_and_the_client_can_read_why(live_server: Any, framing: Any) -> None:
    header, parts = framing(33 * MB)
    with Client(live_server, live_server.token) as client:
        client.head(header)
        client.send(*parts)
        status, answer = client.answer()
        assert (status, answer["code"]) == (413, "SIZE_LIMIT_EXCEEDED")
        # The body has been taken to its end, so the connection serves on.
        client.head("Content-Length: 2", route="api/getWorkspaceInfo")
        client.send(b"{}")
        assert client.answer()[0] == 200


@FRAMINGS
def test_32_mb_are_accepted(live_server: Any, framing: Any) -> None:
    header, parts = framing(request_body.MAX_BODY_BYTES)
    with Client(live_server, live_server.token) as client:
        client.head(header)
        client.send(*parts)
        status, answer = client.answer()
    assert (status, answer["code"]) == (400, "INVALID_ARGUMENT")


def test_beyond_the_drop_limit_the_connection_ends(live_server: Any) -> None:
    with Client(live_server, None) as client:
        client.head("Transfer-Encoding: chunked")
        assert client.answer()[0] == 403
        chunk = b"%x\r\n%s\r\n" % (MB, BLOCK)
        with pytest.raises(OSError, match=r"reset|[Bb]roken pipe"):
            client.send(*[chunk] * (2 * request_body.MAX_DROPPED_BYTES // MB))


def test_expect_100_continue_lets_the_authenticated_continue(live_server: Any) -> None:
    with Client(live_server, live_server.token) as client:
        client.head("Content-Length: 2", "Expect: 100-continue", route="api/getWorkspaceInfo")
        assert client.answer() == (100, None)
        client.send(b"{}")
        assert client.answer()[0] == 200


@pytest.mark.parametrize(("token", "length", "status"), [(None, 2, 403), ("wrong", 2, 403), ("a-token", 33 * MB, 413)])
def test_expect_100_continue_stops_the_others(live_server: Any, token: str | None, length: int, status: int) -> None:
    with Client(live_server, token) as client:
        client.head(f"Content-Length: {length}", "Expect: 100-continue")
        assert client.answer()[0] == status
        assert client.headers["connection"] == "close"
        assert client.closed()  # in particular, no "100 Continue" after the refusal


def test_a_refused_small_request_keeps_the_connection(live_server: Any) -> None:
    with Client(live_server, "wrong") as client:
        for _ in range(3):
            client.head("Content-Length: 13")
            client.send(b'{"path": "a"}')
            assert client.answer()[1]["code"] == "UNAUTHENTICATED"


@pytest.fixture(scope="module")
def agents_token(live_server: Any) -> str:
    _, minted = live_server.request("POST", "wap/tokens", json.dumps({"name": "helper"}))
    token: str = minted["token"]
    return token


@pytest.mark.parametrize(
    ("method", "route", "token", "status"),
    [
        ("GET", "tokens", "an agent's", 403),
        ("DELETE", "tokens/x", "an agent's", 403),
        ("POST", "tokens", "an agent's", 403),
        ("GET", "policy", "wap_unknown", 403),
        ("GET", "policy", "wrong", 403),
        ("GET", "policy", None, 403),
        ("OPTIONS", "policy", "wap_unknown", 403),
        ("POST", "runs", "wrong", 403),
        ("POST", "api/readFile", "wrong", 403),
        ("GET", "events", "wrong", 403),
        ("GET", "runs/x/stream", "wrong", 403),
        ("GET", "mcp", "wap_unknown", 401),
        ("DELETE", "mcp", "wrong", 401),
        ("POST", "mcp", "wrong", 401),
        ("GET", "nothing", "wrong", 403),
        ("GET", "nothing", "a-token", 404),
        ("PUT", "policy", "a-token", 405),
    ],
)
def test_a_refused_request_without_a_body_keeps_the_connection(
    live_server: Any, agents_token: str, method: str, route: str, token: str | None, status: int
) -> None:
    length = ["Content-Length: 0"] if method == "POST" else []
    with Client(live_server, agents_token if token == "an agent's" else token) as client:
        for _ in range(2):
            client.head(*length, route=route, method=method)
            assert client.answer()[0] == status
            assert "connection" not in client.headers


@pytest.mark.parametrize(("method", "route", "status"), [("MAKE", "policy", 405), ("GET", "runs/%ff", 400)])
def test_who_is_refused_by_tornado_is_told_that_the_connection_ends(
    live_server: Any, method: str, route: str, status: int
) -> None:
    with Client(live_server, live_server.token) as client:
        client.head(route=route, method=method)
        assert client.answer()[0] == status
        assert client.headers["connection"] == "close"
        assert client.closed()


def test_a_client_that_vanishes_in_the_middle_of_its_body(live_server: Any) -> None:
    for token in (live_server.token, None):
        with Client(live_server, token) as client:
            client.head(f"Content-Length: {20 * MB}")
            client.send(BLOCK)
    status, _ = live_server.request("POST", "wap/api/getWorkspaceInfo", b"{}")
    assert status == 200


def test_the_server_logged_no_error(live_server: Any) -> None:
    """Runs last in this file: refusals and lost clients are nothing to be alarmed about."""
    log = (live_server.root.parent / "log").read_text()
    assert "Traceback" not in log
    assert "Uncaught" not in log
