"""Parse server-sent events, and resume after a broken connection."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from http.client import HTTPConnection
from typing import Any

import pytest

from tests.support.scripted_server import serving
from wap_kernel.client import server_backend as module
from wap_kernel.client.http.http_client import CONNECTION_ERRORS
from wap_kernel.client.http.sse import EventTooLarge, parse_events
from wap_kernel.client.server_backend import ServerBackend
from wap_kernel.model.errors import TooLarge, WapError


def test_the_stream_is_parsed_and_a_torn_event_is_left_out() -> None:
    text = b": hello\n\nid: 1\nevent: event\ndata: {\ndata: }\n\r\n:\n\nid: 2\nevent: status\ndata: {}\n"
    assert [(sent.id, sent.name, sent.data) for sent in parse_events(text.splitlines(True), 1000)] == [
        ("1", "event", {})
    ]


@pytest.mark.parametrize("data", [b"{", b"<html>", b"[]", b"3", b"null", b"[" * 100_000])
def test_an_event_that_is_none_is_a_broken_connection(data: bytes) -> None:
    with pytest.raises(CONNECTION_ERRORS):
        list(parse_events([b"data: " + data + b"\n", b"\n"], 1_000_000))


@pytest.mark.parametrize("lines", [[b"x" * 101], [b"data: 1\n"] * 13, [b"a: 1\n", b": heartbeat\n"] * 7])
def test_an_event_that_does_not_end_is_not_remembered(lines: list[bytes]) -> None:
    with pytest.raises(EventTooLarge):
        list(parse_events(lines, 100))


def test_many_small_events_are_no_large_one() -> None:
    assert len(list(parse_events([b"data: {}\n", b"\n"] * 100, 100))) == 100


def test_a_stream_that_is_too_large_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_ANSWER_BYTES", 1000)
    with serving(lambda handler: handler.say(200, b"data: " + b"x" * 5000)) as served:
        backend = ServerBackend(served.url, "t")
        with pytest.raises(TooLarge, match="is over"):
            list(backend.follow("run_1"))
        backend.close()
        assert len(served.seen) == 1, "it would be no smaller"


def _message(count: int) -> dict[str, Any]:
    operations = [{"type": "message", "content": str(number)} for number in range(count)]
    return {"protocolVersion": "1.0", "operations": operations}


def test_a_run_is_followed_across_broken_connections(on_server: ServerBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every connection breaks after one event; the run is told completely all the same."""
    monkeypatch.setattr(module, "PAUSE_SECONDS", 0.0)

    def cut(lines: Any, largest: int) -> Iterator[Any]:
        yield next(parse_events(lines, largest))
        raise ConnectionResetError

    monkeypatch.setattr(module, "parse_events", cut)
    run_id = on_server.start(_message(5), secrets.token_hex(8))["runId"]
    sent = [one.data for one in on_server.follow(run_id) if one.name == "event"]
    assert sent == on_server.get(run_id)["events"]


def test_a_stream_that_never_brings_anything_is_given_up(
    on_server: ServerBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PAUSE_SECONDS", 0.0)
    monkeypatch.setattr(module, "parse_events", lambda lines, largest: iter(()))
    run_id = on_server.start(_message(1), secrets.token_hex(8))["runId"]
    with pytest.raises(WapError, match="broke off"):
        list(on_server.follow(run_id))


@pytest.mark.parametrize("status", [502, 503, 504])
def test_what_a_proxy_says_in_between_is_a_broken_connection(
    on_server: ServerBackend, monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    """As while the server behind it starts anew."""
    monkeypatch.setattr(module, "PAUSE_SECONDS", 0.0)
    run_id = on_server.start(_message(2), secrets.token_hex(8))["runId"]
    answers = [status] * (module.ATTEMPTS - 1)
    answer = HTTPConnection.getresponse

    def in_between(connection: HTTPConnection) -> Any:
        response = answer(connection)
        response.status = answers.pop() if answers else response.status
        return response

    monkeypatch.setattr(HTTPConnection, "getresponse", in_between)
    assert len([one for one in on_server.follow(run_id) if one.name == "event"]) == 2
    answers = [status] * module.ATTEMPTS
    with pytest.raises(WapError, match=f"broke off: .* answered {status}"):
        list(on_server.follow(run_id))
