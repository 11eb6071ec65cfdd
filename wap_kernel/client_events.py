"""Runs on a server, with the standard library: start one, follow its events as they come, stop it.

The stream is taken up again where it broke off, so that a proxy which cuts long answers loses nothing.
"""

from __future__ import annotations

import json
import queue
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.client import HTTPException, HTTPResponse
from typing import Any, TypeVar
from urllib.parse import quote, urlsplit

from wap_kernel.errors import InvalidArgument, ProviderUnavailable, WapError

T = TypeVar("T")

ANSWER_SECONDS = 30.0
SILENCE_SECONDS = 60.0
"""Without a word on a stream, heartbeats included: the connection is dead."""
ATTEMPTS = 5
"""How often in a row a stream may break without having brought anything."""
PAUSE_SECONDS = 0.2
UNDER_WAY = ("running", "awaiting_approval")
_LOCAL = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True)
class Sent:
    """One server-sent event."""

    id: str
    name: str
    data: dict[str, Any]


class Refused(WapError):
    """What a server answered; the text is the server's."""


@dataclass(frozen=True)
class RunsClient:
    url: str
    """With the base URL; ends in a slash."""
    token: str = field(repr=False)

    @classmethod
    def at(cls, url: str, token: str) -> RunsClient:
        if not url.startswith(("http://", "https://")):
            raise InvalidArgument(f"{url!r} is not the address of a server.", hint="Such as http://localhost:8888/")
        return cls(url.rstrip("/") + "/", token)

    def start(self, message: dict[str, Any]) -> dict[str, Any]:
        """The events message of a run that has begun."""
        return self._ask("POST", "wap/runs?wait=0", message)

    def get(self, run_id: str) -> dict[str, Any]:
        return self._ask("GET", _path(run_id))

    def cancel(self, run_id: str) -> dict[str, Any]:
        return self._ask("POST", f"{_path(run_id)}/cancel", {})

    def follow(self, run_id: str) -> Iterator[Sent]:
        """Everything that happens in a run, from its beginning to its end."""
        last, failures = "", 0
        while failures < ATTEMPTS:
            before = last
            stream = self._open("GET", f"{_path(run_id)}/stream", None, SILENCE_SECONDS, last)
            with suppress(OSError, HTTPException), stream as response:
                for sent in parse(response):
                    last = sent.id or last
                    yield sent
                    if sent.name == "status" and sent.data.get("status") not in UNDER_WAY:
                        return
            failures = failures + 1 if last == before else 1
            time.sleep(PAUSE_SECONDS * failures)
        raise ProviderUnavailable(f"The events of run {run_id} break off.", hint="The run itself may well go on.")

    def _ask(self, method: str, path: str, body: object = None) -> dict[str, Any]:
        try:
            with self._open(method, path, body, ANSWER_SECONDS) as response:
                answer: dict[str, Any] = json.loads(response.read())
                return answer
        except (OSError, HTTPException, ValueError) as error:
            reason = getattr(error, "reason", error)
            raise ProviderUnavailable(
                f"The server at {self.url} does not answer as it should: {reason}.", hint="Is it still running?"
            ) from None

    @contextmanager
    def _open(
        self, method: str, path: str, body: object, timeout: float, last_event_id: str = ""
    ) -> Iterator[HTTPResponse]:
        headers = {"Content-Type": "application/json"}
        if self.token:
            headers["Authorization"] = f"Bearer {self.token}"  # the only form that agent tokens have
        if last_event_id:
            headers["Last-Event-ID"] = last_event_id
        data = None if body is None else json.dumps(body).encode("ascii")
        request = urllib.request.Request(self.url + path, data, headers, method=method)
        # This machine's own server is never behind a proxy, whatever the environment says.
        local = urlsplit(self.url).hostname in _LOCAL
        proxies = [urllib.request.ProxyHandler({})] if local else []
        try:
            with urllib.request.build_opener(_NoRedirect, *proxies).open(request, timeout=timeout) as response:
                yield response
        except urllib.error.HTTPError as error:
            with error:
                raise _refusal(error) from None


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Elsewhere is not where the token belongs."""

    def redirect_request(self, *args: Any, **kwargs: Any) -> None:
        return None


def parse(lines: Iterable[bytes]) -> Iterator[Sent]:
    """The events in a `text/event-stream`; one that is cut off is left out, and so are comments."""
    fields: dict[str, str] = {}
    for raw in lines:
        line = raw.decode("utf-8", "replace").rstrip("\r\n")
        if not line:
            if "data" in fields:
                yield Sent(fields.get("id", ""), fields.get("event", "message"), json.loads(fields["data"]))
            fields = {}
        elif not line.startswith(":"):
            name, _, value = line.partition(":")
            value = value.removeprefix(" ")
            fields[name] = f"{fields[name]}\n{value}" if name == "data" and name in fields else value


def within(seconds: float | None, items: Iterator[T]) -> Iterator[T]:
    """The items that come in time. A thread waits for them: heartbeats keep a socket from timing out."""
    if seconds is None:
        yield from items
        return
    deadline = time.monotonic() + seconds
    arrived: queue.SimpleQueue[T | BaseException | None] = queue.SimpleQueue()

    def wait() -> None:
        try:
            for item in items:
                arrived.put(item)
            arrived.put(None)
        except Exception as error:  # noqa: BLE001 - raised below, where somebody waits
            arrived.put(error)

    threading.Thread(target=wait, name="wap-events", daemon=True).start()
    with suppress(queue.Empty):
        while (item := arrived.get(timeout=max(0.0, deadline - time.monotonic()))) is not None:
            if isinstance(item, BaseException):
                raise item
            yield item


def _path(run_id: str) -> str:
    return f"wap/runs/{quote(run_id, safe='')}"


def _refusal(error: urllib.error.HTTPError) -> WapError:
    try:
        return Refused(str(json.loads(error.read())["error"]))
    except (OSError, ValueError, KeyError, TypeError):
        return Refused(f"The server answered {error.code} {error.reason}.", hint="Does it have wap enabled?")
