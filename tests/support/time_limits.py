"""Time in tests: a busy machine gets more of it, and what is broken fails all the same."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

PATIENCE = 60.0
"""Seconds that no wait reaches unless something hangs."""


def wait_until(condition: Callable[[], object]) -> None:
    """Wait for what has no event, such as a file or a process of another program; in time, or it fails."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


async def until(condition: Callable[[], object]) -> None:
    """Wait as `wait_until` does, and let other tasks run."""

    async def poll() -> None:
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.01)

    await asyncio.wait_for(poll(), PATIENCE)


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
