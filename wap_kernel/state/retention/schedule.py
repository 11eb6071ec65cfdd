"""Sweep the state now and then in the background: of all processes on a state folder one does it."""

from __future__ import annotations

import logging
import os
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial

from wap_kernel.model.errors import WapError
from wap_kernel.state import schema
from wap_kernel.state.file_lock import try_lock
from wap_kernel.state.retention.policy import RetentionLimits
from wap_kernel.state.retention.sweeper import Sweeper, SweepResult

SWEEP_SECONDS = 6 * 3600.0
"""Seconds between two sweeps."""
BUSY_SWEEP_SECONDS = 600.0
"""Seconds between two sweeps when there were many runs."""
MANY_RUNS = 100
"""Runs after which the next check for a sweep comes early."""
CHECK_SECONDS = 3600.0
"""Seconds between two checks whether a sweep is due."""
FIRST_CHECK_SECONDS = 60.0
"""Seconds from the start of a server to its first check."""
REST_SECONDS = 0.02
"""Seconds between two pieces of work, in which others get the database."""
USER = "wap"
"""The user of an audit cut that no person made."""
_CLOCK = "swept"
"""The file whose modification time is the beginning of the last sweep."""


class BackgroundSweeper:
    """A thread that sweeps the state when it is due."""

    def __init__(self, state_dir: str, log: logging.Logger) -> None:
        self._state_dir = state_dir
        self._log = log
        self._runs = 0
        self._many_runs = threading.Event()
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        self._thread = threading.Thread(target=self._sweep, name="wap-sweep", daemon=True)
        self._thread.start()

    def count_run(self) -> None:
        """Count a run that has ended; many of them bring the next check forward."""
        self._runs += 1
        if self._runs % MANY_RUNS == 0:
            self._many_runs.set()

    def close(self) -> None:
        self._closing.set()
        self._many_runs.set()
        if self._thread is not None:
            self._thread.join()

    def _sweep(self) -> None:
        self._many_runs.wait(FIRST_CHECK_SECONDS)
        while not self._closing.is_set():
            every = BUSY_SWEEP_SECONDS if self._many_runs.is_set() else SWEEP_SECONDS
            self._many_runs.clear()
            sweep_if_due(self._state_dir, self._log, self._closing, every=every)
            if not self._closing.is_set():
                self._many_runs.wait(CHECK_SECONDS)


def sweep_if_due(
    state_dir: str,
    log: logging.Logger,
    closing_down: threading.Event,
    *,
    every: float = SWEEP_SECONDS,
    limits: RetentionLimits | None = None,
    now: float | None = None,
) -> SweepResult | None:
    """Sweep the state, and return what was freed; None if a sweep runs, began within `every` seconds, or failed.

    A sweep may take minutes, so call this on a thread that no request waits for. It ends soon after `closing_down` is
    set. Failures are logged, not raised.
    """
    now = time.time() if now is None else now
    try:
        with _take_turn(state_dir, now, every) as is_ours:
            if not is_ours:
                return None
            with closing(schema.connect(state_dir)) as connection:
                rest = partial(closing_down.wait, REST_SECONDS)
                freed = Sweeper(state_dir, connection, limits, user=USER, now=now, rest=rest, log=log).sweep()
    except (OSError, sqlite3.Error, WapError) as error:
        log.warning("wap: the state could not be swept: %s", error)
        return None
    if freed != SweepResult():
        log.info("wap: swept the state: %s", freed)
    return freed


@contextmanager
def _take_turn(state_dir: str, now: float, every: float) -> Iterator[bool]:
    """Yield whether a sweep is due that no other process does.

    The time counts from the beginning of the last sweep, so one that fails is not tried again immediately; in a new
    folder it counts from its first server.
    """
    descriptor = os.open(os.path.join(state_dir, _CLOCK), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        # In either direction: the clock may have been set back.
        is_due = try_lock(descriptor) and abs(now - os.fstat(descriptor).st_mtime) >= every
        if is_due:
            os.utime(descriptor, (now, now))
        yield is_due
    finally:
        os.close(descriptor)
