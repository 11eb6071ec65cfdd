"""Take advisory locks on open files. The kernel releases them when the holder dies."""

from __future__ import annotations

import time

_POLL = 0.002


def try_lock(descriptor: int, *, shared: bool = False) -> bool:
    """Take the lock, and return whether it was free. Several processes may have it `shared` together."""
    import fcntl  # not on Windows, where this package must import, though it does not run

    try:
        fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def lock_within(descriptor: int, seconds: float, *, shared: bool = False) -> bool:
    """Take the lock, and return whether it became free in time. A stopped process may hold it for ever."""
    deadline = time.monotonic() + seconds
    while not try_lock(descriptor, shared=shared):
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL)
    return True
