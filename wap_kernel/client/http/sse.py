"""Parse server-sent events from an open connection."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from http.client import HTTPException, HTTPResponse
from typing import Any

from wap_kernel.client.backend import RunUpdate
from wap_kernel.client.http.json_body import decode_body

SILENCE_SECONDS = 60.0
"""Seconds without a byte, heartbeats included, after which a connection counts as dead."""


class EventTooLarge(Exception):
    """An event is larger than any that a server sends."""


def parse_events(lines: Iterable[bytes], max_bytes: int) -> Iterator[RunUpdate]:
    """Yield the events of a `text/event-stream`, without comments and without an event that is cut off.

    Raise EventTooLarge for an event of more than `max_bytes`.
    """
    fields: dict[str, str] = {}
    size = 0
    for raw in lines:
        size = size + len(raw) if raw.strip() else 0
        if size > max_bytes:
            raise EventTooLarge
        line = raw.decode("utf-8", "replace").rstrip("\r\n")
        if not line:
            if "data" in fields:
                yield RunUpdate(fields.get("id", ""), fields.get("event", "message"), _parse_object(fields["data"]))
            fields = {}
        elif not line.startswith(":"):
            name, _, value = line.partition(":")
            value = value.removeprefix(" ")
            fields[name] = f"{fields[name]}\n{value}" if name == "data" and name in fields else value


def _parse_object(text: str) -> dict[str, Any]:
    """Return the JSON object in `text`; any other text was garbled on the way or written by a proxy."""
    try:
        value = decode_body(text)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise HTTPException("an event is not JSON")
    return value


def read_lines(deadline: float | None, response: HTTPResponse, sock: Any, max_bytes: int) -> Iterator[bytes]:
    """Yield the lines that arrive before `deadline`, each cut after `max_bytes`.

    Heartbeats arrive all the time, so the timeout starts anew for each line.
    """
    while True:
        if deadline is not None:
            left = deadline - time.monotonic()
            if left <= 0:
                return
            sock.settimeout(min(left, SILENCE_SECONDS))
        line = response.readline(max_bytes + 1)
        if not line:
            return
        yield line
