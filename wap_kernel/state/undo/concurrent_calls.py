"""Single calls beside commands. What a command changed is found by looking, so a call that changes files meanwhile has
to be recorded, or undoing the command would take back what the call did. Where no command is under way, in any process
on the workspace, a call leaves no record: it only keeps commands from beginning until it is over.

Both are told by locks, which the kernel gives back at any death.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager

from wap_kernel.model.deadline import Deadline
from wap_kernel.state.directory import open_lock
from wap_kernel.state.file_lock import lock_within, try_lock

PATIENCE = 15.0
"""Seconds that a command waits for the calls that began before it; what takes longer counts as the command's."""
_POLL = 0.1
"""Seconds until it is looked whether the command is still wanted."""


class Beside:
    def __init__(self, state_dir: str) -> None:
        self._commands = os.path.join(state_dir, "locks", "commands")
        """Shared by all that are under way."""
        self._calls = os.path.join(state_dir, "locks", "calls")
        """Shared by those that are not recorded."""
        self._recorded = os.path.join(state_dir, "locks", "recorded")
        """And by those that are."""

    @contextmanager
    def command(self, deadline: Deadline) -> Iterator[None]:
        """Around a command and the looks before and after it. Whoever calls from now on finds it, so only those are
        waited for who have not."""
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
        """A descriptor: no command begins until it is closed. None: one is under way, or about to be."""
        descriptor = open_lock(self._calls)
        is_held = False
        try:
            is_held = try_lock(descriptor, shared=True) and not self.is_command_under_way()
        finally:
            if not is_held:
                os.close(descriptor)
        return descriptor if is_held else None

    def recording(self) -> int:
        """A descriptor: what is recorded beside commands is not forgotten until it is closed."""
        descriptor = open_lock(self._recorded)
        lock_within(descriptor, PATIENCE, shared=True)
        return descriptor

    def is_command_under_way(self) -> bool:
        with _alone(self._commands) as is_free:
            return not is_free

    @contextmanager
    def unless_a_command(self) -> Iterator[bool]:
        """Whether none is under way, and nothing is being recorded; neither begins inside then."""
        with _alone(self._commands) as no_command, _alone(self._recorded) as no_record:
            yield no_command and no_record


@contextmanager
def _alone(path: str) -> Iterator[bool]:
    descriptor = open_lock(path)
    try:
        yield try_lock(descriptor)
    finally:
        os.close(descriptor)
