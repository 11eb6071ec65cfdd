"""The store of events for clients that reconnect: only those of the stream, in order, within the limits."""

from __future__ import annotations

import pytest

from wap_kernel.dialects.mcp.http.event_store import EventStore, encode_event

ONE, OTHER = object(), object()


def test_events_that_followed_in_the_same_stream_are_listed() -> None:
    store = EventStore()
    first = store.add(ONE, None)
    second = store.add(ONE, b"2")
    store.add(OTHER, b"secret")
    third = store.add(ONE, b"3")
    assert store.list_after(first) == [second, third]
    assert store.list_after(third) == []
    assert store.find(str(second.id)) is second


@pytest.mark.parametrize("nonsense", ["", "x", "-1", "0", "9" * 5000, "\u0661"])
def test_nonsense_is_no_event(nonsense: str) -> None:
    assert EventStore().find(nonsense) is None


def test_the_oldest_go_when_there_are_too_many() -> None:
    store = EventStore(max_events=3)
    first, *others = [store.add(ONE, b"x") for _ in range(4)]
    assert store.find(str(first.id)) is None
    assert [store.find(str(event.id)) for event in others] == others


def test_the_oldest_go_when_they_are_too_large() -> None:
    store = EventStore(max_weight=100_000)
    first, second, third = (store.add(ONE, b"x" * 40_000) for _ in range(3))
    assert [store.find(str(event.id)) for event in (first, second, third)] == [None, second, third]
    last = store.add(ONE, b"x" * 10_000_000)  # one alone is kept: its reader may be about to come back
    assert store.find(str(last.id)) is last and store.find(str(third.id)) is None


def test_an_event_is_encoded() -> None:
    assert encode_event(b"{}", 7) == b"id: 7\nevent: message\ndata: {}\n\n"
    assert encode_event(b"{}") == b"event: message\ndata: {}\n\n"
    assert encode_event(None, 7, 500) == b"id: 7\nretry: 500\ndata: \n\n"
