"""A card that follows a run: drawn again when something has happened, but not more often than anybody can read."""

from __future__ import annotations

import contextvars
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from wap_kernel.client.watching import Stopped

if TYPE_CHECKING:
    from wap_kernel.client.backend import Sent
    from wap_kernel.client.render.live_view import LiveRun

PERIOD = 0.125
"""Seconds between two drawings; what is over before the first is not drawn at all."""
CLOCK = 1.0
"""Seconds after which it is drawn anyway, for the time on it."""


class LiveCard:
    """A `Show`. `publish` gets a bundle, in a thread of ours: the last words before a silence are shown."""

    def __init__(self, publish: Callable[[dict[str, str]], None], prefix: str = "%wap ") -> None:
        self._publish = publish
        self._prefix = prefix
        self._run: LiveRun | None = None
        self._run_id = ""
        self._begun = self._drawn = 0.0
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
            self._unless_stopped()
            self._run = LiveRun(len(operations), operations)
        self._begun = self._drawn = time.monotonic()
        # With the context of the cell: it says which cell's output this is.
        target = contextvars.copy_context().run
        self._thread = threading.Thread(target=target, args=(self._keep_drawing,), name="wap-live", daemon=True)
        self._thread.start()

    def sent(self, sent: Sent) -> None:
        with self._lock:
            self._unless_stopped()
            if self._run is not None:
                self._run.feed(sent)
            self._run_id = str(sent.data.get("runId", self._run_id))
            self._changed = True

    def end(self) -> None:
        self._ended.set()
        if self._thread is not None and self._thread.is_alive():  # else an interrupt came before it began
            self._thread.join()

    def stop(self) -> None:
        """From another thread: nobody wants it any longer. Whoever has not begun does not, and whoever watches a run
        cancels it when something is told of it."""
        with self._lock:
            self._is_stopped = True

    def _unless_stopped(self) -> None:
        if self._is_stopped:
            raise Stopped

    def _keep_drawing(self) -> None:
        while not self._ended.wait(PERIOD):
            now = time.monotonic()
            with self._lock:
                if self._run is None or not (self._changed or now - self._drawn >= CLOCK):
                    continue
                drawing = self._run.bundle(self._run_id, now - self._begun, prefix=self._prefix)
                self._changed, self._drawn = False, now
            self._publish(drawing)
