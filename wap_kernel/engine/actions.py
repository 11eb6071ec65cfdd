"""Perform each kind of operation, once the pipeline has decided that it may be performed.

Runs on the workspace's threads.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from wap_kernel.files.interface import Files, Guard, Locks
from wap_kernel.files.list_folder import list_files
from wap_kernel.files.notebooks.read import read_notebook
from wap_kernel.files.read import read_file, view_file
from wap_kernel.files.search.searcher import Searcher
from wap_kernel.files.write import Writer
from wap_kernel.git.client import GitClient
from wap_kernel.git.remote.preview import TransferPreview
from wap_kernel.model.caller import NO_RUN, CallContext
from wap_kernel.model.command import CancelToken, Command, CommandOutcome, Confinement, Deadline, OnChunk
from wap_kernel.model.errors import PARTIAL_EFFECT_HINT, Conflict, ExecutionFailed, TimedOut
from wap_kernel.model.git.operations import GitAction, GitTransfer
from wap_kernel.model.hints import longer_timeout
from wap_kernel.model.limits import DEFAULT_EXCLUSIONS
from wap_kernel.model.operations import (
    CopyFile,
    CreateDirectory,
    DeleteFile,
    DescribeWorkspace,
    ListFiles,
    Message,
    ModifyFile,
    MoveFile,
    Operation,
    ReadFile,
    ReadNotebook,
    RevertRun,
    RunCommand,
    SearchFiles,
    ViewFile,
    WriteFile,
)
from wap_kernel.model.package import __version__
from wap_kernel.model.paths import render_path
from wap_kernel.model.results import CommandResult, Limits, Result, WorkspaceDescription
from wap_kernel.policy.paths.quarantine import quarantine_files
from wap_kernel.policy.paths.sandbox_masks import Masks, without_guard
from wap_kernel.providers.base import Provider
from wap_kernel.state.undo.undo import Undo

DIALECTS = ("wap/1.0", "agent-spaces/1.0", "coding-environment-mcp", "workspace-tool-interface")
WALK_SECONDS = 30.0
"""Seconds that a listing or a search may take."""
SCANS = 3
"""Walks in search of what a command may not see, before it is given up."""


@dataclass(frozen=True)
class Permit:
    """The files, limits and confinement of one allowed operation."""

    files: Files
    """The files, guarded by `guard`."""
    guard: Guard
    limits: Limits
    """Limits of the result and of what may be written; never above those of the policy."""
    max_searched_size: int
    env_allowlist: frozenset[str] | None = None
    confine: Callable[[Deadline], Masks] = lambda _: Masks(Confinement())
    """A function that finds what a command may not see; called only for a command and a provider that confines."""


class Actions:
    """The functions that perform operations."""

    def __init__(
        self, provider: Provider, searcher: Searcher, locks: Locks, root: str, undoing: Undo, git: GitClient
    ) -> None:
        self._provider = provider
        self._searcher = searcher
        self._locks = locks
        self._root = root
        self._undoing = undoing
        self._git = git

    def perform(
        self,
        operation: Operation,
        permit: Permit,
        cancel: CancelToken,
        on_chunk: OnChunk | None = None,
        context: CallContext = NO_RUN,
    ) -> Result:
        if isinstance(operation, RunCommand):
            return self._run(operation, permit, cancel, on_chunk)
        if isinstance(operation, GitAction):
            return self._act(operation, permit, cancel)
        if isinstance(operation, ListFiles | SearchFiles):
            deadline = Deadline(WALK_SECONDS, lambda: cancel.requested)
            if isinstance(operation, SearchFiles):
                return self._searcher.search(
                    permit.files,
                    permit.guard,
                    operation,
                    permit.limits,
                    deadline,
                    max_file_size=permit.max_searched_size,
                )
            return list_files(permit.files, operation, permit.limits, self._root, deadline)
        if isinstance(operation, RevertRun):
            return self._undoing.revert(operation, permit.guard, context)
        return _SIMPLE[type(operation)](self, operation, permit)

    def _read(self, operation: ReadFile, permit: Permit) -> Result:
        return read_file(permit.files, operation, permit.limits, self._root)

    def _view(self, operation: ViewFile, permit: Permit) -> Result:
        return view_file(permit.files, operation, permit.limits, self._root)

    def _read_notebook(self, operation: ReadNotebook, permit: Permit) -> Result:
        return read_notebook(permit.files, operation, permit.limits, self._root)

    def _describe(self, _: DescribeWorkspace, permit: Permit) -> WorkspaceDescription:
        return WorkspaceDescription(
            root=render_path(self._root),
            default_exclusions=list(DEFAULT_EXCLUSIONS),
            limits=permit.limits,
            version=__version__,
            dialects=list(DIALECTS),
            provider=self._provider.name,
            confines_commands=self._provider.confines,
        )

    def _writer(self, permit: Permit) -> Writer:
        return Writer(permit.files, self._locks, permit.limits)

    def _run(
        self, operation: RunCommand, permit: Permit, cancel: CancelToken, on_chunk: OnChunk | None
    ) -> CommandResult:
        limits = permit.limits
        timeout_ms = min(operation.timeout_ms or limits.default_timeout_ms, limits.max_timeout_ms)
        command = Command(
            command=operation.argv,
            cwd=operation.cwd,
            by_alias=operation.by_alias,
            environment=operation.environment,
            env_allowlist=permit.env_allowlist,
            timeout=timeout_ms / 1000,
            output_limit=limits.max_output_size,
        )
        outcome = self._run_confined(command, permit, cancel, on_chunk)
        result = CommandResult(
            stdout=outcome.stdout,
            stderr=outcome.stderr,
            exit_code=outcome.exit_code,
            duration_ms=round(outcome.duration * 1000),
            stdout_bytes=outcome.stdout_bytes,
            stderr_bytes=outcome.stderr_bytes,
            is_output_truncated=outcome.stdout_truncated or outcome.stderr_truncated,
        )
        if outcome.cancelled:
            raise ExecutionFailed(
                "The command was ended before it was done.", hint=PARTIAL_EFFECT_HINT, **_partial(result)
            )
        if outcome.timed_out:
            raise TimedOut(
                f"The command was ended after {timeout_ms:g} ms.",
                hint=longer_timeout(limits.max_timeout_ms / 1000),
                timeoutMs=timeout_ms,
                **_partial(result),
            )
        return result

    def preview_transfer(self, operation: GitTransfer, permit: Permit) -> TransferPreview:
        """Return what a transfer would do, for the person who decides."""
        masks = Masks(Confinement())
        if self._provider.confines:
            masks = permit.confine(Deadline(WALK_SECONDS))
        try:
            return self._git.preview(operation, permit.guard, masks.confinement)
        finally:
            quarantine_files(without_guard(permit.files), masks.absent)

    def _act(self, operation: GitAction, permit: Permit, cancel: CancelToken) -> Result:
        """Perform a git action. It is not retried as a command is: some of its steps may have been done."""
        masks = Masks(Confinement())
        if self._provider.confines:
            masks = permit.confine(Deadline(WALK_SECONDS, lambda: cancel.requested))
        try:
            return self._git.act(operation, permit.guard, masks.confinement, cancel)
        finally:
            quarantine_files(without_guard(permit.files), masks.absent)

    def _run_confined(
        self, command: Command, permit: Permit, cancel: CancelToken, on_chunk: OnChunk | None
    ) -> CommandOutcome:
        if not self._provider.confines:
            return self._provider.run(command, on_chunk=on_chunk, cancel=cancel)
        attempt = 1
        while True:
            masks = permit.confine(Deadline(WALK_SECONDS, lambda: cancel.requested))
            confined = replace(command, confinement=masks.confinement)
            moved: list[tuple[str, str]] = []
            try:
                try:
                    outcome = self._provider.run(confined, on_chunk=on_chunk, cancel=cancel)
                finally:
                    moved = quarantine_files(without_guard(permit.files), masks.absent)
                return _with_notes(outcome, moved)
            except Conflict:  # a path to hide was moved between the walk and the start; nothing has run
                if attempt == SCANS:
                    raise
                attempt += 1


_SIMPLE: Mapping[type[Operation], Callable[[Actions, Any, Permit], Result]] = {
    ReadFile: Actions._read,
    ViewFile: Actions._view,
    ReadNotebook: Actions._read_notebook,
    WriteFile: lambda self, operation, permit: self._writer(permit).write(operation),
    ModifyFile: lambda self, operation, permit: self._writer(permit).modify(operation),
    DeleteFile: lambda self, operation, permit: self._writer(permit).delete(operation),
    MoveFile: lambda self, operation, permit: self._writer(permit).move(operation),
    CopyFile: lambda self, operation, permit: self._writer(permit).copy(operation),
    CreateDirectory: lambda self, operation, permit: self._writer(permit).make_folder(operation),
    DescribeWorkspace: Actions._describe,
    Message: lambda *_: Result(),
}


def _with_notes(outcome: CommandOutcome, moved: list[tuple[str, str]]) -> CommandOutcome:
    """Return the outcome with a note in stderr for every file that was renamed."""
    notes = "".join(f"wap: {old} is protected; what was made there is now {new}\n" for old, new in moved)
    return replace(outcome, stderr=outcome.stderr + notes) if notes else outcome


def _partial(result: CommandResult) -> dict[str, Any]:
    """Return the output of a command that did not end by itself, for the details of an error."""
    return result.model_dump(by_alias=True, exclude={"exit_code"})
