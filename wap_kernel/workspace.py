"""Workspace: the pipeline that every operation from every dialect goes through.

    validate -> resolve paths -> verdict -> [approval] -> audit intent -> before-image -> perform -> audit outcome

The surface is async; the work is done on the workspace's own bounded threads, never on the event loop, which carries
every kernel's messages as well.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from typing import Any, TypeVar

from wap_kernel import __version__
from wap_kernel.commands.outcome import Cancel
from wap_kernel.errors import (
    ApprovalRequired,
    ExecutionFailed,
    InternalError,
    PermissionDenied,
    ProviderUnavailable,
    TimedOut,
    WapError,
    from_os_error,
)
from wap_kernel.files import atomic
from wap_kernel.files.deadline import Deadline
from wap_kernel.files.globs import DEFAULT_EXCLUSIONS
from wap_kernel.files.listing import list_files
from wap_kernel.files.paths import display
from wap_kernel.files.reading import read_file
from wap_kernel.files.root import Root
from wap_kernel.files.searching import Searcher
from wap_kernel.files.writing import Writer
from wap_kernel.operations import (
    Caller,
    CommandResult,
    CopyFile,
    CreateDirectory,
    DeleteFile,
    DescribeWorkspace,
    Limits,
    ListFiles,
    ModifyFile,
    MoveFile,
    Operation,
    ReadFile,
    Result,
    RunCommand,
    SearchFiles,
    WorkspaceDescription,
    WriteFile,
)
from wap_kernel.policy.decision import Answer, Touch, Verdict, decide, touches
from wap_kernel.policy.protected import protected_paths
from wap_kernel.providers.base import Command
from wap_kernel.providers.local import LocalProvider
from wap_kernel.runs.audit import Audit, is_denial
from wap_kernel.runs.leases import Lease
from wap_kernel.runs.locks import PathLocks
from wap_kernel.runs.state import default_state_dir, open_state_dir, workspace_id
from wap_kernel.threads import Threads

DIALECTS = ("wap/1.0",)
WALK_SECONDS = 30.0
"""What a listing or a search may take."""
T = TypeVar("T")
THREADS: Mapping[type[Operation], int] = {SearchFiles: 2, ListFiles: 1, RunCommand: 16, Operation: 8}
"""How many operations of a kind run at once; what has no entry of its own counts as an Operation.

One listing: it is Python's own work, so a second one would not be done sooner but would keep the event loop waiting.
"""


class Workspace:
    """One folder and what may be done in it.

    `state_dir` defaults to a folder in Jupyter's data folder. `hidden` and `read_only` are absolute paths to protect
    besides those that are protected always: a server knows best where its own secrets and settings lie.
    """

    def __init__(
        self,
        root: str,
        *,
        state_dir: str | None = None,
        limits: Limits | None = None,
        hidden: Sequence[str] = (),
        read_only: Sequence[str] = (),
        log: logging.Logger | None = None,
    ) -> None:
        if sys.platform == "win32":
            raise ProviderUnavailable(
                "wap does not run on Windows itself.", hint="Run Jupyter inside WSL (Windows Subsystem for Linux)."
            )
        self.limits = limits or Limits()
        self._log = log or logging.getLogger("wap_kernel")
        self._underway: dict[Cancel, Operation] = {}
        self._is_closed = False
        with ExitStack() as opened:
            self._open(root, state_dir, hidden, read_only, opened)
            self._opened = opened.pop_all()

    def _open(
        self, root: str, state_dir: str | None, hidden: Sequence[str], read_only: Sequence[str], opened: ExitStack
    ) -> None:
        """Open everything; `opened` closes it again in reverse order, now if something fails, else in `close`."""
        state = open_state_dir(state_dir or default_state_dir(root))
        self._guard = protected_paths(root, state, hidden=hidden, read_only=read_only)
        lease = opened.enter_context(closing(Lease(state, workspace_id(root))))
        self._files = opened.enter_context(closing(Root(root, guard=self._guard, journal=lease)))
        lease.clean_up_after_the_dead(self._remove_temporary)
        self._audit = opened.enter_context(closing(Audit(state, workspace_id(root), self._log)))
        self._pools = {
            kind: opened.enter_context(closing(Threads(kind.__name__, count))) for kind, count in THREADS.items()
        }
        self._provider = opened.enter_context(closing(LocalProvider(self._files)))
        self._searcher = opened.enter_context(closing(Searcher(self._files, self._guard, root_fd=self._files.fd)))
        writer = Writer(self._files, PathLocks(state), self.limits)
        self._actions: Mapping[type[Operation], Callable[[Any], Result]] = {
            ReadFile: lambda operation: read_file(self._files, operation, self.limits, self.root),
            WriteFile: writer.write,
            ModifyFile: writer.modify,
            DeleteFile: writer.delete,
            MoveFile: writer.move,
            CopyFile: writer.copy,
            CreateDirectory: writer.make_folder,
            DescribeWorkspace: self._describe,
        }

    @property
    def root(self) -> str:
        """The absolute path of the folder."""
        return self._files.path

    @property
    def names_of_root(self) -> tuple[str, ...]:
        return self._files.names

    @property
    def running(self) -> int:
        """How many commands are under way."""
        return sum(isinstance(operation, RunCommand) for operation in self._underway.values())

    async def perform(self, operation: Operation, caller: Caller | None = None) -> Result:
        """Do it, or raise a WapError. Cancelling the task ends a command that it started."""
        return await self.answer(operation, caller or Caller(), lambda result: result)

    async def answer(self, operation: Operation, caller: Caller, encode: Callable[[Result], T]) -> T:
        """Like `perform`; `encode` makes an answer of the result on the same thread, away from the event loop."""
        cancel = Cancel()
        self._underway[cancel] = operation
        try:
            return await self._submit(type(operation), lambda: encode(self._perform(operation, caller, cancel)))
        except asyncio.CancelledError:
            cancel.request()
            raise
        finally:
            del self._underway[cancel]

    async def offload(self, work: Callable[[], T]) -> T:
        """Run something slow on one of the workspace's threads, for those who must not hold the event loop."""
        return await self._submit(Operation, work)

    def refused(self, tool: str, error: WapError, caller: Caller) -> None:
        """Record a request that was refused before it became an operation."""
        self._audit.refused(tool, error, caller)

    async def _submit(self, kind: type[Operation], work: Callable[[], T]) -> T:
        pool = self._pools.get(kind, self._pools[Operation])
        if self._is_closed:
            raise ProviderUnavailable("The workspace is closed.")
        return await pool.run(work)

    async def close(self) -> None:
        """End what is running and let writes finish."""
        if self._is_closed:
            return
        self._is_closed = True
        for cancel in self._underway:
            cancel.request()
        await asyncio.get_running_loop().run_in_executor(None, self._opened.close)

    # -- the pipeline; runs on one of the workspace's threads

    def _perform(self, operation: Operation, caller: Caller, cancel: Cancel) -> Result:
        record = self._audit.record(operation, caller)
        try:
            self._enforce(self._verdict(operation))
            self._audit.intent(record)
            self._before_image(operation)
            result = self._act(operation, cancel)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is audited, and a bug is logged
            failure = self._translate(error, operation)
            self._audit.outcome(record, "denied" if is_denial(failure) else "failed", failure)
            raise failure from None
        self._audit.outcome(record, "ok")
        return result

    def _verdict(self, operation: Operation) -> Verdict:
        return decide([self._resolved(touch) for touch in touches(operation)], self._guard)

    def _resolved(self, touch: Touch) -> Touch:
        try:
            path = self._files.resolve(touch.path, follow=touch.follow)
        except OSError:
            return touch  # a folder on the way is missing; the primitives will say so, or make it and ask the guard
        return Touch(path, touch.access, touch.follow)

    def _enforce(self, verdict: Verdict) -> None:
        if verdict.answer is Answer.DENY:
            raise PermissionDenied(verdict.reason, hint=verdict.suggestion, rule=verdict.rule)
        if verdict.answer is Answer.ASK:
            raise ApprovalRequired(verdict.reason, hint=verdict.suggestion, rule=verdict.rule)

    def _before_image(self, operation: Operation) -> None:
        """Where what an operation is about to change will be kept for undo; nothing is kept yet."""

    def _act(self, operation: Operation, cancel: Cancel) -> Result:
        if isinstance(operation, RunCommand):
            return self._run(operation, cancel)
        if isinstance(operation, ListFiles | SearchFiles):
            deadline = Deadline(WALK_SECONDS, lambda: cancel.requested)
            if isinstance(operation, SearchFiles):
                return self._searcher.search(operation, self.limits, deadline)
            return list_files(self._files, operation, self.limits, self.root, deadline)
        return self._actions[type(operation)](operation)

    def _translate(self, error: Exception, operation: Operation) -> WapError:
        if isinstance(error, WapError):
            return error
        if isinstance(error, OSError):
            named = operation.summary()
            path = str(named.get("path") or named.get("source") or named.get("cwd") or "")
            translated = from_os_error(error, path)
            if not isinstance(translated, InternalError):
                return translated
        # The traceback names lines of ours; the operation's arguments stay out of the log.
        self._log.error("wap: a bug in %s", operation.kind, exc_info=error)
        return InternalError("Something went wrong inside the server.", hint="Its log has the details.")

    # -- operations that need more than files

    def _run(self, operation: RunCommand, cancel: Cancel) -> CommandResult:
        asked = operation.timeout_ms or self.limits.default_timeout_ms
        timeout_ms = min(asked, self.limits.max_timeout_ms)
        outcome = self._provider.run(
            Command(
                command=operation.command,
                cwd=operation.cwd,
                environment=operation.environment,
                timeout=timeout_ms / 1000,
                output_limit=self.limits.max_output_size,
            ),
            cancel=cancel,
        )
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
            raise ExecutionFailed("The command was ended before it was done.", **_partial(result))
        if outcome.timed_out:
            raise TimedOut(
                f"The command was ended after {timeout_ms:g} ms.",
                hint=f"Ask for more with a timeout of up to {self.limits.max_timeout_ms} ms, or do less at once.",
                timeoutMs=timeout_ms,
                **_partial(result),
            )
        return result

    def _describe(self, _: DescribeWorkspace) -> WorkspaceDescription:
        return WorkspaceDescription(
            root=display(self.root),
            default_exclusions=list(DEFAULT_EXCLUSIONS),
            limits=self.limits,
            version=__version__,
            dialects=list(DIALECTS),
            provider=self._provider.name,
            confines_commands=self._provider.confines,
        )

    def _remove_temporary(self, name: str, path: str) -> bool:
        """Remove what a crash left, and say whether that is settled."""
        if not atomic.is_temporary(name) or os.path.basename(path) != name:
            return True
        try:
            self._files.unlink(path)
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            return True
        except (OSError, WapError) as error:
            self._log.warning("wap: a temporary file of a crashed process could not be removed: %s", error)
            return False
        return True


def _partial(result: CommandResult) -> dict[str, Any]:
    """The output of a command that did not end by itself, for an error's details."""
    return result.model_dump(by_alias=True, exclude={"exit_code"})
