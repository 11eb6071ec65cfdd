"""Retries of HTTP requests, and the errors of those that fail."""

from __future__ import annotations

import json
import os
import signal
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from tests.support.scripted_server import Answer, Handler, client, ok, refusal, serving
from wap_kernel.client.http import http_client as http_module
from wap_kernel.client.http.http_client import KEY_HEADER, ExtensionMissing
from wap_kernel.client.http.json_body import encode_body
from wap_kernel.client.server_backend import ServerBackend
from wap_kernel.model.errors import Code, Conflict, InvalidArgument, TooLarge, WapError
from wap_kernel.model.limits import MAX_BODY_BYTES


def test_a_connection_is_kept() -> None:
    with serving(ok) as served, client(served.url) as http:
        for _ in range(3):
            assert http.request("POST", "wap/api/readFile", {"path": "a"}) == {"a": 1}
        assert len({seen[3] for seen in served.seen}) == 1
        command, path, headers, _ = served.seen[0]
        assert (command, path) == ("POST", "/base/wap/api/readFile")
        assert headers["Authorization"] == "Bearer secret"
        assert "Cookie" not in headers
    assert "secret" not in repr(http)


def hang_up(handler: Handler) -> None:
    """After an answer, without a word: as a server does with connections that are idle for long."""
    ok(handler)
    handler.close_connection = True


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_connection_that_was_closed_meanwhile_is_opened_again(method: str) -> None:
    with serving(hang_up) as served, client(served.url) as http:
        for _ in range(3):
            assert http.request(method, "a", {} if method == "POST" else None) == {"a": 1}
            for connection in http._idle:  # until the end of the connection has arrived
                connection.sock.recv(1, socket.MSG_PEEK)
        assert len(served.seen) == 3


def breaking(times: int) -> Answer:
    left = [None] * times

    def answer(handler: Handler) -> None:
        if left:
            left.pop()
            handler.close_connection = True
        else:
            ok(handler)

    return answer


KEYED = {KEY_HEADER: "k"}


@pytest.mark.parametrize(
    ("method", "headers", "asked"), [("GET", {}, 2), ("POST", KEYED, 2), ("POST", {}, 1), ("DELETE", {}, 1)]
)
def test_only_what_is_safe_is_asked_again(method: str, headers: dict[str, str], asked: int) -> None:
    """The connection breaks after the request was read: nobody knows whether it was done."""
    with serving(breaking(1)) as served, client(served.url) as http:
        try:
            assert http.request(method, "a", {} if method == "POST" else None, headers) == {"a": 1}
        except WapError as error:
            assert error.code is Code.PROVIDER_UNAVAILABLE
            assert asked == 1
        assert len(served.seen) == asked


def test_it_is_asked_again_once() -> None:
    with serving(breaking(9)) as served, client(served.url) as http:
        with pytest.raises(WapError, match="does not answer"):
            http.request("GET", "a")
        assert len(served.seen) == 2


def redirect(handler: Handler) -> None:
    handler.say(302, b"", Location="http://127.0.0.1:9/elsewhere")


def test_a_redirect_is_not_followed() -> None:
    with serving(redirect) as served, client(served.url) as http:
        with pytest.raises(WapError, match="302") as refused:
            http.request("GET", "a")
        assert "base URL" in refused.value.text
        assert len(served.seen) == 1


TOLD: dict[str, tuple[int, bytes, Code, str]] = {
    "ours": (409, b'{"error": "Changed.", "code": "CONFLICT", "details": {"path": "a"}}', Code.CONFLICT, "Changed."),
    "of a newer server": (400, b'{"error": "x", "code": "NEW"}', Code.PROVIDER_UNAVAILABLE, "400"),
    "details that are none": (
        400,
        b'{"error": "x", "code": "CONFLICT", "details": 3}',
        Code.PROVIDER_UNAVAILABLE,
        "400",
    ),
    "a detail named message": (
        400,
        b'{"error": "x", "code": "CONFLICT", "details": {"message": 1}}',
        Code.PROVIDER_UNAVAILABLE,
        "400",
    ),
    "not authenticated": (
        403,
        b'{"error": "Not authenticated.", "code": "UNAUTHENTICATED"}',
        Code.UNAUTHENTICATED,
        "Not",
    ),
    "Jupyter's own": (403, b'{"message": "Forbidden", "reason": null}', Code.UNAUTHENTICATED, "token"),
    "a page": (404, b"<html>", Code.NOT_FOUND, "wap enabled"),
    "a gateway's": (502, b"", Code.PROVIDER_UNAVAILABLE, "502"),
    "a list": (500, b"[]", Code.PROVIDER_UNAVAILABLE, "500"),
    "a proxy's limit": (413, b"<html>", Code.SIZE_LIMIT_EXCEEDED, "parts"),
    "success that is none": (200, b"<html>", Code.PROVIDER_UNAVAILABLE, "did not answer with JSON"),
    "success without a bottom": (200, b"[" * 100_000, Code.PROVIDER_UNAVAILABLE, "did not answer with JSON"),
    "a refusal without a bottom": (400, b'{"a":' * 100_000, Code.PROVIDER_UNAVAILABLE, "400"),
}


@pytest.mark.parametrize(("status", "body", "code", "says"), TOLD.values(), ids=TOLD.keys())
def test_what_a_server_says_becomes_the_right_error(status: int, body: bytes, code: Code, says: str) -> None:
    with serving(lambda handler: handler.say(status, body)) as served:
        refused = refusal(served.url)
    assert refused.code is code
    assert says in refused.text
    assert "secret" not in refused.text
    assert isinstance(refused, ExtensionMissing) == (status == 404)


def in_chunks(handler: Handler) -> None:
    """As a server sends what it does not know the size of."""
    handler.send_response(200)
    handler.send_header("Transfer-Encoding", "chunked")
    handler.end_headers()
    with suppress(ConnectionError):  # when nobody wants the rest
        for _ in range(20):
            handler.wfile.write(b"64\r\n" + b"x" * 100 + b"\r\n")
        handler.wfile.write(b"0\r\n\r\n")


@pytest.mark.parametrize("answer", [in_chunks, lambda handler: handler.say(200, b"x" * 2000)], ids=["chunks", "length"])
def test_an_answer_that_is_too_large_says_so(answer: Answer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_module, "MAX_ANSWER_BYTES", 1000)
    with serving(answer) as served:
        refused = refusal(served.url)
    assert refused.code is Code.SIZE_LIMIT_EXCEEDED
    assert "Ask for less" in refused.text


def half(handler: Handler) -> None:
    handler.send_response(200)
    handler.send_header("Content-Length", "1000")
    handler.end_headers()
    handler.wfile.write(b"{}")
    handler.close_connection = True


def test_half_an_answer_is_none() -> None:
    with serving(half) as served:
        assert "does not answer" in refusal(served.url).text
        assert len(served.seen) == 2, "it is asked again, as for any connection that breaks"


STRANGE: dict[str, tuple[Callable[[ServerBackend], object], str]] = {
    "no wap": (lambda backend: backend.require(), "wap is not there"),
    "no run": (lambda backend: backend.get("run_1"), "runId is missing"),
    "no list": (lambda backend: backend.runs(None, 1), "runs is missing"),
    "no policy": (lambda backend: backend.policy(), "layers is missing"),
}


@pytest.mark.parametrize(("asks", "says"), STRANGE.values(), ids=STRANGE.keys())
def test_some_other_server_that_answers_everything(asks: Callable[[ServerBackend], object], says: str) -> None:
    with serving(ok) as served:
        backend = ServerBackend(served.url, "secret")
        with pytest.raises(WapError, match=says) as refused:
            asks(backend)
        backend.close()
    assert "wap enabled" in refused.value.text


def test_details_are_kept() -> None:
    body = TOLD["ours"][1]
    with serving(lambda handler: handler.say(409, body)) as served:
        refused = refusal(served.url)
    assert isinstance(refused, Conflict)
    assert refused.details == {"path": "a"}


def test_without_a_token_the_two_marks_against_forgery_are_the_same() -> None:
    with serving(ok) as served, client(served.url, "") as http:
        http.request("POST", "a", {})
        headers = served.seen[0][2]
        assert "Authorization" not in headers
        assert headers["Cookie"] == f"_xsrf={headers['X-XSRFToken']}"


def test_bodies_have_a_limit() -> None:
    assert len(encode_body("x" * (MAX_BODY_BYTES - 2))) == MAX_BODY_BYTES
    with pytest.raises(TooLarge):
        encode_body("x" * (MAX_BODY_BYTES - 1))
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(InvalidArgument):
        encode_body(loop)


def test_an_interrupt_goes_through_at_once_and_leaves_nothing_behind() -> None:
    """The answer that was not waited for must not be taken for that to the next request."""
    release, asked, said = threading.Event(), threading.Event(), threading.Event()

    def slow(handler: Handler) -> None:
        asked.set()
        release.wait(60)
        said.set()
        handler.say(200, b'{"late": true}')

    with serving(slow) as served, client(served.url) as http:

        def interrupt() -> None:
            asked.wait(60)
            os.kill(os.getpid(), signal.SIGINT)

        thread = threading.Thread(target=interrupt)
        thread.start()
        with pytest.raises(KeyboardInterrupt):
            http.request("GET", "a")
        thread.join()
        assert not said.is_set()
        assert http._idle == []
        release.set()
        assert http.request("GET", "b") == {"late": True}


def test_many_threads_at_once() -> None:
    def echo(handler: Handler) -> None:
        handler.say(200, json.dumps({"path": handler.path}).encode())

    wrong: list[Any] = []
    with serving(echo) as served, client(served.url) as http:

        def work(name: str) -> None:
            for number in range(20):
                answer = http.request("GET", f"{name}/{number}")
                if answer != {"path": f"/base/{name}/{number}"}:
                    wrong.append(answer)

        threads = [threading.Thread(target=work, args=(f"t{number}",)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert wrong == []
