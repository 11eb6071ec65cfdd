"""Run work on a few threads and await it from an event loop.

Like a ThreadPoolExecutor with `run_in_executor`, for half the price of a hop (150 against 72 us): no second future, no
locks around each submission. It matters because reading a small file takes less time than getting to a thread and back.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from typing import Any, TypeVar

from wap_kernel.model.errors import ProviderUnavailable

T = TypeVar("T")
_Item = tuple[Callable[[], Any], "asyncio.Future[Any]", asyncio.AbstractEventLoop]


class ThreadPool:
    """A pool of at most `count` threads. A thread starts when no other is free; work that finds none waits in order."""

    def __init__(self, name: str, count: int) -> None:
        self._name = name
        self._count = count
        self._queue: SimpleQueue[_Item | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._free: deque[None] = deque()
        """One entry for every idle thread that no queued work counts on yet."""
        self._handing_in = threading.Lock()
        self._is_closed = False

    async def run(self, work: Callable[[], T]) -> T:
        """Return or raise what `work` does. A cancelled caller stops waiting; work that has begun goes on."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        with self._handing_in:
            if self._is_closed:  # no thread would ever take it
                raise ProviderUnavailable("The workspace is closed.")
            self._queue.put((work, future, loop))
            try:
                self._free.pop()
            except IndexError:
                self._start_another()
        return await future

    def close(self) -> None:
        """Refuse new work, and wait for the work in the queue."""
        with self._handing_in:
            self._is_closed = True
            for _ in self._threads:
                self._queue.put(None)
        for thread in self._threads:
            thread.join()

    def _start_another(self) -> None:
        if len(self._threads) < self._count:
            name = f"wap-{self._name}-{len(self._threads)}"
            self._threads.append(threading.Thread(target=self._work, name=name, daemon=True))
            self._threads[-1].start()

    def _work(self) -> None:
        while (item := self._queue.get()) is not None:
            _do(*item)
            del item  # a thread that waits must not keep the last answer alive
            self._free.append(None)


def _do(work: Callable[[], Any], future: asyncio.Future[Any], loop: asyncio.AbstractEventLoop) -> None:
    if future.cancelled():
        return
    try:
        answer: tuple[Any, BaseException | None] = (work(), None)
    except BaseException as error:  # noqa: BLE001 - it belongs to whoever waits for the work
        answer = (None, error)
    with suppress(RuntimeError):  # the loop is closed, so nobody waits any more
        loop.call_soon_threadsafe(_resolve_future, future, *answer)


def _resolve_future(future: asyncio.Future[Any], result: Any, error: BaseException | None) -> None:
    if future.cancelled():
        return
    if error is not None:
        future.set_exception(error)
    else:
        future.set_result(result)
