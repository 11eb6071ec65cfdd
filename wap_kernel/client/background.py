"""Work in a thread of its own: no interrupt stops it, and it keeps no process from ending."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import TypeVar

T = TypeVar("T")
SLICE_SECONDS = 0.5


def started(work: Callable[[], T], name: str, answer: Future[T] | None = None) -> Future[T]:
    """What `work` will have answered or raised. Cancelled before the thread comes to it, it is not begun."""
    future: Future[T] = Future() if answer is None else answer

    def do() -> None:
        if not future.set_running_or_notify_cancel():
            return
        try:
            result = work()
        except BaseException as error:  # noqa: BLE001 - it belongs to whoever waits
            future.set_exception(error)
        else:
            future.set_result(result)

    threading.Thread(target=do, name=name, daemon=True).start()
    return future


def answered(future: Future[T]) -> T:
    """Its answer. In slices: an interrupt that comes just as a wait begins is heard only when that wait ends."""
    while not future.done():
        wait([future], SLICE_SECONDS)
    return future.result()
