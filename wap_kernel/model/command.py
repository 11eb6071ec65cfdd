"""A command, its confinement and its outcome; deadlines, and the token that cancels."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from wap_kernel.model.errors import ProviderUnavailable, TimedOut

Stream = Literal["stdout", "stderr"]
OnChunk = Callable[[Stream, bytes], None]
"""A callback that receives output as it comes, on the thread that runs the command.

It receives bytes because a chunk may end in the middle of a character.
"""


def no_check() -> None:
    """Raise nothing."""


class MountedLayer(Protocol):
    """The part of a Layer that a provider uses to run a command on it."""

    @property
    def files(self) -> Any:
        """Return the `Root` that the command sees."""

    @property
    def mount_options(self) -> Mapping[str, str]: ...
    @property
    def namespaces(self) -> tuple[int, int] | None:
        """Return descriptors of the namespaces that have the layer mounted already."""

    def await_tick(self) -> None:
        """Wait until later changes of the workspace can be told from earlier ones."""


@dataclass(frozen=True)
class Confinement:
    """The paths and the network that a command may use; a provider that does not confine ignores it.

    Paths are real paths relative to the root, and every one of them exists.
    """

    hidden: tuple[str, ...] = ()
    """Paths that the command sees empty: those that policy denies and those that are always protected."""
    read_only: tuple[str, ...] = ()
    pinned: tuple[str, ...] = ()
    """Paths that the command can write, but neither move nor remove: `.git`."""
    network: bool = False
    git_attributes: str | None = None
    """A file of the host from which git takes its attributes, see `policy/commands/git_attributes.py`."""
    layer: MountedLayer | None = None
    """The layer that receives what the command writes. None: the command writes into the workspace."""
    for_tool: bool = False
    """True where a rule opened the network for one tool: no module of the workspace may stand in for it."""


@dataclass(frozen=True)
class Command:
    """A command and how a provider runs it."""

    command: str | tuple[str, ...]
    """A line for the shell, or a program and its arguments that start without a shell."""
    timeout: float
    """Seconds."""
    output_limit: int
    """Bytes of text, for both streams together."""
    cwd: str = "."
    """The folder that the command starts in, relative to the root."""
    by_alias: bool = False
    """True if the command starts in that folder by its name below `/workspace`, in a sandbox that has one."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """The caller's own variables; the provider decides to which others they are added."""
    env_allowlist: frozenset[str] | None = None
    """The only variables that the command gets, from the server or the caller. None: no such list."""
    confinement: Confinement = Confinement()
    check: Callable[[], None] = no_check
    """A function that a provider with `checks_while_starting` calls meanwhile; no command runs if it raises."""
    on_start: Callable[[], None] = lambda: None
    """A function that a provider calls last before the command runs; the command does not run if it raises."""
    requested_timeout: float | None = None
    """The seconds that the caller asked for, where policy allows fewer. None: those of `timeout`."""


@dataclass(frozen=True)
class CommandOutcome:
    """The end of a command that was started. Failure, timeout and cancellation are outcomes, not errors."""

    stdout: str
    stderr: str
    stdout_bytes: int
    stderr_bytes: int
    stdout_truncated: bool
    stderr_truncated: bool
    exit_code: int
    """The exit code as shells report it: 128 + n when signal n ended the command."""
    duration: float
    """Seconds until the command itself ended."""
    timed_out: bool = False
    cancelled: bool = False
    overflowed: bool = False
    """True if the command was ended because it wrote more than its layer may hold."""


class CancelToken:
    """A request to cancel, made from any thread and never withdrawn."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._listeners: list[Callable[[], object]] = []
        self._requested = False
        self.grace: float | None = None
        """Seconds within which a command must have ended. None: as long as its provider grants."""

    @property
    def requested(self) -> bool:
        return self._requested

    def request(self, grace: float | None = None) -> None:
        with self._lock:
            if grace is not None and not self._requested:
                self.grace = grace
            self._requested = True
            for listener in self._listeners:
                listener()

    @contextmanager
    def on_request(self, listener: Callable[[], object]) -> Iterator[None]:
        """Call `listener` on a request within the block, at once if there was one before; it must not block."""
        with self._lock:
            self._listeners.append(listener)
            if self._requested:
                listener()
        try:
            yield
        finally:
            with self._lock:
                self._listeners.remove(listener)


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
