"""Standard input and output line by line: one message a line.

Threads read and write: neither end can be awaited where it is a plain file, and both may block.
"""

from __future__ import annotations

import asyncio
import os
import queue
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from typing import BinaryIO

from wap_kernel.model.limits import MAX_BODY_BYTES, MCP_MAX_QUEUED_MESSAGES

STANDARD_INPUT = 0
STANDARD_OUTPUT = 1
STALL_SECONDS = 5.0
"""Seconds after which a reader that reads nothing counts as gone, once there is nothing more to come."""
_PIECE = 64 * 1024
"""Bytes that are written at once, so that it is known whether the reader reads."""
_END = b""


@contextmanager
def claim_stdin() -> Iterator[BinaryIO]:
    """Take standard input away from every other reader: a command that reads it finds it empty."""
    own, nothing = os.dup(STANDARD_INPUT), os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, STANDARD_INPUT, inheritable=True)
    os.close(nothing)
    try:
        # Not closed: a thread may still wait for a line.
        yield os.fdopen(own, "rb", closefd=False)
    finally:
        os.dup2(own, STANDARD_INPUT, inheritable=True)


def read_lines(file: BinaryIO) -> Iterator[bytes]:
    """Yield the lines that are not blank; of one that is too long, its beginning, which is no message."""
    while line := file.readline(MAX_BODY_BYTES + 1):
        rest = line
        while len(rest) > MAX_BODY_BYTES and not rest.endswith(b"\n"):
            rest = file.readline(MAX_BODY_BYTES + 1)
        if not line.isspace():
            yield line


async def follow_lines(file: BinaryIO) -> AsyncIterator[bytes]:
    """Yield the lines of `file` as they arrive; the next one is read when the one before has been taken."""
    loop = asyncio.get_running_loop()
    lines: asyncio.Queue[bytes] = asyncio.Queue(1)

    def put(line: bytes) -> bool:
        try:
            asyncio.run_coroutine_threadsafe(lines.put(line), loop).result()
        except RuntimeError:  # the loop is closed
            return False
        return True

    def read() -> None:
        for line in read_lines(file):
            if not put(line):
                return
        put(_END)

    # A daemon: nothing interrupts a thread that waits for a line, and the process must be able to end.
    threading.Thread(target=read, name="wap-stdin", daemon=True).start()
    while line := await lines.get():
        yield line


class LineWriter:
    """Standard output. A thread writes; messages that may be dropped are dropped when the reader does not read."""

    def __init__(self, on_failure: Callable[[], object] = lambda: None) -> None:
        self._lines: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._on_failure = on_failure
        self._written = 0
        self._thread = threading.Thread(target=self._write, name="wap-stdout", daemon=True)
        self._thread.start()

    def write(self, message: bytes, *, is_optional: bool = False) -> None:
        if not is_optional or self._lines.qsize() < MCP_MAX_QUEUED_MESSAGES:
            self._lines.put(message + b"\n")

    def close(self) -> None:
        """Write what is left, as long as the reader reads: one that does not must not keep the process from ending."""
        self._lines.put(_END)
        written = -1
        while self._thread.is_alive() and self._written != written:
            written = self._written
            self._thread.join(STALL_SECONDS)

    def _write(self) -> None:
        while line := self._lines.get():
            view = memoryview(line)
            try:
                while view:
                    count = os.write(STANDARD_OUTPUT, view[:_PIECE])
                    self._written += count
                    view = view[count:]
            except OSError:  # the reader is gone
                self._on_failure()
                return
