"""Deadline: the time by which a search has to be done."""

from __future__ import annotations

import time

from wap_kernel.errors import TimedOut


class Deadline:
    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._end = time.monotonic() + seconds

    @property
    def remaining(self) -> float:
        return max(0.0, self._end - time.monotonic())

    def check(self) -> None:
        """Raise TimedOut when the time is up."""
        if time.monotonic() >= self._end:
            raise self.passed()

    def passed(self) -> TimedOut:
        return TimedOut(
            f"The search took longer than {self._seconds:g} s.", hint="Search in a smaller folder, or exclude some."
        )
