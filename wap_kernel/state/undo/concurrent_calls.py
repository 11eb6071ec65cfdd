"""Coordinate single calls with commands.

The changes of a command are found by comparison, so a call that changes files meanwhile has to be recorded, or a revert
of the command would revert the call too. While no command runs, in any process on the workspace, a call leaves no
record: it only keeps commands from beginning until it ends.

Both use locks, which the kernel releases when a process dies.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager

from wap_kernel.model.command import Deadline
from wap_kernel.state.directory import open_lock
from wap_kernel.state.file_lock import lock_within, try_lock

PATIENCE = 15.0
"""Seconds that a command waits for the calls that began before it; what takes longer counts as the command's."""
_POLL = 0.1
"""Seconds between two checks of the command's deadline."""


class ConcurrentCalls:
    """The locks of commands and calls on one state folder."""

    def __init__(self, state_dir: str) -> None:
        self._commands = os.path.join(state_dir, "locks", "commands")
        """Lock that running commands share."""
        self._calls = os.path.join(state_dir, "locks", "calls")
        """Lock that unrecorded calls share."""
        self._recorded = os.path.join(state_dir, "locks", "recorded")
        """Lock that recorded calls share."""

    @contextmanager
    def command(self, deadline: Deadline) -> Iterator[None]:
        """Hold the lock of a command, around its manifests as well.

        Later calls see it, so only the calls that began before are waited for.
        """
        descriptor = open_lock(self._commands)
        try:
            lock_within(descriptor, PATIENCE, shared=True)
            self._wait_for_calls(deadline)
            yield
        finally:
            os.close(descriptor)

    def _wait_for_calls(self, deadline: Deadline) -> None:
        descriptor = open_lock(self._calls)
        try:
            until = time.monotonic() + PATIENCE
            while not lock_within(descriptor, _POLL) and time.monotonic() < until:
                deadline.check()
        finally:
            os.close(descriptor)

    def hold_off(self) -> int | None:
        """Return a descriptor until whose close no command begins; None if a command runs or is about to."""
        descriptor = open_lock(self._calls)
        has_lock = False
        try:
            has_lock = try_lock(descriptor, shared=True) and not self.is_command_under_way()
        finally:
            if not has_lock:
                os.close(descriptor)
        return descriptor if has_lock else None

    def recording(self) -> int:
        """Return a descriptor until whose close the records of calls stay."""
        descriptor = open_lock(self._recorded)
        lock_within(descriptor, PATIENCE, shared=True)
        return descriptor

    def is_command_under_way(self) -> bool:
        with _alone(self._commands) as is_free:
            return not is_free

    @contextmanager
    def unless_a_command(self) -> Iterator[bool]:
        """Yield whether no command and no recorded call runs; if so, none begins in the block."""
        with _alone(self._commands) as no_command, _alone(self._recorded) as no_record:
            yield no_command and no_record


@contextmanager
def _alone(path: str) -> Iterator[bool]:
    descriptor = open_lock(path)
    try:
        yield try_lock(descriptor)
    finally:
        os.close(descriptor)
