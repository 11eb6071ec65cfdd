"""Notify user interfaces, through the server's event bus, that a run or files have changed, and the log of approvals.

The description of the schema (`event_schemas/changes/v1.yaml`) states the limits of these notifications.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jupyter_events import EventLogger

from wap_kernel.model.text import escape_one_line

SCHEMA = "https://schema.jupyter.org/wap/changes/v1"
MAX_PATHS = 100
COLLECT_SECONDS = 0.1
"""The time in which changes of files are collected into one event: a batch writes hundreds of files."""

_FILE = Path(__file__).parent / "event_schemas" / "changes" / "v1.yaml"


@dataclass(frozen=True)
class RunNotification:
    """A run whose status changed."""

    run: str
    status: str
    agent: str | None = None


@dataclass(frozen=True)
class FilesNotification:
    """Files that changed through wap."""

    paths: tuple[str, ...]
    """The changed paths; empty where they are not known, as after a command."""
    run: str | None = None
    agent: str | None = None


class Notifications:
    """Collect and emit the events. `redact` masks credentials in the names of agents and files."""

    def __init__(
        self, event_logger: EventLogger, loop: asyncio.AbstractEventLoop, redact: Callable[[str], str] = str
    ) -> None:
        self._redact = redact
        self._event_logger = event_logger
        self._loop = loop
        self._collected: dict[tuple[str | None, str | None], dict[str, None] | None] = {}
        """Changed paths by run and agent; None: not known, or more than MAX_PATHS."""
        self._queue: deque[RunNotification | FilesNotification] = deque()
        """Notifications that the loop has not processed."""
        self._is_scheduled = False
        """True while the loop will process the queue without another wake-up: a batch writes faster than it wakes."""
        if SCHEMA not in event_logger.schemas:
            event_logger.register_event_schema(_FILE)

    def announce(self, change: RunNotification | FilesNotification) -> None:
        """Queue a notification, from any thread, without waiting."""
        if self._loop.is_closed():
            return
        self._queue.append(change)
        if isinstance(change, RunNotification) or not self._is_scheduled:
            self._is_scheduled = True
            self._loop.call_soon_threadsafe(self._process)

    def _process(self) -> None:
        self._drain_queue()
        self._is_scheduled = bool(self._collected)  # the end of the collection processes the rest

    def _drain_queue(self) -> None:
        self._is_scheduled = False  # first: a notification from now on wakes the loop again
        while self._queue:
            self._collect(self._queue.popleft())

    def _collect(self, change: RunNotification | FilesNotification) -> None:
        if isinstance(change, RunNotification):
            self._emit_files()  # its changes come before its status
            self._emit("run", change.run, change.agent, status=change.status)
            return
        if not self._collected:
            self._loop.call_later(COLLECT_SECONDS, self._end_collection)
        previous = self._collected.get((change.run, change.agent), {})
        paths = None if previous is None or not change.paths else {**previous, **dict.fromkeys(change.paths)}
        self._collected[change.run, change.agent] = None if paths is None or len(paths) > MAX_PATHS else paths

    def _end_collection(self) -> None:
        self._drain_queue()
        self._emit_files()

    def _emit_files(self) -> None:
        collected, self._collected = self._collected, {}
        for (run, agent), paths in collected.items():
            self._emit("files", run, agent, paths=None if paths is None else list(map(self._redact, paths)))

    def _emit(self, kind: str, run: str | None, agent: str | None, **more: Any) -> None:
        data = {"kind": kind, "runId": run, "agent": agent and self._redact(agent), **more}
        self._event_logger.emit(
            schema_id=SCHEMA, data={name: value for name, value in data.items() if value is not None}
        )


def warn_of_approval(log: logging.Logger, run: str, agent: str) -> None:
    """Warn the person who reads the log that an agent waits; the operation itself is not for the log."""
    commands = f"`wap show {run}` or `%wap show {run}`, and approve it with `wap approve {run}` or `%wap approve {run}`"
    log.warning('wap: the agent "%s" waits for your approval. See it with %s.', escape_one_line(agent), commands)
