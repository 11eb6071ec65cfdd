"""Sweeps the state in the background: every few hours, and sooner when there were many runs."""

from __future__ import annotations

import logging
import threading

from wap_kernel.state.retention import schedule

MANY = 100
"""Runs after which it is looked sooner whether there is something to remove."""
LOOK_SECONDS = 3600.0
FIRST_SECONDS = 60.0
"""After the start, so that a server does not begin with it."""


class BackgroundSweeps:
    def __init__(self, state_dir: str, log: logging.Logger) -> None:
        self._state_dir = state_dir
        self._log = log
        self._runs = 0
        self._many = threading.Event()
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None

    def begin(self) -> None:
        self._thread = threading.Thread(target=self._sweep, name="wap-sweep", daemon=True)
        self._thread.start()

    def count_run(self) -> None:
        self._runs += 1
        if self._runs % MANY == 0:
            self._many.set()

    def close(self) -> None:
        self._closing.set()
        self._many.set()
        if self._thread is not None:
            self._thread.join()

    def _sweep(self) -> None:
        self._many.wait(FIRST_SECONDS)
        while not self._closing.is_set():
            every = schedule.SOON if self._many.is_set() else schedule.EVERY
            self._many.clear()
            schedule.sweep_if_due(self._state_dir, self._log, self._closing, every=every)
            if not self._closing.is_set():
                self._many.wait(LOOK_SECONDS)
