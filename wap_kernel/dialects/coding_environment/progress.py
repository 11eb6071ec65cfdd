"""Report the progress of a call to the client: the end of the output so far, and heartbeats."""

from __future__ import annotations

import asyncio
import codecs
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

from wap_kernel.model.caller import Caller
from wap_kernel.model.text import escape_invisible
from wap_kernel.runs.runner import Runner

Progress = Callable[[float, float | None, str], Awaitable[None]]
"""Send a progress message: seconds so far, seconds in all if known, and text."""

INTERVAL_SECONDS = 0.5
"""The pause between two messages, so that a command that writes much does not flood the client."""
HEARTBEAT_SECONDS = 10.0
"""The silence after which a message is repeated; clients give up on a silent server."""
MAX_TAIL_CHARACTERS = 1_000
"""Characters of the output that a message shows."""
RUN_CONTINUES = "The run goes on, or waits for a person in Jupyter."


class OutputTail:
    """The end of a command's output, both streams interleaved as they arrived."""

    def __init__(self, silent: str) -> None:
        self.changed = asyncio.Event()
        self._text = ""
        self._silent = silent
        self._decoders: dict[str, codecs.IncrementalDecoder] = {}

    @property
    def text(self) -> str:
        return escape_invisible(self._text) or self._silent

    def add(self, text: str) -> None:
        self._text = (self._text + text)[-MAX_TAIL_CHARACTERS:]
        self.changed.set()

    def add_bytes(self, stream: str, data: bytes) -> None:
        """Add bytes of one stream; a chunk may end within a character."""
        if stream not in self._decoders:
            self._decoders[stream] = codecs.getincrementaldecoder("utf-8")("replace")
        if text := self._decoders[stream].decode(data[-4 * MAX_TAIL_CHARACTERS :]):
            self.add(text)


@asynccontextmanager
async def report_output(progress: Progress | None, silent: str) -> AsyncIterator[OutputTail]:
    """Report what is added to the tail while the block runs; a failing report does not end the work."""
    tail = OutputTail(silent)
    if progress is None:
        yield tail
        return
    task = asyncio.ensure_future(_report(progress, tail))
    try:
        yield tail
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def _report(progress: Progress, tail: OutputTail) -> None:
    started = time.monotonic()
    while True:
        with suppress(asyncio.TimeoutError):
            await asyncio.wait_for(tail.changed.wait(), HEARTBEAT_SECONDS)
        tail.changed.clear()
        await progress(time.monotonic() - started, None, tail.text)
        await asyncio.sleep(INTERVAL_SECONDS)


@asynccontextmanager
async def report_run(runner: Runner, run_id: str, caller: Caller, progress: Progress | None) -> AsyncIterator[None]:
    """Report the output of a run while the block runs."""
    if progress is None:
        yield
        return
    async with report_output(progress, RUN_CONTINUES) as tail:
        task = asyncio.ensure_future(_follow(runner, run_id, caller, tail))
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def follow_until_end(runner: Runner, run_id: str, caller: Caller, tail: OutputTail, seconds: float) -> None:
    """Collect the output of a run until it ends, for at most `seconds`."""
    with suppress(asyncio.TimeoutError):
        await asyncio.wait_for(_follow(runner, run_id, caller, tail), seconds)


async def _follow(runner: Runner, run_id: str, caller: Caller, tail: OutputTail) -> None:
    async for event in runner.stream_events(run_id, None, caller):
        if event.name == "output":
            tail.add(str(event.data["chunk"]))
