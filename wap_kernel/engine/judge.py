"""What policy says of an operation in this workspace: the facts that a decision needs, gathered; what it leaves open.

Runs on the workspace's threads.
"""

from __future__ import annotations

import errno
import os
import posixpath
from collections.abc import Iterator
from functools import partial

from wap_kernel.engine.actions import Permit
from wap_kernel.files.interface import Files, Kind
from wap_kernel.files.overlay.overlay import Overlay
from wap_kernel.git.settings import GitSettings
from wap_kernel.model.caller import Caller
from wap_kernel.model.errors import (
    ApprovalRequired,
    Code,
    InvalidArgument,
    PathClosed,
    PermissionDenied,
    ProviderUnavailable,
    TooLarge,
    WapError,
    translate_os_error,
)
from wap_kernel.model.limits import MAX_SEARCHED_FILE_BYTES
from wap_kernel.model.operations import GitAction, Operation, ReadFile, RunCommand
from wap_kernel.model.path_access import Access
from wap_kernel.model.paths import outside
from wap_kernel.model.policy import Grant
from wap_kernel.model.results import Limits
from wap_kernel.policy.commands.git_attributes import AttributeFiles
from wap_kernel.policy.commands.program_lookup import Programs
from wap_kernel.policy.current import BoundPolicy, CurrentPolicy
from wap_kernel.policy.decide import Facts, PathAccess, decide, grant_for
from wap_kernel.policy.grant_store import Grants
from wap_kernel.policy.paths import sandbox_masks
from wap_kernel.policy.paths.protected import ProtectedPaths
from wap_kernel.policy.verdict import Verdict, VerdictKind
from wap_kernel.providers.base import Provider
from wap_kernel.providers.unavailable import UnavailableProvider
from wap_kernel.state.undo.manifest import GIT


class Judge:
    def __init__(
        self,
        files: Files,
        root: str,
        policy: CurrentPolicy,
        protected: ProtectedPaths,
        provider: Provider,
        programs: Programs,
        grants: Grants,
        limits: Limits,
        attributes: AttributeFiles,
        *,
        allow_unconfined: bool,
        confined_only: bool,
        git: GitSettings,
    ) -> None:
        self._files = files
        self._root = root
        self._home = os.path.expanduser("~")
        self._policy = policy
        self._protected = protected
        self._provider = provider
        self._programs = programs
        self._grants = grants
        self._limits = limits
        self._attributes = attributes
        self._allow_unconfined = allow_unconfined
        self._confined_only = confined_only
        self._git = git
        self._permits: tuple[BoundPolicy | None, dict[bool, Permit]] = (None, {})
        """Of the binding that was asked about last, with and without the network: seldom is it another."""

    def binding(self, caller: Caller) -> BoundPolicy:
        return self._policy.of(caller)

    def files_of(self, caller: Caller) -> Files:
        """As the caller may see and change them."""
        return self._files.guarded_by(self.binding(caller).guard)

    def new_overlay(self) -> Files:
        """For a dry run: the same files, and changes that stay in memory."""
        return Overlay(self._files)

    def binding_for(self, operation: Operation, caller: Caller, known: BoundPolicy | None = None) -> BoundPolicy:
        """What binds the caller in this operation; `known`, where it was looked up a moment ago."""
        return self._narrowed(known or self.binding(caller), operation)

    def _narrowed(self, binding: BoundPolicy, operation: Operation) -> BoundPolicy:
        """Where the operation stays in a folder: with that folder's policy, and no file outside. A command sees the
        whole workspace all the same; only where it begins is bound. So does git, whose answers are then sifted."""
        if operation.within == ".":
            return binding
        try:
            folder = self._files.resolve(operation.within)
            if self._files.stat(folder).kind is not Kind.FOLDER:
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
        except OSError as error:
            raise translate_os_error(error, operation.within) from None
        if folder == ".":
            return binding
        if not isinstance(operation, RunCommand):
            return self._policy.within(binding, folder, only=True)
        if not _is_below(self._resolved(operation.path_accesses()[0]).path, folder):
            raise outside(operation.cwd)
        return self._policy.within(binding, folder, only=False)

    def verdict(self, operation: Operation, binding: BoundPolicy) -> Verdict:
        return decide(operation, binding.effective, self._facts(operation, binding), self._granted())

    def may_read(self, path: str, caller: Caller) -> bool:
        """Whether the caller could read the file at this resolved path, by a tool of its scope and unasked."""
        if caller.scope is not None and not caller.scope.allows("readFile"):
            return False
        return self.checked(ReadFile(path=path), caller).kind is VerdictKind.ALLOW

    def may_name(self, path: str, caller: Caller) -> bool:
        """Whether the caller may know what this resolved path is called. Less is asked than for a read: a name does
        not become a secret by the size of its file, and that a folder has a `.git` is no secret of the `.git`."""
        folder, name = posixpath.split(path)
        is_git = name.casefold() == GIT
        try:
            self.binding(caller).guard.check((folder or ".") if is_git else path, Access.READ, folder=is_git)
        except PermissionDenied:
            return False
        return True

    def grant_for(self, operation: Operation, caller: Caller) -> Grant | None:
        """What would have to be granted for it never to be asked about again; None if nothing can be."""
        binding = self.binding_for(operation, caller)
        return grant_for(operation, binding.effective, self._facts(operation, binding))

    def checked(self, operation: Operation, caller: Caller) -> Verdict:
        """The verdict also where the question itself is refused, or what is allowed cannot be done here."""
        try:
            verdict = self.verdict(operation, self.binding_for(operation, caller))
        except WapError as error:  # the path leaves the workspace, or keeps changing
            return Verdict.of_refusal(error, "containment")
        if verdict.kind is not VerdictKind.DENY:
            try:
                self._require_provider(operation, caller)
            except ProviderUnavailable as error:
                return Verdict.of_refusal(error, "provider")
        return verdict

    def enforce(self, operation: Operation, verdict: Verdict, caller: Caller, *, approved: bool) -> None:
        """Raise unless the operation may be performed now."""
        if verdict.kind is VerdictKind.DENY:
            if verdict.code is Code.INVALID_ARGUMENT:  # no rule's doing: the request itself is wrong
                raise InvalidArgument(verdict.reason, hint=verdict.suggestion)
            if verdict.closes_path:
                raise PathClosed(verdict.reason, hint=verdict.suggestion, rule=verdict.rule)
            refusal = TooLarge if verdict.code is Code.SIZE_LIMIT_EXCEEDED else PermissionDenied
            raise refusal(verdict.reason, hint=verdict.suggestion, rule=verdict.rule)
        self._require_provider(operation, caller)
        if verdict.kind is VerdictKind.ASK and not approved:
            hint = verdict.suggestion or "Do it in another way, or have it allowed in the policy."
            raise ApprovalRequired(
                f"{verdict.reason}: a person must agree first.", hint=hint, rule=verdict.rule, reason=verdict.reason
            )

    def _require_provider(self, operation: Operation, caller: Caller) -> None:
        """Raise where the caller's commands are not run at all."""
        if not isinstance(operation, RunCommand | GitAction):
            return
        if isinstance(self._provider, UnavailableProvider):
            self._provider.refuse()
        if (caller.token or self._confined_only) and not (self._provider.confines or self._allow_unconfined):
            asker = "an agent token is not given unconfined ones" if caller.token else "unconfined ones are not run"
            raise ProviderUnavailable(
                f"Nothing confines commands here, and {asker}.",
                hint="`wap doctor` tells how to get a sandbox; an administrator may set WapExtension.allow_unconfined.",
            )

    def permit(self, binding: BoundPolicy, verdict: Verdict, overlay: Files | None = None) -> Permit:
        """What is left to an operation that may be performed, in the workspace or in the overlay of a dry run."""
        if overlay is not None:
            return self._permit(binding, verdict, overlay)
        known_for, known = self._permits
        if known_for is not binding:
            known = {}
            self._permits = (binding, known)
        if verdict.network not in known:
            known[verdict.network] = self._permit(binding, verdict, self._files)
        return known[verdict.network]

    def _permit(self, binding: BoundPolicy, verdict: Verdict, files: Files) -> Permit:
        effective, guard, limits = binding.effective, binding.guard, self._limits
        bounded = limits.model_copy(
            update={
                "max_write_size": _least(limits.max_write_size, effective.max_file_size),
                "max_timeout_ms": _least(limits.max_timeout_ms, effective.max_timeout_ms),
            }
        )
        return Permit(
            files=files.guarded_by(guard),
            guard=guard,
            limits=bounded,
            max_searched_size=_least(MAX_SEARCHED_FILE_BYTES, effective.max_file_size),
            env_allowlist=effective.env_allowlist,
            confine=partial(
                sandbox_masks.find,
                self._files,
                binding.hiding,
                self._protected.places,
                network=verdict.network,
                is_read_only=effective.access == "read",
                attributes=partial(self._attributes.file_for, guard),
            ),
        )

    def _facts(self, operation: Operation, binding: BoundPolicy) -> Facts:
        named = operation.path_accesses()
        first, size = None, None
        if named and binding.effective.max_file_size is not None:
            first, size = self._sized(named[0])
        reached = tuple(first if first is not None and touch is named[0] else self._resolved(touch) for touch in named)
        return Facts(
            touches=reached,
            confined=self._provider.confines,
            resolve=self._programs.resolve,
            home=self._home,
            root=self._root,
            size=size,
            protected=self._protected,
            protected_branches=self._git.protected,
            remotes=self._git.allowed,
        )

    def _granted(self) -> Iterator[Grant]:
        """Read when the first is wanted, which is only if something asks."""
        yield from self._grants.all().values()

    def _resolved(self, touch: PathAccess) -> PathAccess:
        try:
            return touch.with_path(self._files.resolve(touch.path, follow=touch.follow))
        except OSError:
            return touch  # a folder on the way is missing; the primitives will say so, or make it and ask the guard

    def _sized(self, touch: PathAccess) -> tuple[PathAccess | None, int | None]:
        """The path that comes first, resolved, and the size of what stands there; None where it cannot be looked at."""
        try:
            stat = self._files.stat(touch.path)
        except (OSError, WapError):
            return None, None
        return (touch.with_path(stat.path) if touch.follow else None), stat.size


def _is_below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder}/")


def _least(limit: int, other: int | None) -> int:
    return limit if other is None else min(limit, other)
