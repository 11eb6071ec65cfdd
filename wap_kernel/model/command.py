"""What the one who runs a command may pass besides it and gets back: a way to end it, its output live, its outcome."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

Stream = Literal["stdout", "stderr"]
OnChunk = Callable[[Stream, bytes], None]
"""Receives output as it comes, on the thread that runs the command. Bytes: a character may be cut in two."""


@dataclass(frozen=True)
class CommandOutcome:
    """What became of a command that was started. Failing, timing out and being cancelled are outcomes, not errors."""

    stdout: str
    stderr: str
    stdout_bytes: int
    stderr_bytes: int
    stdout_truncated: bool
    stderr_truncated: bool
    exit_code: int
    """128 + n when signal n ended it, as shells say."""
    duration: float
    """Seconds until the command itself ended."""
    timed_out: bool = False
    cancelled: bool = False


class CancelToken:
    """Asks for the end of whatever listens, from any thread. It cannot be taken back."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._listeners: list[Callable[[], None]] = []
        self._requested = False

    @property
    def requested(self) -> bool:
        return self._requested

    def request(self) -> None:
        with self._lock:
            self._requested = True
            for listener in self._listeners:
                listener()

    @contextmanager
    def calling(self, listener: Callable[[], None]) -> Iterator[None]:
        """Within the block, `listener` is called on a request, at once if there was one. It must not block."""
        with self._lock:
            self._listeners.append(listener)
            if self._requested:
                listener()
        try:
            yield
        finally:
            with self._lock:
                self._listeners.remove(listener)
