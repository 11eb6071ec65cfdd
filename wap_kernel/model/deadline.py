"""The deadline of a listing, a search or an edit, which a cancelled call ends early."""

from __future__ import annotations

import time
from collections.abc import Callable

from wap_kernel.model.errors import ProviderUnavailable, TimedOut


class OperationCancelled(ProviderUnavailable):
    """The caller no longer waits for the operation, which has changed nothing yet."""


class Deadline:
    """A point in time after which `check` raises; `is_cancelled` brings it forward."""

    def __init__(self, seconds: float, is_cancelled: Callable[[], bool] | None = None) -> None:
        self._seconds = seconds
        self._end = time.monotonic() + seconds
        self._is_cancelled = is_cancelled

    @property
    def remaining(self) -> float:
        return max(0.0, self._end - time.monotonic())

    def check(self) -> None:
        """Raise TimedOut after the deadline, OperationCancelled after a cancellation."""
        if self._is_cancelled is not None and self._is_cancelled():
            raise OperationCancelled("The operation was stopped.", hint="Try again.")
        if time.monotonic() >= self._end:
            raise TimedOut(
                f"The operation took longer than {self._seconds:g} s.",
                hint="Do it in a smaller folder, or exclude some.",
            )
