"""Record activity while something runs or waits, so that the server is not culled as idle.

Jupyter's own cull asks `WapExtension.current_activity`. JupyterHub and other readers of `GET api/status` see only the
time of the last activity: a command that takes an hour and sends nothing would look like an hour of idleness.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime, timezone

RECORD_SECONDS = 2.0
"""Seconds between two records; a cull waits for minutes."""


class ActivityRecorder:
    """Call `record` with the time, every few seconds, while `is_active`."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, is_active: Callable[[], object], record: Callable[[datetime], object]
    ) -> None:
        self._loop = loop
        self._is_active = is_active
        self._record = record
        self._timer = loop.call_later(RECORD_SECONDS, self._tick)

    def close(self) -> None:
        self._timer.cancel()

    def check(self) -> None:
        """Record the time if something is active now."""
        if self._is_active():
            self._record(datetime.now(timezone.utc))

    def _tick(self) -> None:
        self._timer = self._loop.call_later(RECORD_SECONDS, self._tick)
        self.check()
