"""Run commands that write into the workspace directly: servers, watchers, long training, and providers without layers.

What such a command changes cannot be judged before and is not undone. The paths that policy closes are masked; files
that the command creates at protected paths are moved away at once (see `protected_watch.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from wap_kernel.engine.command_outcome import Suggest, build_command, build_result, raise_unless_ended
from wap_kernel.engine.permit import WALK_SECONDS, Permit
from wap_kernel.engine.protected_watch import ProtectedWatch
from wap_kernel.model.command import CancelToken, Command, CommandOutcome, Confinement, Deadline, OnChunk
from wap_kernel.model.errors import Conflict
from wap_kernel.model.operations import RunCommand
from wap_kernel.model.paths import render_path
from wap_kernel.model.results import CommandResult
from wap_kernel.model.text import escape_one_line
from wap_kernel.policy.paths.sandbox_masks import Masks
from wap_kernel.providers.base import Provider

SCANS = 3
"""Walks in search of what a command may not see, before it is given up."""
T = TypeVar("T")


class SharedCommands:
    """The commands of one workspace that share its files."""

    def __init__(self, provider: Provider, watch: ProtectedWatch, suggest: Suggest) -> None:
        self._provider = provider
        self._watch = watch
        self._suggest = suggest

    def run(
        self, operation: RunCommand, permit: Permit, cancel: CancelToken, on_chunk: OnChunk | None
    ) -> CommandResult:
        """Run a command in the workspace itself."""
        command = build_command(operation, permit)
        outcome = self._run_command(command, permit, cancel, on_chunk)
        result = build_result(outcome, self._suggest, is_shared=True)
        raise_unless_ended(outcome, result, command, permit.limits, applied=True)
        return result

    def act(self, permit: Permit, cancel: CancelToken, act: Callable[[Confinement], T]) -> T:
        """Call `act`, which runs several commands, with what they may see."""
        masks = self._find_masks(permit, cancel)
        with self._watch.watching(masks.absent):
            return act(masks.confinement)

    def _run_command(
        self, command: Command, permit: Permit, cancel: CancelToken, on_chunk: OnChunk | None
    ) -> CommandOutcome:
        attempt = 1
        while True:
            masks = self._find_masks(permit, cancel)
            confined = replace(command, confinement=masks.confinement)
            try:
                with self._watch.watching(masks.absent) as moved:
                    outcome = self._provider.run(confined, on_chunk=on_chunk, cancel=cancel)
                return _add_notes(outcome, moved)
            except Conflict:  # a path to hide was moved between the walk and the start; nothing has run
                if attempt == SCANS:
                    raise
                attempt += 1

    def _find_masks(self, permit: Permit, cancel: CancelToken) -> Masks:
        if not self._provider.confines:
            return Masks(Confinement())
        return permit.confine(permit.files, Deadline(WALK_SECONDS, lambda: cancel.requested))


def _add_notes(outcome: CommandOutcome, moved: list[tuple[str, str]]) -> CommandOutcome:
    """Return the outcome with a note in stderr for every file that was moved away."""
    notes = "".join(
        f"wap: {escape_one_line(render_path(old))} is protected; what was made there is now "
        f"{escape_one_line(render_path(new))}\n"
        for old, new in moved
    )
    separator = "" if not outcome.stderr or outcome.stderr.endswith("\n") else "\n"
    return replace(outcome, stderr=f"{outcome.stderr}{separator}{notes}") if notes else outcome
