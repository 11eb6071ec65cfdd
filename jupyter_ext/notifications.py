"""Tells user interfaces, through the server's own event bus, that a run or files have changed.

A notification and nothing else: the schema's description (`event_schemas/changes/v1.yaml`) states what it is not.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jupyter_events import EventLogger

SCHEMA = "https://schema.jupyter.org/wap/changes/v1"
MAX_PATHS = 100
COLLECT_SECONDS = 0.1
"""How long changes of files wait for company: a batch writes hundreds of them."""

_FILE = Path(__file__).parent / "event_schemas" / "changes" / "v1.yaml"


@dataclass(frozen=True)
class RunChanged:
    run: str
    status: str
    agent: str | None = None


@dataclass(frozen=True)
class FilesChanged:
    paths: tuple[str, ...]
    """Empty: it is not known which, as after a command."""
    run: str | None = None
    agent: str | None = None


class Notifications:
    """`redact` takes out what nobody shall be told: agents name themselves, and files may be named anything."""

    def __init__(
        self, event_logger: EventLogger, loop: asyncio.AbstractEventLoop, redact: Callable[[str], str] = str
    ) -> None:
        self._redact = redact
        self._event_logger = event_logger
        self._loop = loop
        self._collected: dict[tuple[str | None, str | None], dict[str, None] | None] = {}
        """By run and agent; None: not known, or more than can be told."""
        self._announced: deque[RunChanged | FilesChanged] = deque()
        """Not looked at yet."""
        self._will_look = False
        """The loop looks without being woken (once more): a batch writes faster than it wakes."""
        if SCHEMA not in event_logger.schemas:
            event_logger.register_event_schema(_FILE)

    def announce(self, change: RunChanged | FilesChanged) -> None:
        """From any thread; it returns at once."""
        if self._loop.is_closed():
            return
        self._announced.append(change)
        if isinstance(change, RunChanged) or not self._will_look:
            self._will_look = True
            self._loop.call_soon_threadsafe(self._look)

    def _look(self) -> None:
        self._take_all()
        self._will_look = bool(self._collected)  # when their time is over

    def _take_all(self) -> None:
        self._will_look = False  # before the look: what comes after it wakes the loop again
        while self._announced:
            self._take(self._announced.popleft())

    def _take(self, change: RunChanged | FilesChanged) -> None:
        if isinstance(change, RunChanged):
            self._tell_of_files()  # what it has done comes before what became of it
            self._emit("run", change.run, change.agent, status=change.status)
            return
        if not self._collected:
            self._loop.call_later(COLLECT_SECONDS, self._end_collecting)
        before = self._collected.get((change.run, change.agent), {})
        paths = None if before is None or not change.paths else {**before, **dict.fromkeys(change.paths)}
        self._collected[change.run, change.agent] = None if paths is None or len(paths) > MAX_PATHS else paths

    def _end_collecting(self) -> None:
        self._take_all()
        self._tell_of_files()

    def _tell_of_files(self) -> None:
        collected, self._collected = self._collected, {}
        for (run, agent), paths in collected.items():
            self._emit("files", run, agent, paths=None if paths is None else list(map(self._redact, paths)))

    def _emit(self, kind: str, run: str | None, agent: str | None, **more: Any) -> None:
        data = {"kind": kind, "runId": run, "agent": agent and self._redact(agent), **more}
        self._event_logger.emit(
            schema_id=SCHEMA, data={name: value for name, value in data.items() if value is not None}
        )
