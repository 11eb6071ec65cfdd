"""Server-sent events: parsed, and taken up again where a connection breaks."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from typing import Any

import pytest

from wap_kernel.client import server as module
from wap_kernel.client.server import ServerBackend
from wap_kernel.client.streams import parse
from wap_kernel.errors import WapError


def test_the_stream_is_parsed_and_a_torn_event_is_left_out() -> None:
    text = b": hello\n\nid: 1\nevent: event\ndata: {\ndata: }\n\r\n:\n\nid: 2\nevent: status\ndata: {}\n"
    assert [(sent.id, sent.name, sent.data) for sent in parse(text.splitlines(True))] == [("1", "event", {})]


def _message(count: int) -> dict[str, Any]:
    operations = [{"type": "message", "content": str(number)} for number in range(count)]
    return {"protocolVersion": "1.0", "operations": operations}


def test_a_run_is_followed_across_broken_connections(on_server: ServerBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every connection breaks after one event; the run is told completely all the same."""
    monkeypatch.setattr(module, "PAUSE_SECONDS", 0.0)

    def cut(lines: Any) -> Iterator[Any]:
        yield next(parse(lines))
        raise ConnectionResetError

    monkeypatch.setattr(module, "parse", cut)
    run_id = on_server.start(_message(5), secrets.token_hex(8))["runId"]
    sent = [one.data for one in on_server.follow(run_id) if one.name == "event"]
    assert sent == on_server.get(run_id)["events"]


def test_a_stream_that_never_brings_anything_is_given_up(
    on_server: ServerBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PAUSE_SECONDS", 0.0)
    monkeypatch.setattr(module, "parse", lambda lines: iter(()))
    run_id = on_server.start(_message(1), secrets.token_hex(8))["runId"]
    with pytest.raises(WapError, match="break off"):
        list(on_server.follow(run_id))
