"""Stream the output of a command to an event loop while the command runs.

A slow reader never slows the command: chunks that it has not taken are buffered up to a limit, and beyond that left
out, which the next chunk says. The outcome at the end is complete in any case.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from wap_kernel.model.command import CancelToken, OnChunk, Stream

T = TypeVar("T")

MAX_BUFFERED_BYTES = 4 * 1024 * 1024
"""Bytes that wait for the reader, at most."""


@dataclass(frozen=True)
class Chunk:
    """A piece of a command's output."""

    stream: Stream
    data: bytes
    """A character may be cut in two."""
    left_out: int = 0
    """Bytes of this stream that are missing before `data`."""


async def stream_output(
    run: Callable[[OnChunk, CancelToken], Awaitable[T]], *, limit: int = MAX_BUFFERED_BYTES
) -> AsyncGenerator[Chunk | T, None]:
    """Yield chunks as they come, and at last the result of `run`. Leaving the loop early cancels the command."""
    cancel = CancelToken()
    loop = asyncio.get_running_loop()
    changed = asyncio.Event()
    buffer = _ChunkBuffer(limit, lambda: loop.call_soon_threadsafe(changed.set))
    running = asyncio.ensure_future(run(buffer.add, cancel))
    running.add_done_callback(lambda _: changed.set())
    try:
        has_ended = False
        while not has_ended:
            await changed.wait()
            changed.clear()
            has_ended = running.done()  # read first, so that no chunk can follow those that are taken now
            for chunk in buffer.take(last=has_ended):
                yield chunk
        yield running.result()
    finally:
        if not running.done():
            cancel.request()
            # The caller has left and reads no failure; if it was cancelled, it may not even wait here.
            running.add_done_callback(lambda task: task.cancelled() or task.exception())
            await asyncio.wait([running])


class _ChunkBuffer:
    """The chunks between the thread that runs the command and the event loop."""

    def __init__(self, limit: int, notify: Callable[[], object]) -> None:
        self._limit = limit
        self._notify = notify
        self._lock = threading.Lock()
        self._chunks: deque[Chunk] = deque()
        self._size = 0
        self._left_out: dict[Stream, int] = {"stdout": 0, "stderr": 0}

    def add(self, stream: Stream, data: bytes) -> None:
        with self._lock:
            was_empty = not self._chunks
            if self._size + len(data) > self._limit:
                self._left_out[stream] += len(data)
                return
            self._size += len(data)
            self._chunks.append(Chunk(stream, data, self._left_out[stream]))
            self._left_out[stream] = 0
        if was_empty:
            self._notify()

    def take(self, *, last: bool) -> list[Chunk]:
        with self._lock:
            taken = list(self._chunks)
            self._chunks.clear()
            self._size = 0
            if last:
                taken += [Chunk(stream, b"", count) for stream, count in self._left_out.items() if count]
        return taken
