"""Work handed to threads and awaited."""

from __future__ import annotations

import asyncio
import gc
import threading
import weakref

import pytest

from wap_kernel.engine.thread_pool import ThreadPool
from wap_kernel.model.errors import ProviderUnavailable

SECONDS = 60
"""What anything may take at most."""


def test_results_and_errors_come_back() -> None:
    threads = ThreadPool("t", 2)

    async def main() -> None:
        assert await asyncio.gather(*(threads.run(lambda n=n: n * n) for n in range(50))) == [n * n for n in range(50)]
        with pytest.raises(ZeroDivisionError):
            await threads.run(lambda: 1 / 0)
        assert await threads.run(threading.get_ident) != threading.get_ident()

    asyncio.run(main())
    threads.close()


def test_no_more_than_so_many_at_once() -> None:
    threads = ThreadPool("t", 3)
    barrier = threading.Barrier(3)
    running, most = 0, 0
    lock = threading.Lock()

    def work() -> None:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        barrier.wait(SECONDS)  # three do meet
        with lock:
            running -= 1

    async def main() -> None:
        await asyncio.gather(*(threads.run(work) for _ in range(9)))

    asyncio.run(main())
    threads.close()
    assert most == 3


def test_cancelled_before_it_began_it_never_begins() -> None:
    threads = ThreadPool("t", 1)
    release = threading.Event()
    began: list[str] = []

    async def main() -> None:
        first = asyncio.ensure_future(threads.run(release.wait))
        second = asyncio.ensure_future(threads.run(lambda: began.append("second")))
        await asyncio.sleep(0)
        second.cancel()
        await asyncio.gather(second, return_exceptions=True)
        release.set()
        await first

    asyncio.run(main())
    threads.close()
    assert began == []


def test_an_answer_for_a_loop_that_is_gone_is_dropped() -> None:
    threads = ThreadPool("t", 1)
    began, release, done = threading.Event(), threading.Event(), threading.Event()

    def work() -> None:
        began.set()
        release.wait(SECONDS)
        done.set()

    async def leave() -> None:
        waiting = asyncio.ensure_future(threads.run(work))
        await asyncio.to_thread(began.wait)
        waiting.cancel()

    asyncio.run(leave())
    release.set()
    threads.close()
    assert done.is_set()


def test_an_idle_thread_keeps_no_answer_alive() -> None:
    class Answer:
        pass

    threads = ThreadPool("t", 1)

    async def main() -> weakref.ref[Answer]:
        return weakref.ref(await threads.run(Answer))

    answer = asyncio.run(main())
    asyncio.run(threads.run(lambda: None))
    gc.collect()
    assert answer() is None
    threads.close()


def test_what_comes_after_the_end_is_refused_not_forgotten() -> None:
    threads = ThreadPool("t", 1)

    async def main() -> None:
        began, release = threading.Event(), threading.Event()
        first = asyncio.ensure_future(threads.run(lambda: (began.set(), release.wait(SECONDS))))
        second = asyncio.ensure_future(threads.run(lambda: "waited in line"))
        await asyncio.to_thread(began.wait, SECONDS)
        closing = asyncio.ensure_future(asyncio.to_thread(threads.close))
        while not threads._is_closed:  # noqa: ASYNC110 - it is set on another thread
            await asyncio.sleep(0)
        with pytest.raises(ProviderUnavailable):
            await asyncio.wait_for(threads.run(lambda: "too late"), SECONDS)
        release.set()
        assert await asyncio.wait_for(second, SECONDS) == "waited in line"
        await asyncio.wait_for(asyncio.gather(first, closing), SECONDS)

    asyncio.run(main())
