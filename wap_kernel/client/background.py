"""Run work in daemon threads, which no interrupt stops and which keep no process from ending."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import TypeVar

T = TypeVar("T")
SLICE_SECONDS = 0.5


def run_in_thread(work: Callable[[], T], name: str, future: Future[T] | None = None) -> Future[T]:
    """Start `work` in a thread and return the future of its result.

    A `future` that is cancelled before the thread reaches it keeps `work` from starting.
    """
    result: Future[T] = Future() if future is None else future

    def run() -> None:
        if not result.set_running_or_notify_cancel():
            return
        try:
            value = work()
        except BaseException as error:  # noqa: BLE001 - it belongs to the thread that waits
            result.set_exception(error)
        else:
            result.set_result(value)

    threading.Thread(target=run, name=name, daemon=True).start()
    return result


def wait_for_result(future: Future[T]) -> T:
    """Return the result of `future`, waiting in slices.

    An interrupt that arrives just as a wait begins is raised only when that wait ends.
    """
    while not future.done():
        wait([future], SLICE_SECONDS)
    return future.result()
