"""A card that follows a run: redrawn after updates, but not more often than people can read."""

from __future__ import annotations

import contextvars
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from wap_kernel.client.run_tracker import RunAbandoned

if TYPE_CHECKING:
    from wap_kernel.client.backend import RunUpdate
    from wap_kernel.client.render.live_view import LiveRun

PERIOD = 0.125
"""Seconds between two drawings; a run that ends before the first is not drawn."""
CLOCK = 1.0
"""Seconds after which the card is redrawn for the time on it."""


class LiveCard:
    """A `RunDisplay` that draws bundles with `publish`.

    A thread draws, so that the last output before a pause is displayed, too.
    """

    def __init__(self, publish: Callable[[dict[str, str]], None], prefix: str = "%wap ") -> None:
        self._publish = publish
        self._prefix = prefix
        self._run: LiveRun | None = None
        self._run_id = ""
        self._started = self._drawn = 0.0
        self._changed = False
        self._is_stopped = False
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def has_begun(self) -> bool:
        return self._run is not None

    def begin(self, operations: Sequence[Mapping[str, Any]]) -> None:
        from wap_kernel.client.render.live_view import LiveRun

        with self._lock:
            self._raise_if_stopped()
            self._run = LiveRun(len(operations), operations)
        self._started = self._drawn = time.monotonic()
        # The context of the cell says to which cell the output belongs.
        target = contextvars.copy_context().run
        self._thread = threading.Thread(target=target, args=(self._draw_periodically,), name="wap-live", daemon=True)
        self._thread.start()

    def update(self, update: RunUpdate) -> None:
        with self._lock:
            self._raise_if_stopped()
            if self._run is not None:
                self._run.feed(update)
            self._run_id = str(update.data.get("runId", self._run_id))
            self._changed = True

    def end(self) -> None:
        self._ended.set()
        if self._thread is not None and self._thread.is_alive():  # an interrupt may come before the thread starts
            self._thread.join()

    def stop(self) -> None:
        """Abandon the run, from another thread: a run that has not started does not start, others are cancelled.

        The watching thread raises RunAbandoned at the next update.
        """
        with self._lock:
            self._is_stopped = True

    def _raise_if_stopped(self) -> None:
        if self._is_stopped:
            raise RunAbandoned

    def _draw_periodically(self) -> None:
        while not self._ended.wait(PERIOD):
            now = time.monotonic()
            with self._lock:
                if self._run is None or not (self._changed or now - self._drawn >= CLOCK):
                    continue
                drawing = self._run.bundle(self._run_id, now - self._started, prefix=self._prefix)
                self._changed, self._drawn = False, now
            self._publish(drawing)
