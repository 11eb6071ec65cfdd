"""Time in tests: a busy machine gets more of it, and what is broken fails all the same."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


def growing(seconds: float) -> Iterator[float]:
    """Times to try one after the other, until what has to happen within one of them has happened."""
    for factor in (1, 8, 64):
        yield seconds * factor


@contextmanager
def cpu_time(seconds: float) -> Iterator[None]:
    """Fails when the block computes for longer. However busy others are does not count: only what this process does."""

    def give_up(_: int, __: FrameType | None) -> None:
        raise AssertionError(f"it computes for more than {seconds} seconds")

    before = signal.signal(signal.SIGVTALRM, give_up)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
