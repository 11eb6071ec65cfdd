"""Telling a client how a call gets on: the end of the output so far, now and then, and that it is still alive."""

from __future__ import annotations

import asyncio
import codecs
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

from wap_kernel.model.caller import Caller
from wap_kernel.model.safe_text import escape_invisible
from wap_kernel.runs.runner import Runner

Progress = Callable[[float, float | None, str], Awaitable[None]]
"""Seconds so far, of how many if that is known, and words."""

INTERVAL = 0.5
"""Seconds between two messages, so that a command that writes much does not flood its reader."""
SILENCE = 10.0
"""After so many seconds without output a message says no more than that it goes on; clients give up on silence."""
KEPT = 1_000
"""Characters of the output."""


WAITS = "The run goes on, or waits for a person in Jupyter."


class Tail:
    """The end of what was written, both streams as they came."""

    def __init__(self, silent: str) -> None:
        self.changed = asyncio.Event()
        self._text = ""
        self._silent = silent
        self._decoders: dict[str, codecs.IncrementalDecoder] = {}

    @property
    def text(self) -> str:
        return escape_invisible(self._text) or self._silent

    def add(self, text: str) -> None:
        self._text = (self._text + text)[-KEPT:]
        self.changed.set()

    def add_bytes(self, stream: str, data: bytes) -> None:
        """A character may be cut in two."""
        if stream not in self._decoders:
            self._decoders[stream] = codecs.getincrementaldecoder("utf-8")("replace")
        if text := self._decoders[stream].decode(data[-4 * KEPT :]):
            self.add(text)


@asynccontextmanager
async def telling(progress: Progress | None, silent: str) -> AsyncIterator[Tail]:
    """While inside, `progress` is told what is added. That it cannot be told does not end the work."""
    tail = Tail(silent)
    if progress is None:
        yield tail
        return
    task = asyncio.ensure_future(_tell(progress, tail))
    try:
        yield tail
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def _tell(progress: Progress, tail: Tail) -> None:
    began = time.monotonic()
    while True:
        with suppress(asyncio.TimeoutError):
            await asyncio.wait_for(tail.changed.wait(), SILENCE)
        tail.changed.clear()
        await progress(time.monotonic() - began, None, tail.text)
        await asyncio.sleep(INTERVAL)


@asynccontextmanager
async def following(runner: Runner, run_id: str, caller: Caller, progress: Progress | None) -> AsyncIterator[None]:
    """While inside, `progress` is told what a run writes."""
    if progress is None:
        yield
        return
    async with telling(progress, WAITS) as tail:
        task = asyncio.ensure_future(_follow(runner, run_id, caller, tail))
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def until_over(runner: Runner, run_id: str, caller: Caller, tail: Tail, seconds: float) -> None:
    """Until the run has ended, or for so many seconds."""
    with suppress(asyncio.TimeoutError):
        await asyncio.wait_for(_follow(runner, run_id, caller, tail), seconds)


async def _follow(runner: Runner, run_id: str, caller: Caller, tail: Tail) -> None:
    async for live in runner.follow(run_id, None, caller):
        if live.name == "output":
            tail.add(str(live.data["chunk"]))
