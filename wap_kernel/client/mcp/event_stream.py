"""The events of a response: the messages in them, the position to resume from, and the answers that are missing."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from http.client import HTTPResponse
from typing import Any

from wap_kernel.client.http.http_client import CONNECTION_ERRORS
from wap_kernel.dialects.mcp.messages import RequestId


class EventStream:
    """The events of one stream, over all connections that it takes. `missing` are the requests without an answer."""

    def __init__(self, write: Callable[[bytes], None], missing: set[RequestId]) -> None:
        self._write = write
        self.missing = missing
        self.last_id = ""
        """The id of the event that came last."""

    def forward(self, response: HTTPResponse) -> bool:
        """Forward the messages of a response until it ends or breaks; return whether there was an event."""
        is_any = False
        with suppress(*CONNECTION_ERRORS):
            for event_id, data in _read_events(response):
                is_any = True
                if data:
                    self._write(data)
                    self._find_answers(parse_json(data))
                self.last_id = event_id or self.last_id
        return is_any

    def _find_answers(self, message: Any) -> None:
        for each in message if isinstance(message, list) else [message]:
            if isinstance(each, dict) and "method" not in each and isinstance(each.get("id"), int | str):
                self.missing.discard(each["id"])


def _read_events(response: HTTPResponse) -> Iterator[tuple[str, bytes]]:
    """Yield the id and the data of each event that arrived whole."""
    event_id, data = "", b""
    while line := response.readline():
        name, _, value = line.rstrip(b"\r\n").partition(b":")
        value = value.removeprefix(b" ")
        if name == b"id":
            event_id = value.decode("latin-1")
        elif name == b"data":
            data += value
        elif line in (b"\n", b"\r\n"):
            if event_id or data:
                yield event_id, data
            event_id, data = "", b""


def parse_json(data: bytes) -> Any:
    """Return the value in `data`; None where it is not JSON."""
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None
