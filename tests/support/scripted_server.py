"""A server that says what a test wants it to, and a client of it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from wap_kernel.client.http.http_client import HttpClient
from wap_kernel.model.errors import WapError

Answer = Callable[["Handler"], None]


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Any
    body = b""

    def do_GET(self) -> None:
        length = int(self.headers.get("Content-Length", 0))
        self.body = self.rfile.read(length)
        self.server.seen.append((self.command, self.path, dict(self.headers), self.client_address))
        self.server.answer(self)

    do_POST = do_DELETE = do_CONNECT = do_GET

    def say(self, status: int, body: bytes, **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: Any) -> None:
        """Nothing."""


class _Server(ThreadingHTTPServer):
    request_queue_size = 128  # clients that connect at once are not reset


class Served:
    def __init__(self, server: Any) -> None:
        self.url = f"http://127.0.0.1:{server.server_port}/base/"
        self.port = server.server_port
        self.seen: list[tuple[str, str, dict[str, str], Any]] = server.seen


@contextmanager
def serving(answer: Answer) -> Iterator[Served]:
    with _Server(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        vars(server).update(answer=answer, seen=[])
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield Served(server)
        finally:
            server.shutdown()
            thread.join()


@contextmanager
def client(url: str, token: str = "secret", **options: Any) -> Iterator[HttpClient]:
    http = HttpClient.open(url, token, **options)
    try:
        yield http
    finally:
        http.close()


def refusal(url: str) -> WapError:
    with client(url) as http, pytest.raises(WapError) as refused:
        http.request("GET", "a")
    return refused.value


def ok(handler: Handler) -> None:
    handler.say(200, b'{"a": 1}')
