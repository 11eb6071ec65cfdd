"""Server-sent events, as they come over a connection."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator
from http.client import HTTPException, HTTPResponse
from typing import Any

from wap_kernel.client.backend import Sent

SILENCE_SECONDS = 60.0
"""Without a word on a stream, heartbeats included: the connection is dead."""


def parse(lines: Iterable[bytes]) -> Iterator[Sent]:
    """The events in a `text/event-stream`; one that is cut off is left out, and so are comments."""
    fields: dict[str, str] = {}
    for raw in lines:
        line = raw.decode("utf-8", "replace").rstrip("\r\n")
        if not line:
            if "data" in fields:
                yield Sent(fields.get("id", ""), fields.get("event", "message"), _object(fields["data"]))
            fields = {}
        elif not line.startswith(":"):
            name, _, value = line.partition(":")
            value = value.removeprefix(" ")
            fields[name] = f"{fields[name]}\n{value}" if name == "data" and name in fields else value


def _object(text: str) -> dict[str, Any]:
    """What is none came over a connection that garbles, or was written by somebody in between."""
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise HTTPException("an event is not JSON")
    return found


def lines_until(deadline: float | None, response: HTTPResponse, sock: Any) -> Iterator[bytes]:
    """The lines that come before `deadline`. Heartbeats come all the time, so each is waited for anew."""
    while True:
        if deadline is not None:
            left = deadline - time.monotonic()
            if left <= 0:
                return
            sock.settimeout(min(left, SILENCE_SECONDS))
        line = response.readline()
        if not line:
            return
        yield line
