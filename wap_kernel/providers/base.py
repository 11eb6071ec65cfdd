"""What a provider is: files, and commands that run beside them.

local, bubblewrap and gvisor share the notebook's filesystem and differ in how a command is confined; others bring a
filesystem of their own. The engine sees this interface and nothing else of them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal, Protocol

from wap_kernel.files.primitives import Files

Stream = Literal["stdout", "stderr"]
OnChunk = Callable[[Stream, bytes], None]
"""Receives output as it comes, on the thread that runs the command. Bytes: a character may be cut in two."""


@dataclass(frozen=True)
class Command:
    """A command line and how it shall run."""

    command: str
    timeout: float
    """Seconds."""
    output_limit: int
    """Bytes of text, for both streams together."""
    cwd: str = "."
    """A folder, relative to the root."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """The caller's own variables; the provider decides what they are added to."""


@dataclass(frozen=True)
class Outcome:
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


class Cancel:
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


class Provider(Protocol):
    """A place where operations happen."""

    @property
    def name(self) -> str: ...
    @property
    def confines(self) -> bool:
        """Whether a command sees and changes nothing but the workspace."""

    @property
    def files(self) -> Files: ...
    def run(self, command: Command, *, on_chunk: OnChunk | None = None, cancel: Cancel | None = None) -> Outcome:
        """Run to the end, on the calling thread. Afterwards nothing that the command started is left.

        Raises ExecutionFailed when it cannot be started, and a refusal for its folder or its variables.
        """

    def close(self) -> None:
        """End the commands that run, wait for their end, and refuse new ones."""
