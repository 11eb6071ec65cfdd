"""Run a workspace and its runner on an event loop in one daemon thread, for callers without a loop.

The kernel of a notebook has a loop, but a cell must not wait on it: the kernel's own messages go through it.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor, TimeoutError
from contextlib import suppress
from typing import Any, Generic, TypeVar

from wap_kernel.client.background import run_in_thread, wait_for_result
from wap_kernel.dialects.registry import open_runner
from wap_kernel.engine.jupyter_config import read_settings
from wap_kernel.engine.open_workspace import open_workspace
from wap_kernel.model.errors import ProviderUnavailable

CLOSE_SECONDS = 15.0
"""Seconds to wait for runs to end; a command has 5 to end by itself."""
T = TypeVar("T")


class EngineThread:
    """A workspace and its runner, and the thread that serves them."""

    def __init__(self, folder: str, *, confined_only: bool) -> None:
        log = logging.getLogger(__name__)
        log.setLevel(
            logging.ERROR
        )  # a cell shows what is logged; the overview says already that nothing confines commands
        self.workspace = open_workspace(folder, read_settings(), confined_only=confined_only, log=log)
        self.runner = open_runner(self.workspace)
        self._loop = asyncio.new_event_loop()
        self._loop.set_default_executor(_Executor())
        self._thread = threading.Thread(target=self._serve, name="wap-engine", daemon=True)
        self._thread.start()

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """Run `work` on the loop and return its result; an interrupt is raised immediately and cancels the work."""
        if self._loop.is_closed() or not self._thread.is_alive():
            work.close()
            raise ProviderUnavailable("The workspace is closed.", hint="Connect again.")
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return wait_for_result(future)
        finally:
            future.cancel()

    def close(self) -> None:
        """End the runs and the thread, without hanging: the next start recovers runs that do not end in time."""
        if not self._thread.is_alive() or self._loop.is_closed():  # closed already, or a copy in a forked process
            return
        finishing = asyncio.run_coroutine_threadsafe(self._finish(), self._loop)
        if threading.current_thread() is not self._thread:  # the garbage collector may call this in the thread itself
            with suppress(TimeoutError):
                finishing.result(CLOSE_SECONDS)
            self._thread.join(1)

    async def _finish(self) -> None:
        try:
            await self.runner.close()
            await self.workspace.close()
        finally:
            self._loop.stop()

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
            tasks = asyncio.all_tasks(self._loop)
            for task in tasks:
                task.cancel()
            self._loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        finally:
            self._loop.close()


class AsyncPuller(Generic[T]):
    """An async generator that gives one item at a time and may be closed while an item is awaited."""

    def __init__(self, items: AsyncGenerator[T, None]) -> None:
        self._items = items
        self._upcoming: asyncio.Task[T | None] | None = None

    async def next(self, seconds: float | None) -> T | None:
        """Return the next item, or None where there are no more or none came within `seconds`."""
        self._upcoming = asyncio.ensure_future(self._next())
        await asyncio.wait({self._upcoming}, timeout=seconds)
        return self._upcoming.result() if self._upcoming.done() else None

    async def close(self) -> None:
        if self._upcoming is not None:
            self._upcoming.cancel()
            await asyncio.wait({self._upcoming})
        await self._items.aclose()

    async def _next(self) -> T | None:
        return await anext(self._items, None)


class _Executor(ThreadPoolExecutor):
    """An executor with a thread for each piece of work.

    Python's own takes no more work once the interpreter is ending, which is when a workspace is closed.
    """

    def submit(self, work: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        return run_in_thread(lambda: work(*args, **kwargs), "wap-engine-work")
