"""Workspace: one open folder; every operation in it goes through `pipeline.py`.

Its methods are async. The work is done on the workspace's own bounded threads and never on the event loop, which also
carries every kernel's messages.
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

from wap_kernel.engine.actions import Actions
from wap_kernel.engine.judge import Judge
from wap_kernel.engine.layered_commands import LayeredCommands
from wap_kernel.engine.pipeline import Changed, Pipeline
from wap_kernel.engine.shared_commands import SharedCommands
from wap_kernel.engine.thread_pool import ThreadPool
from wap_kernel.engine.watch.protected_watch import ProtectedWatch
from wap_kernel.engine.watch.repository_watch import RepositoryWatch
from wap_kernel.files.contained import atomic_write
from wap_kernel.files.contained.root import Root
from wap_kernel.files.interface import FileKind, NullGuard
from wap_kernel.files.save_gate import SaveGate
from wap_kernel.files.search.searcher import Searcher
from wap_kernel.git.client import GitClient
from wap_kernel.git.settings import GitSettings
from wap_kernel.model.caller import NO_RUN, CallContext, Caller
from wap_kernel.model.command import CancelToken, Deadline, OnChunk
from wap_kernel.model.errors import InternalError, ProviderUnavailable, WapError
from wap_kernel.model.git.operations import GitChange, GitRead, GitTransfer
from wap_kernel.model.operations import Administer, CopyFile, ListFiles, Operation, RunCommand, SearchFiles
from wap_kernel.model.policy import Policy
from wap_kernel.model.results import Limits, Result
from wap_kernel.policy import presets
from wap_kernel.policy.commands.git_attributes import AttributeFiles
from wap_kernel.policy.commands.program_lookup import Programs, suggest_program
from wap_kernel.policy.current import CurrentPolicy
from wap_kernel.policy.grant_store import GrantStore
from wap_kernel.policy.layers import PolicyFiles
from wap_kernel.policy.paths.current_paths import find_protected_paths
from wap_kernel.policy.verdict import Verdict, VerdictKind
from wap_kernel.providers.base import Provider
from wap_kernel.providers.process import environment
from wap_kernel.providers.process.stream import Chunk, stream_output
from wap_kernel.providers.selection import choose
from wap_kernel.providers.unavailable import UnavailableProvider
from wap_kernel.redaction import results
from wap_kernel.redaction.results import CurrentRedactor
from wap_kernel.state.audit.log import Audit
from wap_kernel.state.audit.query import AuditQuery
from wap_kernel.state.changes.applier import ChangeApplier
from wap_kernel.state.changes.history import ChangeHistory
from wap_kernel.state.database import Database
from wap_kernel.state.directory import default_state_dir, open_state_dir, workspace_id
from wap_kernel.state.leases import Lease
from wap_kernel.state.path_locks import PathLocks
from wap_kernel.state.undo.undo import Undo

CHECK_SECONDS = 10.0
"""Seconds that the verdicts on the operations of one message may take."""
T = TypeVar("T")
THREADS: Mapping[type[Operation], int] = {
    **{SearchFiles: 2, ListFiles: 1, RunCommand: 16, Operation: 8},
    **{GitRead: 4, GitChange: 2, GitTransfer: 2},
}
"""Threads per kind of operation; a kind without an entry shares those of Operation.

Listings have one: they are Python's own work, so a second thread would not help but keep the event loop waiting.
"""


class Workspace:
    """One folder and what may be done in it.

    `policy` is this workspace's own layer (the preset `standard` if it is None); an administrator's files and the
    workspace's `.cws-policy.json` narrow it. `provider` names where commands run. `state_dir` defaults to a folder in
    Jupyter's data folder. `hidden` and `read_only` are absolute paths to protect besides those that are protected
    always: a server knows best where its own secrets and settings lie. Without `undo` reverts are refused. With
    `confined_only` people, too, are refused commands where nothing confines them. `git` says which remotes there are;
    without it there are none.
    """

    def __init__(
        self,
        root: str,
        *,
        policy: Policy | None = None,
        provider: str = "auto",
        allow_unconfined: bool = False,
        confined_only: bool = False,
        state_dir: str | None = None,
        limits: Limits | None = None,
        hidden: Sequence[str] = (),
        read_only: Sequence[str] = (),
        undo: bool = True,
        git: GitSettings | None = None,
        changed: Changed = lambda *_: None,
        log: logging.Logger | None = None,
    ) -> None:
        if sys.platform == "win32":
            raise ProviderUnavailable(
                "wap does not run on Windows itself.", hint="Run Jupyter inside WSL (Windows Subsystem for Linux)."
            )
        self.limits = limits or Limits()
        self._allow_unconfined = allow_unconfined
        self._confined_only = confined_only
        self._keeps = undo
        self._git = git or GitSettings()
        self.redactor = CurrentRedactor(lambda: self._git.source.secrets, lambda: self._git.source.fragments)
        """The redactor of everything that leaves the workspace: results, errors, events, audit records."""
        hidden = (*hidden, *self._git.source.secret_paths)
        self._changed = changed
        self.log = log or logging.getLogger("wap_kernel")
        self.save_gate = SaveGate(root)
        """The gate that keeps the renames of this workspace apart from the saves of the same process."""
        self._underway: dict[CancelToken, tuple[Operation, Caller]] = {}
        """The single calls that are performed now."""
        self._is_closed = False
        with ExitStack() as opened:
            self.state_dir = open_state_dir(state_dir or default_state_dir(root))
            """The state folder, with the audit, grants, tokens and locks."""
            self.id = workspace_id(root)
            """The id of this workspace in the state folder, which may serve several workspaces."""
            self._protected = find_protected_paths(root, self.state_dir, hidden=hidden, read_only=read_only)
            self._open(root, policy or presets.load_preset("standard"), provider, opened)
            self._opened = opened.pop_all()

    def _open(self, root: str, policy: Policy, provider: str, opened: ExitStack) -> None:
        """Open everything; `opened` closes it again in reverse order, now if something fails, else in `close`."""
        state, identifier, protected = self.state_dir, self.id, self._protected
        lease = opened.enter_context(closing(Lease(state, identifier)))
        self._files = opened.enter_context(closing(Root(root, guard=protected, journal=lease)))
        self.lease = lease
        self.database = opened.enter_context(closing(Database(state, self.log)))
        self._audit = opened.enter_context(closing(Audit(self.database, identifier, self.log, self.redactor)))
        self.grants = opened.enter_context(closing(GrantStore(state, identifier)))
        self._pools = {
            kind: opened.enter_context(closing(ThreadPool(kind.__name__, count))) for kind, count in THREADS.items()
        }
        self._provider = opened.enter_context(closing(self._choose(provider)))
        searcher = opened.enter_context(closing(Searcher(protected, root=self.root, root_fd=self._files.fd)))
        layer_searcher = opened.enter_context(closing(Searcher(protected, root=self.root)))
        locks = PathLocks(state)
        unguarded = self._files.guarded_by(NullGuard())
        self.history = opened.enter_context(
            closing(ChangeHistory(unguarded, self.database, state, locks, self.save_gate))
        )
        """The changes of every operation, with their before-images."""
        lease.remove_leftovers(self._remove_temporary)
        self.undo = Undo(self.history if self._keeps else None, locks, lambda caller: self.judge.bind(caller).guard)
        """The changes of runs, and their undo."""
        server = environment.restrict_search_path(os.environ) if self._provider.confines else os.environ
        path = environment.build_environment(server, {})["PATH"]
        programs = Programs(path, untrusted=[self.root], protected=protected.prefixes)
        self.judge = Judge(
            self._files,
            self.root,
            CurrentPolicy(PolicyFiles(self._files, preset=policy), protected),
            protected,
            self._provider,
            programs,
            self.grants,
            self.limits,
            AttributeFiles(state),
            allow_unconfined=self._allow_unconfined,
            confined_only=self._confined_only,
            git=self._git,
            find_unkept=self.history.find_unkept,
            find_unkept_at=self.history.find_unkept_at,
        )

        def suggest(name: str) -> str | None:
            return suggest_program(name, programs.list_names())

        layers = self._provider.layers
        self.layered: LayeredCommands | None = None
        """The commands on layers, None where the provider has none."""
        if layers is not None:
            self.layered = LayeredCommands(self._provider, layers, ChangeApplier(self.history), suggest)
        git = GitClient(self._provider, self.root, state, self._git)
        self.pipeline = Pipeline(
            self._files,
            self._audit,
            self.judge,
            Actions(
                self._provider,
                searcher,
                layer_searcher,
                locks,
                self.root,
                self.undo,
                git,
                self.layered,
                SharedCommands(
                    self._provider,
                    self.root,
                    ProtectedWatch(self._files.fd, self._log_quarantine),
                    RepositoryWatch(self._files, self._log_quarantine),
                    suggest,
                ),
            ),
            self.history,
            self.undo,
            locks,
            self.redactor,
            self.limits,
            changed=self._changed,
            bug=self.bug,
        )
        """The pipeline of all operations, on the threads."""

    def _choose(self, name: str) -> Provider:
        try:
            choice = choose(name, self._files, secrets=self._protected.secrets, state_dir=self.state_dir)
        except ProviderUnavailable as error:
            self.log.error("wap refuses every command: %s", error.text)
            return UnavailableProvider(name, self._files, error)
        (self.log.info if choice.provider.confines else self.log.warning)("wap: %s", choice.reason)
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
        """Return the number of commands and of git transfers that are under way."""
        return sum(isinstance(operation, RunCommand | GitTransfer) for operation, _ in self._underway.values())

    @property
    def tokens_under_way(self) -> set[str]:
        """Return the ids of the agent tokens whose single calls are under way."""
        return {caller.token for _, caller in self._underway.values() if caller.token is not None}

    def end_calls_of(self, token: str, grace: float) -> None:
        """Cancel the single calls of an agent token; their commands end within `grace` seconds."""
        for cancel, (_, caller) in self._underway.items():
            if caller.token == token:
                cancel.request(grace)

    async def perform(self, operation: Operation, caller: Caller | None = None) -> Result:
        """Perform `operation` or raise a WapError. A cancelled task ends the command that it started."""
        return await self.answer(operation, caller or Caller(), lambda result: result)

    async def answer(
        self, operation: Operation, caller: Caller, encode: Callable[[Result], T], context: CallContext = NO_RUN
    ) -> T:
        """Perform `operation` and return its encoded result. `encode` runs on the same thread, off the event loop."""
        return await self._answer(operation, caller, context, encode, None, CancelToken())

    def stream(
        self, operation: RunCommand, caller: Caller, context: CallContext = NO_RUN
    ) -> AsyncGenerator[Chunk | Result, None]:
        """Yield the command's output while it runs, and its result last, or raise a WapError.

        A caller that stops iterating ends the command.
        """
        return stream_output(partial(self._answer, operation, caller, context, lambda result: result))

    async def _answer(
        self,
        operation: Operation,
        caller: Caller,
        context: CallContext,
        encode: Callable[[Result], T],
        on_chunk: OnChunk | None,
        cancel: CancelToken,
    ) -> T:
        self._underway[cancel] = (operation, caller)
        work = partial(self.pipeline.perform, operation, caller, context, cancel, on_chunk)
        try:
            return await self.on_thread(type(operation), lambda: encode(work()))
        except asyncio.CancelledError:
            cancel.request()
            raise
        finally:
            del self._underway[cancel]

    async def measure_copy(self, operation: CopyFile, caller: Caller) -> int:
        """Return the bytes that a copy would write; 0 where policy denies it, which then says so itself."""

        def measure() -> int:
            if self.judge.check(operation, caller).kind is VerdictKind.DENY:
                return 0
            try:
                return self._files.stat(operation.source).size
            except (OSError, WapError):
                return 0

        return await self.offload(measure)

    async def check(self, operations: Sequence[Operation], caller: Caller) -> list[Verdict]:
        """Return the verdict on each of the operations. None is performed, so none sees the effect of another."""
        deadline = Deadline(CHECK_SECONDS, lambda: self._is_closed)

        def verdicts() -> Iterator[Verdict]:
            for operation in operations:
                deadline.check()
                yield self.judge.check(operation, caller)

        return await self.offload(lambda: list(verdicts()))

    async def describe_policy(self, caller: Caller) -> dict[str, Any]:
        """Return the policy that binds the caller, as its layers and the combined settings."""
        return await self.offload(lambda: self._describe_policy(caller))

    def _describe_policy(self, caller: Caller) -> dict[str, Any]:
        grants = []
        if caller.token is None:  # what people have allowed each other's agents is for people to know
            grants = [{"id": identifier, "allows": grant.text} for identifier, grant in self.grants.all().items()]
        return {
            **self.judge.bind(caller).effective.to_dict(),
            "provider": self._provider.name,
            "confinesCommands": self._provider.confines,
            "isolation": "shared" if self.layered is None else "layer",
            "git": self._git.to_dict(),
            "grants": grants,
        }

    def _log_quarantine(self, old: str, new: str | None) -> None:
        if new is None:
            self.log.warning("wap: a command removed the link %r, which is protected; it was put back", old)
        else:
            self.log.warning("wap: a command created %r, which is protected; it is now %r", old, new)

    def has_layer(self, identifier: str) -> bool:
        """Return whether a layer still exists."""
        return self.layered is not None and self.layered.layers.exists(identifier)

    def discard_layer(self, identifier: str | None) -> None:
        """Remove the layer of a command whose effect was not approved."""
        if self.layered is not None and identifier is not None:
            self.layered.layers.remove(identifier)

    async def offload(self, work: Callable[[], T]) -> T:
        """Run `work`, which would hold up the event loop, on one of the workspace's threads."""
        return await self.on_thread(Operation, work)

    async def audit_administration(self, action: str, subject: str, caller: Caller) -> None:
        """Audit that a person changed what agents may do."""
        operation = Administer(action=action, subject=subject)
        record = self._audit.record(operation, caller, CallContext(tool=action))
        await self.offload(lambda: self._audit.outcome(record, "ok"))

    async def audit_page(self, page: AuditQuery) -> dict[str, Any]:
        return await self.offload(lambda: self._audit.page(page))

    def audit_refusal(
        self,
        tool: str,
        error: WapError,
        caller: Caller,
        operation: Operation | None = None,
        context: CallContext = NO_RUN,
    ) -> None:
        """Audit a request that was refused before it was performed, or before it even became an operation.

        The error is on its way to the caller, so it is redacted as well.
        """
        results.redact_error(error, self.redactor)
        self._audit.refused(tool, error, caller, operation, context)

    async def on_thread(self, kind: type[Operation], work: Callable[[], T]) -> T:
        """Run `work` on a thread for this kind of operation."""
        pool = self._pools.get(kind, self._pools[Operation])
        if self._is_closed:
            raise ProviderUnavailable("The workspace is closed.")
        return await pool.run(work)

    async def close(self) -> None:
        """Cancel the running operations, and let writes finish."""
        if self._is_closed:
            return
        self._is_closed = True
        for cancel in self._underway:
            cancel.request()
        await asyncio.get_running_loop().run_in_executor(None, self._opened.close)

    def bug(self, error: Exception, where: str) -> WapError:
        """Log an unexpected error and return the error for the caller.

        The traceback names lines of this package; what callers sent stays out of the log.
        """
        self.log.error("wap: a bug in %s", where, exc_info=error)
        return InternalError("The server has failed at this operation.", hint="The log of the server has the details.")

    def _remove_temporary(self, name: str, path: str) -> bool:
        """Remove a temporary file that a crash left, and return whether nothing is left to do."""
        if not atomic_write.is_temporary(name) or os.path.basename(path) != name:
            return True
        if self.history.log.is_staged(name):
            return False  # the recovery of its run needs it
        try:
            if self._files.stat(path, follow=False).kind is FileKind.FOLDER:
                self._files.remove_tree(path)
            else:
                self._files.unlink(path)
        except (FileNotFoundError, NotADirectoryError):
            return True
        except (OSError, WapError) as error:
            self.log.warning("wap: a temporary file of a crashed process could not be removed: %s", error)
            return False
        return True
