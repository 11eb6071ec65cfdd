"""Retention without anybody asking: of all processes on a state folder one sweeps it, now and then."""

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
from wap_kernel.state.retention.policy import Retention
from wap_kernel.state.retention.sweeper import Freed, Sweeper

EVERY = 6 * 3600.0
"""Seconds between two sweeps;"""
SOON = 600.0
"""and when there were many runs."""
REST = 0.02
"""Seconds between two pieces of work, in which those who wait for the database get it."""
USER = "wap"
"""Who cut the audit, where no person did."""
_CLOCK = "swept"
"""The file that was touched when the last sweep began, by whoever swept."""


def sweep_if_due(
    state_dir: str,
    log: logging.Logger,
    closing_down: threading.Event,
    *,
    every: float = EVERY,
    bounds: Retention | None = None,
    now: float | None = None,
) -> Freed | None:
    """Sweep, unless somebody did so within `every` seconds or does now: then None. It may take minutes, so on a thread
    that nobody waits for; it ends soon after `closing_down` is set. What goes wrong is logged, not raised."""
    now = time.time() if now is None else now
    try:
        with _turn(state_dir, now, every) as is_ours:
            if not is_ours:
                return None
            with closing(schema.connect(state_dir)) as connection:
                rest = partial(closing_down.wait, REST)
                freed = Sweeper(state_dir, connection, bounds, user=USER, now=now, rest=rest, log=log).sweep()
    except (OSError, sqlite3.Error, WapError) as error:
        log.warning("wap: the state could not be swept: %s", error)
        return None
    if freed != Freed():
        log.info("wap: swept the state: %s", freed)
    return freed


@contextmanager
def _turn(state_dir: str, now: float, every: float) -> Iterator[bool]:
    """Whether it is time, and nobody else is at it. The time counts from the beginning of a sweep, so one that fails is
    not tried again at once; that of a new folder from its first server."""
    descriptor = os.open(os.path.join(state_dir, _CLOCK), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        # Either way: the time may have been set back.
        is_due = try_lock(descriptor) and abs(now - os.fstat(descriptor).st_mtime) >= every
        if is_due:
            os.utime(descriptor, (now, now))
        yield is_due
    finally:
        os.close(descriptor)
