"""Rate limits of agent tokens: concurrent operations and streams, commands a minute, bytes written a day.

All but the last are counted in memory, since a restart ends every operation and stream anyway. The bytes of a day are
counted in the state folder: they survive a restart, and servers that share the folder share the count. The content of
requests and the files that are copied count; the sandbox bounds what a command writes.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from datetime import datetime, timedelta, timezone
from typing import Annotated, Protocol

from pydantic import ConfigDict, Field

from wap_kernel.dialects.tool import INTEGER, Parameters
from wap_kernel.model.caller import Caller
from wap_kernel.model.errors import RateLimited, WapError
from wap_kernel.model.git.operations import GitAction
from wap_kernel.model.limits import MAX_STREAMS_PER_TOKEN
from wap_kernel.model.operations import CopyFile, Operation, RunCommand

COMMAND_WINDOW_SECONDS = 60.0
"""The window in which commands are counted."""
_LARGEST = 2**53 - 1  # what every JSON reader keeps exact


_Count = Annotated[int, Field(ge=0, le=_LARGEST), INTEGER]


class RateLimits(Parameters):
    model_config = ConfigDict(populate_by_name=True)

    concurrent_operations: Annotated[int, Field(ge=1, le=_LARGEST), INTEGER] = Field(
        8, description="Operations under way at once."
    )
    commands_per_minute: _Count = Field(60, description="Commands begun within any 60 seconds.")
    bytes_written_per_day: _Count = Field(1024**3, description="Bytes of content written within a day of UTC.")


class RateLimitedToken(Protocol):
    """A token whose operations are counted."""

    @property
    def id(self) -> str: ...
    @property
    def limits(self) -> RateLimits: ...
    def to_caller(self) -> Caller: ...


class DailyByteCounter(Protocol):
    """A store of the bytes that each token wrote on a day."""

    async def charge(self, token: str, day: str, amount: int, limit: int) -> bool:
        """Add `amount` unless the day's sum would pass `limit`; return whether it was added."""


MeasureCopy = Callable[[CopyFile, Caller], Awaitable[int]]
"""Returns the bytes that a copy would write."""


class _TokenUsage:
    def __init__(self) -> None:
        self.underway = 0
        self.streams = 0
        self.commands: deque[float] = deque()


class RateLimiter:
    """Admit the operations and streams of agent tokens within their rate limits.

    `admitted` is called with the id of the token of every operation that begins.
    """

    def __init__(
        self,
        counter: DailyByteCounter,
        measure_copy: MeasureCopy,
        *,
        admitted: Callable[[str], object] = lambda _: None,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], datetime] = lambda: datetime.now(timezone.utc),
    ) -> None:
        self._counter = counter
        self._measure_copy = measure_copy
        self._admitted = admitted
        self._clock = clock
        self._now = now
        self._usage: dict[str, _TokenUsage] = {}

    @asynccontextmanager
    async def admit(self, token: RateLimitedToken, operation: Operation) -> AsyncIterator[None]:
        """Count an operation of an agent while the block runs; raise RateLimited instead of entering it.

        A refused operation counts for nothing, so an agent that keeps trying is served as soon as one that waits.
        """
        usage = self._usage.setdefault(token.id, _TokenUsage())
        # Nothing is awaited between the checks and the counting, so two requests cannot both take the last slot.
        if usage.underway >= token.limits.concurrent_operations:
            raise _rate_limit_error(
                "concurrentOperations", token.limits.concurrent_operations, "operations at once", 1.0
            )
        if isinstance(operation, RunCommand | GitAction):
            self._count_command(usage, token.limits.commands_per_minute)
        usage.underway += 1
        self._admitted(token.id)
        try:
            async with self._charge_content(token, operation):
                yield
        finally:
            usage.underway -= 1

    def count_streams(self, token_id: str) -> int:
        """Return how many streams of the token are open."""
        return self._usage[token_id].streams if token_id in self._usage else 0

    @contextmanager
    def open_stream(self, token_id: str) -> Iterator[None]:
        """Count a stream while the block runs; raise RateLimited where the token has too many."""
        usage = self._usage.setdefault(token_id, _TokenUsage())
        if usage.streams >= MAX_STREAMS_PER_TOKEN:
            raise _rate_limit_error("openStreams", MAX_STREAMS_PER_TOKEN, "streams at once", 1.0)
        usage.streams += 1
        try:
            yield
        finally:
            usage.streams -= 1

    def _count_command(self, usage: _TokenUsage, limit: int) -> None:
        now = self._clock()
        while usage.commands and usage.commands[0] <= now - COMMAND_WINDOW_SECONDS:
            usage.commands.popleft()
        if len(usage.commands) >= limit:
            free_in = usage.commands[0] + COMMAND_WINDOW_SECONDS - now if usage.commands else COMMAND_WINDOW_SECONDS
            raise _rate_limit_error("commandsPerMinute", limit, "commands a minute", free_in)
        usage.commands.append(now)

    @asynccontextmanager
    async def _charge_content(self, token: RateLimitedToken, operation: Operation) -> AsyncIterator[None]:
        """Charge the bytes before they are written, or concurrent writers would pass the limit together."""
        amount = operation.content_size
        if isinstance(operation, CopyFile):
            amount = await self._measure_copy(operation, token.to_caller())
        if not amount:
            yield
            return
        now = self._now()
        day, limit = now.date().isoformat(), token.limits.bytes_written_per_day
        if not await self._counter.charge(token.id, day, amount, limit):
            raise _rate_limit_error("bytesWrittenPerDay", limit, "bytes written a day", _seconds_to_midnight(now))
        try:
            yield
        except WapError:
            # Nothing was written. After a CancelledError the write may have been done all the same.
            with suppress(WapError):
                await self._counter.charge(token.id, day, -amount, limit)
            raise


def _seconds_to_midnight(now: datetime) -> float:
    tomorrow = datetime.combine(now.date() + timedelta(days=1), datetime.min.time(), timezone.utc)
    return (tomorrow - now).total_seconds()


def _rate_limit_error(name: str, limit: int, counted: str, seconds: float) -> RateLimited:
    return RateLimited(
        f"This agent token is limited to {limit} {counted}.",
        hint="Try again later, or have a person mint a token with other limits.",
        limit=name,
        retryAfterMs=max(1, round(seconds * 1000)),
    )
