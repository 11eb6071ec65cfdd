"""Runs over HTTP: starting and deciding them, and reading their server-sent events."""

from __future__ import annotations

import asyncio
import json
from typing import Any, NamedTuple

from jupyter_server.auth import Authorizer

from tests.support.time_limits import until as until

SECONDS = 60
"""What anything may take at most."""


def batch(*operations: dict[str, Any], **more: Any) -> str:
    return json.dumps({"protocolVersion": "1.0", "operations": operations, **more})


async def start(fetch: Any, *operations: dict[str, Any], headers: Any = None, wait: Any = None, **more: Any) -> Any:
    """The answer to `POST wap/runs`."""
    params = {} if wait is None else {"wait": str(wait)}
    return await fetch(
        "wap/runs", method="POST", body=batch(*operations, **more), headers=dict(headers or {}), params=params
    )


async def decide(fetch: Any, run_id: str, decision: str, **more: Any) -> Any:
    headers = more.pop("headers", {})
    body = json.dumps({"decision": decision, **more})
    return await fetch(f"wap/runs/{run_id}/decision", method="POST", body=body, headers=dict(headers))


def create(path: str, content: str = "x", **more: Any) -> dict[str, Any]:
    return {"type": "createFile", "path": path, "content": content, **more}


def read(path: str, **more: Any) -> dict[str, Any]:
    return {"type": "readFile", "path": path, **more}


def shell(command: str, **more: Any) -> dict[str, Any]:
    return {"type": "shell", "command": command, **more}


def types(message: Any) -> list[str]:
    return [event["type"] for event in message["events"]]


async def ended(fetch: Any, run_id: str) -> Any:
    """The run's message once it has ended or asks."""

    async def poll() -> Any:
        while True:
            answer = await fetch(f"wap/runs/{run_id}")
            if answer.body["status"] != "running":
                return answer.body
            await asyncio.sleep(0.01)

    return await asyncio.wait_for(poll(), SECONDS)


class Notes(Authorizer):
    """Refuses some actions and remembers what it was asked."""

    refused: tuple[str, ...] = ()

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.asked: list[tuple[str, str]] = []

    def is_authorized(self, handler: Any, user: Any, action: str, resource: str) -> bool:
        self.asked.append((action, resource))
        return action not in self.refused


class Sent(NamedTuple):
    """One server-sent event; a comment has no name."""

    id: str | None
    name: str | None
    data: Any


class Events:
    """A reader of server-sent events on a connection of its own, which reads only when it is told to."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._text = b""
        self.status = 0
        self.headers: dict[str, str] = {}

    @classmethod
    async def open(cls, port: int, path: str, headers: dict[str, str]) -> Events:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        lines = [f"GET {path} HTTP/1.1", "Host: localhost", *(f"{name}: {value}" for name, value in headers.items())]
        writer.write("\r\n".join([*lines, "", ""]).encode())
        events = cls(reader, writer)
        head = (await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), SECONDS)).decode().split("\r\n")
        events.status = int(head[0].split()[1])
        events.headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:])}
        return events

    async def next(self) -> Sent | None:
        """None: there are no more."""
        return await asyncio.wait_for(self._next(), SECONDS)

    async def next_event(self) -> Sent | None:
        """Without the comments."""
        while (sent := await self.next()) is not None and sent.name is None:
            pass
        return sent

    async def rest(self) -> list[Sent]:
        """All that come until the end."""
        found = []
        while (sent := await self.next_event()) is not None:
            found.append(sent)
        return found

    async def until_status(self, *statuses: str) -> list[Sent]:
        """All that come until the run has one of these."""
        found = []
        while (sent := await self.next_event()) is not None:
            found.append(sent)
            if sent.name == "status" and sent.data["status"] in statuses:
                return found
        raise AssertionError("the stream ended before that")

    def close(self) -> None:
        self._writer.close()

    async def _next(self) -> Sent | None:
        while b"\n\n" not in self._text:
            size = int(await self._reader.readline() or b"0", 16)
            if size == 0:
                assert not self._text
                return None
            self._text += await self._reader.readexactly(size)
            await self._reader.readexactly(2)
        text, _, self._text = self._text.partition(b"\n\n")
        fields = dict(line.split(": ", 1) for line in text.decode().split("\n") if not line.startswith(":"))
        return Sent(fields.get("id"), fields.get("event"), json.loads(fields["data"]) if "data" in fields else None)
