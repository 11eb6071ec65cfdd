"""Standard input and output for the SDK, line by line, with an error for every line that is no message.

The SDK's own reader replaces bytes that are not UTF-8, and drops lines that it cannot parse: the client would wait for
ever.
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
async def open_stdio() -> AsyncIterator[tuple[ReadStream[Item], WriteStream[SessionMessage]]]:
    """Open standard input and output as streams of messages."""
    with _claim_stdin() as standard_input:
        lines = _LineReader(standard_input)
        async with stdio_server(stdin=anyio.wrap_file(lines)) as (read, write):
            writer = _ClientWriter(write)
            yield _ClientReader(read, writer, lines.unread), writer


@contextmanager
def _claim_stdin() -> Iterator[BinaryIO]:
    """Take standard input away from every other reader: a command that reads it finds it empty."""
    own, nothing = os.dup(STANDARD_INPUT), os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, STANDARD_INPUT, inheritable=True)
    os.close(nothing)
    try:
        # Not closed: a thread may still wait for a line.
        yield os.fdopen(own, "rb", closefd=False)
    finally:
        os.dup2(own, STANDARD_INPUT, inheritable=True)


class _LineReader(TextIOWrapper):
    """The lines that are not blank.

    The SDK makes one item of each, in this order, so the first line in `unread` belongs to the next item.
    """

    def __init__(self, file: BinaryIO) -> None:
        # Bytes that are not UTF-8 become surrogates, which the SDK refuses.
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
        """Leave standard input open: it belongs to the process."""


class _ClientWriter:
    """The messages to the client."""

    def __init__(self, stream: ContextSendStream[SessionMessage]) -> None:
        self._stream = stream

    async def send(self, item: SessionMessage, /) -> None:
        message = item.message
        if isinstance(message, JSONRPCError):
            item = SessionMessage(
                message.model_copy(update={"error": sdk_errors.explain_error(message.error)}), item.metadata
            )
        await self._stream.send(item)

    async def aclose(self) -> None:
        await self._stream.aclose()

    async def __aenter__(self) -> _ClientWriter:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


class _ClientReader:
    """The messages of the client; other lines are answered with an error."""

    def __init__(self, stream: ContextReceiveStream[Item], writer: _ClientWriter, unread: deque[str]) -> None:
        self._stream = stream
        self._writer = writer
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
            refusal, is_answer = sdk_errors.explain_line(line)
            if is_answer and refusal.id is not None:
                return SessionMessage(refusal)  # the server's request ends with this error
            await self._writer.send(SessionMessage(refusal))

    async def aclose(self) -> None:
        await self._stream.aclose()

    def __aiter__(self) -> _ClientReader:
        return self

    async def __anext__(self) -> Item:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    async def __aenter__(self) -> _ClientReader:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()
