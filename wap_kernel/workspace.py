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
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from functools import partial
from typing import Any, TypeVar

from wap_kernel.actions import Actions, Permit
from wap_kernel.caller import Caller
from wap_kernel.commands import environment
from wap_kernel.commands.outcome import Cancel, OnChunk
from wap_kernel.commands.programs import Programs
from wap_kernel.commands.streaming import Chunk, stream
from wap_kernel.errors import (
    ApprovalRequired,
    Code,
    InternalError,
    PermissionDenied,
    ProviderUnavailable,
    TooLarge,
    WapError,
    from_os_error,
)
from wap_kernel.files import atomic
from wap_kernel.files.deadline import Deadline
from wap_kernel.files.root import Root
from wap_kernel.files.searching import Searcher
from wap_kernel.files.selection import MAX_FILE_SIZE
from wap_kernel.operations import Limits, ListFiles, Operation, Result, RunCommand, SearchFiles
from wap_kernel.policy import masks, presets
from wap_kernel.policy.current import Binding, CurrentPolicy
from wap_kernel.policy.decision import ALLOWED, Facts, Touch, decide, touches
from wap_kernel.policy.files import PolicyFiles
from wap_kernel.policy.grants import Grant
from wap_kernel.policy.model import Policy
from wap_kernel.policy.protected import protected_paths
from wap_kernel.policy.verdict import Answer, Verdict
from wap_kernel.providers.base import Provider
from wap_kernel.providers.choose import choose
from wap_kernel.providers.refusing import RefusingProvider
from wap_kernel.runs.audit import Audit, is_denial
from wap_kernel.runs.grants import Grants
from wap_kernel.runs.leases import Lease
from wap_kernel.runs.locks import PathLocks
from wap_kernel.runs.state import default_state_dir, open_state_dir, workspace_id
from wap_kernel.threads import Threads

CHECK_SECONDS = 10.0
"""What the verdicts on the operations of one message may take."""
T = TypeVar("T")
THREADS: Mapping[type[Operation], int] = {SearchFiles: 2, ListFiles: 1, RunCommand: 16, Operation: 8}
"""How many operations of a kind run at once; what has no entry of its own counts as an Operation.

One listing: it is Python's own work, so a second one would not be done sooner but would keep the event loop waiting.
"""


class Workspace:
    """One folder and what may be done in it.

    `policy` is this workspace's own layer (the preset `standard` if it is None); an administrator's files and the
    workspace's `.cws-policy.json` narrow it. `provider` names where commands run. `state_dir` defaults to a folder in
    Jupyter's data folder. `hidden` and `read_only` are absolute paths to protect besides those that are protected
    always: a server knows best where its own secrets and settings lie.
    """

    def __init__(
        self,
        root: str,
        *,
        policy: Policy | None = None,
        provider: str = "auto",
        allow_unconfined: bool = False,
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
        self._allow_unconfined = allow_unconfined
        self._log = log or logging.getLogger("wap_kernel")
        self._underway: dict[Cancel, Operation] = {}
        self._is_closed = False
        with ExitStack() as opened:
            self.state_dir = open_state_dir(state_dir or default_state_dir(root))
            """Where its audit, grants, tokens and locks live."""
            self.id = workspace_id(root)
            """By this the state folder, which may serve several workspaces, knows it."""
            self._protected = protected_paths(root, self.state_dir, hidden=hidden, read_only=read_only)
            self._open(root, policy or presets.load("standard"), provider, opened)
            self._opened = opened.pop_all()

    def _open(self, root: str, policy: Policy, provider: str, opened: ExitStack) -> None:
        """Open everything; `opened` closes it again in reverse order, now if something fails, else in `close`."""
        state, identifier, protected = self.state_dir, self.id, self._protected
        lease = opened.enter_context(closing(Lease(state, identifier)))
        self._files = opened.enter_context(closing(Root(root, guard=protected, journal=lease)))
        lease.clean_up_after_the_dead(self._remove_temporary)
        self._audit = opened.enter_context(closing(Audit(state, identifier, self._log)))
        self.grants = opened.enter_context(closing(Grants(state, identifier)))
        self._pools = {
            kind: opened.enter_context(closing(Threads(kind.__name__, count))) for kind, count in THREADS.items()
        }
        self._policy = CurrentPolicy(PolicyFiles(self._files, preset=policy), protected)
        self._provider = opened.enter_context(closing(self._choose(provider)))
        searcher = opened.enter_context(closing(Searcher(protected, root_fd=self._files.fd)))
        self._actions = Actions(self._provider, searcher, PathLocks(state), self.root)
        server = environment.for_sandbox(os.environ) if self._provider.confines else os.environ
        path = environment.rebuild(server, {})["PATH"]
        self._programs = Programs(path, untrusted=[self.root], protected=protected.prefixes)

    def _choose(self, name: str) -> Provider:
        try:
            choice = choose(name, self._files, secrets=self._protected.secrets)
        except ProviderUnavailable as error:
            self._log.error("wap refuses every command: %s", error.text)
            return RefusingProvider(name, self._files, error)
        (self._log.info if choice.provider.confines else self._log.warning)("wap: %s", choice.reason)
        return choice.provider

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
        return await self._answer(operation, caller, encode, None, Cancel())

    def stream(self, operation: RunCommand, caller: Caller) -> AsyncGenerator[Chunk | Result, None]:
        """The command's output while it runs, and its result last; or a WapError. Leaving the loop ends the command."""
        return stream(partial(self._answer, operation, caller, lambda result: result))

    async def _answer(
        self,
        operation: Operation,
        caller: Caller,
        encode: Callable[[Result], T],
        on_chunk: OnChunk | None,
        cancel: Cancel,
    ) -> T:
        self._underway[cancel] = operation
        work = partial(self._perform, operation, caller, cancel, on_chunk)
        try:
            return await self._submit(type(operation), lambda: encode(work()))
        except asyncio.CancelledError:
            cancel.request()
            raise
        finally:
            del self._underway[cancel]

    async def check(self, operations: Sequence[Operation | None], caller: Caller) -> list[Verdict]:
        """What would be said about each of the operations (None: one that does nothing). Nothing is done, not even one
        before the next."""
        deadline = Deadline(CHECK_SECONDS, lambda: self._is_closed)
        return await self.offload(lambda: [self._checked(operation, caller, deadline) for operation in operations])

    async def describe_policy(self, caller: Caller) -> dict[str, Any]:
        """The policy that binds the caller, layer by layer and what it comes to."""
        return await self.offload(lambda: self._describe_policy(caller))

    def _describe_policy(self, caller: Caller) -> dict[str, Any]:
        grants = [{"id": identifier, "allows": grant.text} for identifier, grant in self.grants.all().items()]
        return {
            **self._policy.of(caller).effective.to_dict(),
            "provider": self._provider.name,
            "confinesCommands": self._provider.confines,
            "grants": grants,
        }

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

    def _perform(self, operation: Operation, caller: Caller, cancel: Cancel, on_chunk: OnChunk | None) -> Result:
        record = self._audit.record(operation, caller)
        try:
            binding = self._policy.of(caller)
            verdict = self._verdict(operation, binding)
            self._enforce(operation, verdict, caller)
            self._audit.intent(record)
            self._before_image(operation)
            result = self._actions.perform(operation, self._permit(binding, verdict), cancel, on_chunk)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is audited, and a bug is logged
            failure = self._translate(error, operation)
            self._audit.outcome(record, "denied" if is_denial(failure) else "failed", failure)
            raise failure from None
        self._audit.outcome(record, "ok")
        return result

    def _verdict(self, operation: Operation, binding: Binding) -> Verdict:
        reached = tuple(self._resolved(touch) for touch in touches(operation))
        facts = Facts(
            touches=reached,
            confined=self._provider.confines,
            resolve=self._programs.resolve,
            home=os.path.expanduser("~"),
            root=self.root,
            size=self._size(reached) if binding.effective.max_file_size is not None else None,
            protected=self._protected,
        )
        return decide(operation, binding.effective, facts, self._granted())

    def _granted(self) -> Iterator[Grant]:
        """Read when the first is wanted, which is only if something asks."""
        yield from self.grants.all().values()

    def _resolved(self, touch: Touch) -> Touch:
        try:
            return touch.at(self._files.resolve(touch.path, follow=touch.follow))
        except OSError:
            return touch  # a folder on the way is missing; the primitives will say so, or make it and ask the guard

    def _size(self, reached: Sequence[Touch]) -> int | None:
        """Of the file that comes first; the primitives have refused it already if it may not be looked at."""
        try:
            return self._files.stat(reached[0].path).size if reached else None
        except (OSError, WapError):
            return None

    def _checked(self, operation: Operation | None, caller: Caller, deadline: Deadline) -> Verdict:
        deadline.check()
        if operation is None:
            return ALLOWED
        try:
            return self._verdict(operation, self._policy.of(caller))
        except WapError as error:  # the path leaves the workspace, or keeps changing
            return Verdict(Answer.DENY, "containment", error.message, error.hint, error.code, grantable=False)

    def _enforce(self, operation: Operation, verdict: Verdict, caller: Caller) -> None:
        if verdict.answer is Answer.DENY:
            refusal = TooLarge if verdict.code is Code.SIZE_LIMIT_EXCEEDED else PermissionDenied
            raise refusal(verdict.reason, hint=verdict.suggestion, rule=verdict.rule)
        runs = isinstance(operation, RunCommand)
        if runs and isinstance(self._provider, RefusingProvider):
            self._provider.refuse()
        if runs and caller.token and not (self._provider.confines or self._allow_unconfined):
            raise ProviderUnavailable(
                "Nothing confines commands here, and an agent token is not given unconfined ones.",
                hint="`wap doctor` tells how to get a sandbox; an administrator may set WapExtension.allow_unconfined.",
            )
        if verdict.answer is Answer.ASK:
            hint = verdict.suggestion or "Do it in another way, or have it allowed in the policy."
            raise ApprovalRequired(f"{verdict.reason}: a person must agree first.", hint=hint, rule=verdict.rule)

    def _permit(self, binding: Binding, verdict: Verdict) -> Permit:
        effective, guard = binding.effective, binding.guard
        limits = self.limits.model_copy(
            update={
                "max_write_size": _least(self.limits.max_write_size, effective.max_file_size),
                "max_timeout_ms": _least(self.limits.max_timeout_ms, effective.max_timeout_ms),
            }
        )
        return Permit(
            files=self._files.guarded_by(guard),
            guard=guard,
            limits=limits,
            max_searched_size=_least(MAX_FILE_SIZE, effective.max_file_size),
            env_allowlist=effective.env_allowlist,
            confine=partial(
                masks.find,
                self._files,
                guard,
                self._protected.places,
                network=verdict.network,
                is_read_only=effective.access == "read",
            ),
        )

    def _before_image(self, operation: Operation) -> None:
        """Where what an operation is about to change will be kept for undo; nothing is kept yet."""

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


def _least(limit: int, other: int | None) -> int:
    return limit if other is None else min(limit, other)
