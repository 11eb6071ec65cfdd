"""Server-sent events, as they come over a connection."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from http.client import HTTPException, HTTPResponse
from typing import Any

from wap_kernel.client.backend import Sent
from wap_kernel.client.json_body import decoded

SILENCE_SECONDS = 60.0
"""Without a word on a stream, heartbeats included: the connection is dead."""


class TooLong(Exception):
    """An event is larger than anything that is ever sent."""


def parse(lines: Iterable[bytes], largest: int) -> Iterator[Sent]:
    """The events in a `text/event-stream`; one that is cut off is left out, and so are comments. Raises TooLong for one
    of more than so many bytes."""
    fields: dict[str, str] = {}
    taken = 0
    for raw in lines:
        taken = taken + len(raw) if raw.strip() else 0
        if taken > largest:
            raise TooLong
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
        found = decoded(text)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise HTTPException("an event is not JSON")
    return found


def lines_until(deadline: float | None, response: HTTPResponse, sock: Any, longest: int) -> Iterator[bytes]:
    """The lines that come before `deadline`; of one that is too long, the beginning. Heartbeats come all the time, so
    each is waited for anew."""
    while True:
        if deadline is not None:
            left = deadline - time.monotonic()
            if left <= 0:
                return
            sock.settimeout(min(left, SILENCE_SECONDS))
        line = response.readline(longest + 1)
        if not line:
            return
        yield line
