"""The history of a workspace's changes: the log, the store of before-images, and those who write them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Protocol

from wap_kernel.files.contained.root import Root
from wap_kernel.files.interface import Guard, Locks
from wap_kernel.model.changes import ChangeSet
from wap_kernel.state.changes.recorder import ChangeRecorder
from wap_kernel.state.database import Database


class Gate(Protocol):
    """The part of `SaveGate` that keeps a person's saves away from the last lstat and the rename."""

    def exclusive(self, *paths: str) -> AbstractContextManager[None]: ...


class ChangeHistory:
    """Opens the log and the store of one workspace. `root` is not guarded: the callers' guards are checked elsewhere.

    `step` is called after each step that a crash could follow; tests stop there.
    """

    def __init__(
        self,
        root: Root,
        database: Database,
        state_dir: str,
        locks: Locks,
        gate: Gate,
        *,
        step: Callable[[str], None] = lambda _: None,
    ) -> None:
        raise NotImplementedError

    def record(self, run: str, position: int) -> ChangeRecorder:
        """Return the recorder of one operation. `root.guarded_by(guard).recording(recorder)` are its files."""
        raise NotImplementedError

    def open_files(self, guard: Guard, run: str, position: int) -> Root:
        """Return the files of one operation, whose changes are recorded."""
        raise NotImplementedError

    def find_unkept(self, changes: ChangeSet) -> list[str]:
        """Return the paths whose before-images would exceed the limits; none where the store takes them by a rename."""
        raise NotImplementedError

    def recover(self, run: str) -> list[int]:
        """Complete or drop the unfinished changes of a run whose process died; return the positions of their steps.

        A ChangeSet whose application had begun is applied to its end, or not at all where the run is atomic and
        meets a conflict.
        """
        raise NotImplementedError
