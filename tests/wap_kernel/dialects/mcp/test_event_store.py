"""The cache of events for clients that reconnect: only their own events, in order, within the limits."""

from __future__ import annotations

import asyncio

from mcp.server.streamable_http import EventMessage, EventStore
from mcp_types import JSONRPCNotification, JSONRPCResponse

from wap_kernel.dialects.mcp.http.event_store import EventCache


def _answer(number: int, text: str = "") -> JSONRPCResponse:
    return JSONRPCResponse(jsonrpc="2.0", id=number, result={"content": [{"type": "text", "text": text}]})


NOTE = JSONRPCNotification(jsonrpc="2.0", method="notifications/message")


def _replayed(store: EventStore, last: str) -> tuple[str | None, list[EventMessage]]:
    sent: list[EventMessage] = []

    async def keep(event: EventMessage) -> None:
        sent.append(event)

    return asyncio.run(store.replay_events_after(last, keep)), sent


def _stored(store: EventStore, stream: str, *messages: JSONRPCResponse | JSONRPCNotification | None) -> list[str]:
    async def store_all() -> list[str]:
        return [await store.store_event(stream, message) for message in messages]

    return asyncio.run(store_all())


def test_what_followed_in_the_same_stream_is_replayed() -> None:
    store = EventCache().open_session_store()
    first, second = _stored(store, "1", None, NOTE)
    _stored(store, "2", _answer(2))
    (third,) = _stored(store, "1", _answer(1))
    stream, sent = _replayed(store, first)
    assert (stream, [event.event_id for event in sent]) == ("1", [second, third])
    assert _replayed(store, third) == ("1", [])


def test_a_session_gets_nothing_of_another() -> None:
    events = EventCache()
    one, other = events.open_session_store(), events.open_session_store()
    (first,) = _stored(one, "1", None)
    _stored(one, "1", _answer(1, "secret"))
    (theirs,) = _stored(other, "1", None)
    assert _replayed(other, first) == (None, [])
    assert _replayed(other, theirs) == ("1", [])


def test_nonsense_is_no_event() -> None:
    store = EventCache().open_session_store()
    for nonsense in ("", "x", "-1", "0", "9" * 5000, "\u0661"):
        assert _replayed(store, nonsense) == (None, [])


def test_the_oldest_go_when_there_are_too_many_or_they_are_too_large() -> None:
    events = EventCache(max_events=3)
    store = events.open_session_store()
    first, *_ = _stored(store, "1", None, NOTE, NOTE, NOTE)
    assert _replayed(store, first) == (None, [])
    events = EventCache(max_weight=100_000)
    store = events.open_session_store()
    first, _, third = _stored(store, "1", None, _answer(1, "x" * 40_000), _answer(2, "x" * 40_000))
    assert _replayed(store, first) == (None, [])
    assert len(_replayed(store, _stored(store, "1", None)[0])[1]) == 0
    assert _replayed(store, third)[0] == "1"
    _stored(store, "1", _answer(3, "x" * 10_000_000))  # one alone is kept: its reader may be about to come back
    assert len(events._events) == 1
