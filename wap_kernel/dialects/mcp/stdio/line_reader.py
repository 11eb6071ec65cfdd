"""Standard input and output for the SDK, line by line, with an answer to every line that is no message.

The SDK's own reader takes bytes that are no UTF-8 for others, and drops what it cannot read: whoever asked would wait
for ever.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from io import TextIOWrapper
from types import TracebackType
from typing import TYPE_CHECKING, BinaryIO

import anyio
from mcp.server.stdio import stdio_server
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCError

from wap_kernel.dialects.mcp import sdk_errors

if TYPE_CHECKING:
    from contextvars import Context

    from mcp.shared._context_streams import ContextReceiveStream, ContextSendStream
    from mcp.shared._stream_protocols import ReadStream, WriteStream

STANDARD_INPUT = 0
Item = SessionMessage | Exception


@asynccontextmanager
async def spoken() -> AsyncIterator[tuple[ReadStream[Item], WriteStream[SessionMessage]]]:
    """What the client says, and where it is answered."""
    with _taken() as standard_input:
        lines = _Lines(standard_input)
        async with stdio_server(stdin=anyio.wrap_file(lines)) as (read, write):
            told = _Told(write)
            yield _Heard(read, told, lines.unread), told


@contextmanager
def _taken() -> Iterator[BinaryIO]:
    """Standard input, for nobody else: a command that reads finds nothing."""
    own, nothing = os.dup(STANDARD_INPUT), os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, STANDARD_INPUT, inheritable=True)
    os.close(nothing)
    try:
        # Not closed: a thread may still wait for a line of it.
        yield os.fdopen(own, "rb", closefd=False)
    finally:
        os.dup2(own, STANDARD_INPUT, inheritable=True)


class _Lines(TextIOWrapper):
    """Lines with something on them. Of each the SDK makes one item, in this order, so the first of those `unread` is
    the one that the next item was made of."""

    def __init__(self, file: BinaryIO) -> None:
        # What is no UTF-8 becomes what is no Unicode, which the SDK refuses.
        super().__init__(file, encoding="utf-8", errors="surrogateescape", newline="\n")
        self.unread: deque[str] = deque()

    def readline(self, size: int = -1, /) -> str:  # type: ignore[override]  # as io.TextIOWrapper has it in fact
        line = super().readline(size)
        while line.isspace():
            line = super().readline(size)
        if line:
            self.unread.append(line)
        return line

    def close(self) -> None:
        """Nobody's but the process's."""


class _Told:
    """What goes to the client."""

    def __init__(self, stream: ContextSendStream[SessionMessage]) -> None:
        self._stream = stream

    async def send(self, item: SessionMessage, /) -> None:
        message = item.message
        if isinstance(message, JSONRPCError):
            item = SessionMessage(message.model_copy(update={"error": sdk_errors.told(message.error)}), item.metadata)
        await self._stream.send(item)

    async def aclose(self) -> None:
        await self._stream.aclose()

    async def __aenter__(self) -> _Told:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


class _Heard:
    """What the client said, as far as it is a message."""

    def __init__(self, stream: ContextReceiveStream[Item], told: _Told, unread: deque[str]) -> None:
        self._stream = stream
        self._told = told
        self._unread = unread

    @property
    def last_context(self) -> Context | None:
        return self._stream.last_context

    async def receive(self) -> Item:
        while True:
            item = await self._stream.receive()
            line = self._unread.popleft()
            if isinstance(item, SessionMessage):
                return item
            refusal, is_answer = sdk_errors.of_line(line)
            if is_answer and refusal.id is not None:
                return SessionMessage(refusal)  # whoever waits for it learns that it is none
            await self._told.send(SessionMessage(refusal))

    async def aclose(self) -> None:
        await self._stream.aclose()

    def __aiter__(self) -> _Heard:
        return self

    async def __anext__(self) -> Item:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    async def __aenter__(self) -> _Heard:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()
