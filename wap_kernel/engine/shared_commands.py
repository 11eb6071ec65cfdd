"""Run commands that write into the workspace directly: servers, watchers, long training, and providers without layers.

What such a command changes cannot be judged before and is not undone. The paths that policy closes are masked; files
that the command creates at protected paths are moved away at once (see `protected_watch.py`), and repositories of git
that it makes are cleaned (see `repository_watch.py`). The command ends where it fills the disk.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import TypeVar

from wap_kernel.engine.command_outcome import Suggest, build_command, build_result, raise_unless_ended
from wap_kernel.engine.permit import WALK_SECONDS, Permit
from wap_kernel.engine.watch.disk_watch import watch_free_space
from wap_kernel.engine.watch.protected_watch import Moved, ProtectedWatch
from wap_kernel.engine.watch.repository_watch import RepositoryFindings, RepositoryWatch
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

    def __init__(
        self, provider: Provider, root: str, watch: ProtectedWatch, repositories: RepositoryWatch, suggest: Suggest
    ) -> None:
        self._provider = provider
        self._root = root
        self._watch = watch
        self._repositories = repositories
        self._suggest = suggest

    def run(
        self, operation: RunCommand, permit: Permit, cancel: CancelToken, on_chunk: OnChunk | None
    ) -> CommandResult:
        """Run a command in the workspace itself."""
        command = build_command(operation, permit)
        outcome = self._run_command(command, permit, cancel, on_chunk)
        result = build_result(outcome, command, self._suggest, is_shared=True)
        raise_unless_ended(outcome, result, command, permit.limits, applied=True)
        return result

    def act(self, permit: Permit, cancel: CancelToken, act: Callable[[Confinement], T]) -> T:
        """Call `act`, which runs several commands, with what they may see."""
        masks = self._find_masks(permit, cancel)
        with self._watch.watching(masks.absent, masks.linked):
            return act(masks.confinement)

    def _run_command(
        self, command: Command, permit: Permit, cancel: CancelToken, on_chunk: OnChunk | None
    ) -> CommandOutcome:
        attempt = 1
        while True:
            masks = self._find_masks(permit, cancel)
            confined = replace(command, confinement=masks.confinement)
            try:
                with (
                    self._watch.watching(masks.absent, masks.linked) as moved,
                    self._watch_repositories(masks, permit) as found,
                    watch_free_space(self._root, cancel) as disk,
                ):
                    outcome = self._provider.run(confined, on_chunk=on_chunk, cancel=disk.cancel)
                if disk.has_overflowed:
                    outcome = replace(outcome, cancelled=False, overflowed=True)
                return _add_notes(outcome, [*moved, *found.moved], found.problem)
            except Conflict:  # a path to hide was moved between the walk and the start; nothing has run
                if attempt == SCANS:
                    raise
                attempt += 1

    def _watch_repositories(self, masks: Masks, permit: Permit) -> AbstractContextManager[RepositoryFindings]:
        if not self._provider.confines:  # the repositories that were there before are open to the command as well
            return nullcontext(RepositoryFindings())
        return self._repositories.watching(masks.repositories, permit.find_repositories)

    def _find_masks(self, permit: Permit, cancel: CancelToken) -> Masks:
        return permit.confine(permit.files, Deadline(WALK_SECONDS, lambda: cancel.requested))


def _add_notes(outcome: CommandOutcome, moved: Moved, problem: str | None) -> CommandOutcome:
    """Return the outcome with a note in stderr for every file that was moved away, and one for a search that failed."""
    lines = [_describe_moved(escape_one_line(render_path(old)), new) for old, new in moved]
    if problem is not None:
        lines.append(f"The search for new repositories of git after the command failed: {escape_one_line(problem)}")
    notes = "".join(f"wap: {line}\n" for line in lines)
    separator = "" if not outcome.stderr or outcome.stderr.endswith("\n") else "\n"
    return replace(outcome, stderr=f"{outcome.stderr}{separator}{notes}") if notes else outcome


def _describe_moved(path: str, new: str | None) -> str:
    if new is None:
        return f"{path} is protected; the link was put back"
    return f"{path} is protected; what was made there is now {escape_one_line(render_path(new))}"
