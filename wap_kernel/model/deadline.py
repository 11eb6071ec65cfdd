"""Deadline: when a listing or a search has to end, because its time is up or because nobody waits for it any more."""

from __future__ import annotations

import time
from collections.abc import Callable

from wap_kernel.model.errors import ProviderUnavailable, TimedOut


class OperationCancelled(ProviderUnavailable):
    """Nobody waits for it any more. Whoever checks a deadline has changed nothing yet."""


class Deadline:
    """`seconds` from now, or as soon as `is_cancelled` says so. Whoever works calls `check` often."""

    def __init__(self, seconds: float, is_cancelled: Callable[[], bool] | None = None) -> None:
        self._seconds = seconds
        self._end = time.monotonic() + seconds
        self._is_cancelled = is_cancelled

    @property
    def remaining(self) -> float:
        return max(0.0, self._end - time.monotonic())

    def check(self) -> None:
        """Raise when there is no time left, or no need to go on."""
        if self._is_cancelled is not None and self._is_cancelled():
            raise OperationCancelled("The operation was stopped.", hint="Try again.")
        if time.monotonic() >= self._end:
            raise TimedOut(
                f"The operation took longer than {self._seconds:g} s.",
                hint="Do it in a smaller folder, or exclude some.",
            )
