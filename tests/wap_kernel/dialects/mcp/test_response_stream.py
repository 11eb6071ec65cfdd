"""A client that does not read costs a bounded amount of memory, and still gets its answer."""

from __future__ import annotations

import pytest

from wap_kernel.dialects.mcp.http.event_store import EventStore
from wap_kernel.dialects.mcp.http.response_stream import ResponseStream
from wap_kernel.dialects.mcp.server import Reply
from wap_kernel.model.limits import MCP_MAX_QUEUED_BYTES, MCP_MAX_QUEUED_MESSAGES

READER = object()
LARGE = MCP_MAX_QUEUED_BYTES // 4


@pytest.mark.parametrize("has_begun", [True, False])
@pytest.mark.parametrize(("size", "count"), [(1, MCP_MAX_QUEUED_MESSAGES), (LARGE, 4)])
def test_notifications_that_no_client_reads_are_dropped(has_begun: bool, size: int, count: int) -> None:
    stream = ResponseStream(1, is_stream=True, store=EventStore())
    if has_begun:
        stream.begin_events(READER)
    for _ in range(2 * count):
        stream.send(b"x" * size)
    if not has_begun:
        stream.begin_events(READER)
    stream.reply(Reply(b"{}"))
    data = stream.take(READER)
    assert data is not None
    assert data.count(b"data: x") == count and data.endswith(b"data: {}\n\n")
    stream.send(b"y")
    assert b"data: y" in (stream.take(READER) or b"")


def test_a_connection_that_is_lost_late_takes_nothing_from_the_next() -> None:
    stream, other = ResponseStream(1, is_stream=True, store=(store := EventStore())), object()
    stream.begin_events(READER, is_primed=True)
    event = store.find("1")
    assert event is not None
    stream.resume(other, event)
    stream.detach(READER)
    stream.reply(Reply(b"{}"))
    assert stream.take(READER) is None
    assert stream.take(other) == b"id: 2\nevent: message\ndata: {}\n\n"
