"""How much an agent token may do: operations at once, commands a minute, bytes written a day.

The first two are counted in memory, since a restart ends every operation anyway. The bytes of a day are kept in the
state folder: they survive a restart, and servers that share the folder share the count. What counts is the content that
requests bring; what a command writes is for the sandbox to bound.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from datetime import datetime, timedelta, timezone
from typing import Protocol

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from wap_kernel.model.errors import RateLimited, WapError
from wap_kernel.model.operations import GitAction, Operation, RunCommand

WINDOW = 60.0
"""Seconds of the window in which commands are counted."""
_LARGEST = 2**53 - 1  # what every JSON reader keeps exact


class RateLimits(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, alias_generator=to_camel, populate_by_name=True)

    concurrent_operations: int = Field(8, ge=1, le=_LARGEST, description="Operations under way at once.")
    commands_per_minute: int = Field(60, ge=0, le=_LARGEST, description="Commands begun within any 60 seconds.")
    bytes_written_per_day: int = Field(
        1024**3, ge=0, le=_LARGEST, description="Bytes of content written within a day of UTC."
    )


class Limited(Protocol):
    """Who is counted."""

    @property
    def id(self) -> str: ...
    @property
    def limits(self) -> RateLimits: ...


class Ledger(Protocol):
    """Where the bytes of a day are kept."""

    async def charge(self, token: str, day: str, amount: int, limit: int) -> bool:
        """Add `amount`, unless the day's sum would then be over `limit`; whether it was added."""


class _Usage:
    def __init__(self) -> None:
        self.underway = 0
        self.commands: deque[float] = deque()


class Rates:
    def __init__(
        self,
        ledger: Ledger,
        *,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], datetime] = lambda: datetime.now(timezone.utc),
    ) -> None:
        self._ledger = ledger
        self._clock = clock
        self._now = now
        self._usage: dict[str, _Usage] = {}

    @asynccontextmanager
    async def admit(self, token: Limited, operation: Operation) -> AsyncIterator[None]:
        """Around an operation of an agent; raises RateLimited instead of letting it begin.

        What was refused counts for nothing, so that an agent which keeps asking is served as soon as one that waits.
        """
        usage = self._usage.setdefault(token.id, _Usage())
        # Nothing is awaited between the questions and the counting, so two requests cannot both take the last place.
        if usage.underway >= token.limits.concurrent_operations:
            raise _limited("concurrentOperations", token.limits.concurrent_operations, "operations at once", 1.0)
        if isinstance(operation, RunCommand | GitAction):
            self._count_command(usage, token.limits.commands_per_minute)
        usage.underway += 1
        try:
            async with self._paid(token, operation):
                yield
        finally:
            usage.underway -= 1

    def _count_command(self, usage: _Usage, limit: int) -> None:
        now = self._clock()
        while usage.commands and usage.commands[0] <= now - WINDOW:
            usage.commands.popleft()
        if len(usage.commands) >= limit:
            free_in = usage.commands[0] + WINDOW - now if usage.commands else WINDOW
            raise _limited("commandsPerMinute", limit, "commands a minute", free_in)
        usage.commands.append(now)

    @asynccontextmanager
    async def _paid(self, token: Limited, operation: Operation) -> AsyncIterator[None]:
        """Charged before it is written, or many writers at once would pass the limit together."""
        amount = operation.content_size
        if not amount:
            yield
            return
        now = self._now()
        day, limit = now.date().isoformat(), token.limits.bytes_written_per_day
        if not await self._ledger.charge(token.id, day, amount, limit):
            raise _limited("bytesWrittenPerDay", limit, "bytes written a day", _until_midnight(now))
        try:
            yield
        except WapError:
            # Nothing was written. A caller who went away (CancelledError) may have had the write done all the same.
            with suppress(WapError):
                await self._ledger.charge(token.id, day, -amount, limit)
            raise


def _until_midnight(now: datetime) -> float:
    tomorrow = datetime.combine(now.date() + timedelta(days=1), datetime.min.time(), timezone.utc)
    return (tomorrow - now).total_seconds()


def _limited(name: str, limit: int, of_what: str, seconds: float) -> RateLimited:
    return RateLimited(
        f"This agent token is limited to {limit} {of_what}.",
        hint="Try again later, or have a person mint a token with other limits.",
        limit=name,
        retryAfterMs=max(1, round(seconds * 1000)),
    )
