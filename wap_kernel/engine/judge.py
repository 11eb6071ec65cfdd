"""Judge operations in this workspace: gather the facts, decide, enforce the verdict, permit what it leaves open.

Runs on the workspace's threads.
"""

from __future__ import annotations

import errno
import os
import posixpath
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from wap_kernel.engine.permit import Permit
from wap_kernel.files.filesystem_type import is_network_filesystem
from wap_kernel.files.interface import FileKind, Files, NullGuard
from wap_kernel.files.overlay.overlay import Overlay
from wap_kernel.files.tree_walk import count_files, open_real_folder, walk_tree
from wap_kernel.git.settings import GitSettings
from wap_kernel.model.caller import Caller
from wap_kernel.model.changes import ChangeSet
from wap_kernel.model.command import Confinement, Deadline
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
from wap_kernel.model.git.operations import GitAction, GitTransfer
from wap_kernel.model.hints import tell_user
from wap_kernel.model.limits import MAX_SEARCHED_FILE_BYTES
from wap_kernel.model.operations import (
    CopyFile,
    DeleteFile,
    ModifyFile,
    MoveFile,
    Operation,
    ReadFile,
    RunCommand,
    WriteFile,
)
from wap_kernel.model.paths import Access, join_path, outside
from wap_kernel.model.policy import Grant
from wap_kernel.model.results import Limits
from wap_kernel.policy.commands.git_attributes import AttributeFiles
from wap_kernel.policy.commands.program_lookup import Programs
from wap_kernel.policy.current import BoundPolicy, CurrentPolicy
from wap_kernel.policy.decide import Facts, Judgement, PathAccess, judge
from wap_kernel.policy.effects.judge import EffectFacts, EffectJudgement, judge_changes
from wap_kernel.policy.grant_store import GrantStore
from wap_kernel.policy.paths import sandbox_masks
from wap_kernel.policy.paths.mask_index import MaskIndex
from wap_kernel.policy.paths.protected import ProtectedPaths
from wap_kernel.policy.verdict import Verdict, VerdictKind
from wap_kernel.providers.base import Provider
from wap_kernel.providers.layers.change_reader import read_upper_file
from wap_kernel.providers.layers.layer import Layer
from wap_kernel.providers.unavailable import UnavailableProvider

MAX_JUDGED_BYTES = 1024 * 1024
"""Bytes of a changed file that is read to judge it: a configuration of git."""
GIT = ".git"


class UnapprovedOperation(ApprovalRequired):
    """A refusal that carries the judgement behind it, so that the approval request needs no second one."""

    judgement: Judgement | None = None


class Judge:
    """The decisions on operations in one workspace."""

    def __init__(
        self,
        files: Files,
        root: str,
        policy: CurrentPolicy,
        protected: ProtectedPaths,
        provider: Provider,
        programs: Programs,
        grants: GrantStore,
        limits: Limits,
        attributes: AttributeFiles,
        *,
        allow_unconfined: bool,
        confined_only: bool,
        git: GitSettings,
        find_unkept: Callable[[ChangeSet], Sequence[str]] = lambda _: (),
        find_unkept_at: Callable[[str], Sequence[str]] = lambda _: (),
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
        self._find_unkept = find_unkept
        self._find_unkept_at = find_unkept_at
        self._root_fd = getattr(files, "fd", None)
        is_indexed = self._root_fd is not None and not is_network_filesystem(root)
        self._mask_index = MaskIndex(self._root_fd) if is_indexed and self._root_fd is not None else None
        self._permits: tuple[BoundPolicy | None, dict[bool, Permit]] = (None, {})
        """The permits of the policy that was asked for last, by network: consecutive operations mostly share it."""

    def bind(self, caller: Caller) -> BoundPolicy:
        """Return the policy that binds `caller` now."""
        return self._policy.bind(caller)

    def files_of(self, caller: Caller) -> Files:
        """Return the files as the caller may see and change them."""
        return self._files.guarded_by(self.bind(caller).guard)

    def new_overlay(self) -> Files:
        """Return the files for a dry run, in which changes stay in memory."""
        return Overlay(self._files)

    def bind_for(self, operation: Operation, caller: Caller, policy: BoundPolicy | None = None) -> BoundPolicy:
        """Return the policy that binds `caller` in this operation. `policy` is that of the caller, if it is known."""
        return self._narrow(policy or self.bind(caller), operation)

    def _narrow(self, policy: BoundPolicy, operation: Operation) -> BoundPolicy:
        """Return the policy of an operation that stays in a folder: with that folder's policy, and no file outside.

        A command sees the whole workspace all the same; only its working directory is bound. So does git, whose
        answers are filtered afterwards.
        """
        if operation.within == ".":
            return policy
        try:
            folder = self._files.resolve(operation.within)
            if self._files.stat(folder).kind is not FileKind.FOLDER:
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
        except OSError as error:
            raise translate_os_error(error, operation.within) from None
        if folder == ".":
            return policy
        if not isinstance(operation, RunCommand):
            return self._policy.narrow(policy, folder, only=True)
        if not _is_below(self._resolve(operation.path_accesses()[0]).path, folder):
            raise outside(operation.cwd)
        return self._policy.narrow(policy, folder, only=False)

    def judge(self, operation: Operation, policy: BoundPolicy) -> Judgement:
        """Return the verdict on `operation`, and the grant that would allow it."""
        return judge(operation, policy.effective, self._gather_facts(operation, policy), self._read_grants())

    def may_read(self, path: str, caller: Caller) -> bool:
        """Return whether a tool of the caller's scope may read the file at this resolved path without approval."""
        if caller.scope is not None and not caller.scope.allows("readFile"):
            return False
        return self.check(ReadFile(path=path), caller).kind is VerdictKind.ALLOW

    def may_name(self, path: str, caller: Caller) -> bool:
        """Return whether the caller may know what this resolved path is called.

        That takes less than a read: a name does not become a secret by the size of its file, and that a folder has a
        `.git` is no secret of the `.git`.
        """
        folder, name = posixpath.split(path)
        is_git = name.casefold() == GIT
        try:
            self.bind(caller).guard.check((folder or ".") if is_git else path, Access.READ, folder=is_git)
        except PermissionDenied:
            return False
        return True

    def grant_for(self, operation: Operation, caller: Caller, refusal: ApprovalRequired | None = None) -> Grant | None:
        """Return the narrowest grant that allows `operation` for good, or None if no grant can.

        `refusal` is the refusal that the operation just got: its judgement is used, and nothing is evaluated again.
        """
        judgement = refusal.judgement if isinstance(refusal, UnapprovedOperation) else None
        if judgement is None or judgement.operation is not operation:
            judgement = self.judge(operation, self.bind_for(operation, caller))
        return judgement.grant

    def check(self, operation: Operation, caller: Caller) -> Verdict:
        """Return the verdict on `operation`, which denies it also where it cannot be judged or performed here."""
        try:
            verdict = self.judge(operation, self.bind_for(operation, caller)).verdict
        except WapError as error:  # the path leaves the workspace, or keeps changing
            return Verdict.from_error(error, "containment")
        if verdict.kind is not VerdictKind.DENY:
            try:
                self._require_provider(operation, caller)
            except ProviderUnavailable as error:
                return Verdict.from_error(error, "provider")
        return verdict

    def enforce(self, judgement: Judgement, caller: Caller, *, approved: bool) -> Verdict | None:
        """Raise the refusal unless the operation may be performed now.

        Return the verdict that asks where the operation is a command that runs on its layer first, so that the person
        who decides sees its effect.
        """
        operation, verdict = judgement.operation, judgement.verdict
        if verdict.kind is VerdictKind.DENY:
            if verdict.code is Code.INVALID_ARGUMENT:  # no rule's doing: the request itself is wrong
                raise InvalidArgument(verdict.reason, hint=verdict.suggestion)
            if verdict.closes_path:
                raise PathClosed(verdict.reason, hint=verdict.suggestion, rule=verdict.rule)
            refusal = TooLarge if verdict.code is Code.SIZE_LIMIT_EXCEEDED else PermissionDenied
            raise refusal(verdict.reason, hint=verdict.suggestion, rule=verdict.rule)
        self._require_provider(operation, caller)
        if verdict.kind is VerdictKind.ASK and not approved:
            if verdict.previewable and isinstance(operation, RunCommand):
                return verdict
            hint = verdict.suggestion or "Do it in another way, or have it allowed in the policy."
            unapproved = UnapprovedOperation(
                f"{verdict.reason}: a person must agree first.", hint=hint, rule=verdict.rule, reason=verdict.reason
            )
            unapproved.judgement = judgement
            raise unapproved
        return None

    def _require_provider(self, operation: Operation, caller: Caller) -> None:
        """Raise ProviderUnavailable where the caller's commands are not run at all."""
        if not isinstance(operation, RunCommand | GitAction):
            return
        if isinstance(self._provider, UnavailableProvider):
            self._provider.refuse()
        if (caller.token or self._confined_only) and not (self._provider.confines or self._allow_unconfined):
            asker = "an agent token is not given unconfined ones" if caller.token else "unconfined ones are not run"
            raise ProviderUnavailable(
                f"Nothing confines commands here, and {asker}.",
                hint=tell_user(
                    "`wap doctor` tells how to get a sandbox; an administrator may set WapExtension.allow_unconfined."
                ),
            )

    def permit(self, policy: BoundPolicy, *, network: bool, overlay: Files | None = None) -> Permit:
        """Return what an allowed operation may use, in the workspace or in the overlay or layer of a batch."""
        if overlay is not None:
            return self._new_permit(policy, network, overlay)
        cached_for, permits = self._permits
        if cached_for is not policy:
            permits = {}
            self._permits = (policy, permits)
        if network not in permits:
            permits[network] = self._new_permit(policy, network, self._files)
        return permits[network]

    def permit_preview(self, operation: GitTransfer, caller: Caller) -> Permit:
        """Return what the preview of a transfer may use, whatever the verdict on the transfer itself is."""
        policy = self.bind_for(operation, caller)
        self._gather_facts(operation, policy)  # raises where a path leaves the workspace
        return self.permit(policy, network=False)

    def _new_permit(self, policy: BoundPolicy, network: bool, files: Files) -> Permit:
        effective, guard, limits = policy.effective, policy.guard, self._limits
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
            confine=partial(self._find_masks, policy, network),
            find_repositories=partial(self._find_repositories, policy),
            judge_effect=partial(self._judge_effect, policy),
        )

    def _find_masks(self, policy: BoundPolicy, network: bool, files: Files, deadline: Deadline) -> sandbox_masks.Masks:
        """Return what a command may not see of `files`: the workspace, or the merged folder of a layer."""
        if not self._provider.confines:  # nothing is masked, and what programs obey is watched all the same
            return sandbox_masks.watch_paths(Confinement(), files, self._protected.fixed_paths)
        return sandbox_masks.find_masks(
            files,
            policy.sandbox_guard,
            self._protected.fixed_paths,
            deadline,
            network=network,
            for_tool=network and not policy.effective.allows_network(),
            is_read_only=policy.effective.access == "read",
            attributes=partial(self._attributes.file_for, policy.guard),
            index=self._mask_index if getattr(files, "fd", None) == self._root_fd else None,
        )

    def _find_repositories(self, policy: BoundPolicy, deadline: Deadline) -> frozenset[str]:
        return sandbox_masks.find_repositories(self._files, policy.sandbox_guard, deadline, self._mask_index)

    def judge_effect(self, changes: ChangeSet, layer: Layer, caller: Caller) -> EffectJudgement:
        """Judge what the commands of a run changed on its layer."""
        return self._judge_effect(self.bind(caller), changes, layer, subject="The run")

    def _judge_effect(
        self, policy: BoundPolicy, changes: ChangeSet, layer: Layer, subject: str = "The command"
    ) -> EffectJudgement:
        """Judge what a command, or a whole run, changed on its layer against the policy that bound it."""
        if not len(changes):
            return EffectJudgement()
        unguarded = self._files.guarded_by(NullGuard())
        facts = EffectFacts(
            protected=self._protected.snapshot(),
            read=lambda path: read_upper_file(layer.upper, path, MAX_JUDGED_BYTES),
            existed=lambda path: unguarded.lstat(path) is not None,
            list_below=partial(_list_below, unguarded),
            root=self._root,
            unkept=self._find_unkept(changes),
            subject=subject,
        )
        return judge_changes(changes, policy.effective, facts)

    def _gather_facts(self, operation: Operation, policy: BoundPolicy) -> Facts:
        named = operation.path_accesses()
        first, size = None, None
        if named and policy.effective.max_file_size is not None:
            first, size = self._resolve_with_size(named[0])
        resolved = tuple(first if first is not None and one is named[0] else self._resolve(one) for one in named)
        return Facts(
            accesses=resolved,
            confined=self._provider.confines,
            layered=self._is_layered(operation),
            by_agent=policy.by_agent,
            resolve=self._programs.resolve,
            is_missing=self._programs.is_missing,
            home=self._home,
            root=self._root,
            size=size,
            deletes=self._count_deletions(operation, policy),
            unkept=self._find_displaced(operation, resolved),
            protected=self._protected,
            protected_branches=self._git.protected,
            remotes=self._git.allowed,
        )

    def _count_deletions(self, operation: Operation, policy: BoundPolicy) -> int:
        if not isinstance(operation, DeleteFile) or not operation.recursive:
            return 0
        limit = policy.effective.effects.max_deletions
        return 0 if limit is None else count_files(self._files.guarded_by(NullGuard()), operation.path, limit + 1)

    def _find_displaced(self, operation: Operation, accesses: Sequence[PathAccess]) -> tuple[str, ...]:
        """Return the files that a file tool replaces or deletes and that cannot be kept for undo."""
        if isinstance(operation, WriteFile):
            displaces = operation.mode == "overwrite"
        elif isinstance(operation, MoveFile | CopyFile):
            displaces = operation.overwrite
        else:
            displaces = isinstance(operation, ModifyFile | DeleteFile)
        return tuple(self._find_unkept_at(accesses[-1].path)) if displaces else ()

    def _is_layered(self, operation: Operation) -> bool:
        is_shared = isinstance(operation, RunCommand) and operation.isolation == "shared"
        return self._provider.layers is not None and not is_shared

    def _read_grants(self) -> Iterator[Grant]:
        """Yield the grants. They are read from the store with the first one, so only if a verdict asks."""
        yield from self._grants.all().values()

    def _resolve(self, access: PathAccess) -> PathAccess:
        try:
            return access.with_path(self._files.resolve(access.path, follow=access.follow))
        except OSError:
            return access  # a folder on the way is missing: the operation fails, or creates it and asks the guard

    def _resolve_with_size(self, access: PathAccess) -> tuple[PathAccess | None, int | None]:
        """Return the access with its path resolved, and the size of the file; None for each that is not known."""
        try:
            stat = self._files.stat(access.path)
        except (OSError, WapError):
            return None, None
        return (access.with_path(stat.path) if access.follow else None), stat.size


def _list_below(files: Files, folder: str) -> Iterator[str]:
    """Yield the paths below a folder, relative to it."""
    start = open_real_folder(files, folder)
    if start is None:
        return
    for level in walk_tree(files, start):
        for batch in level.folder.batches():
            level.pending += [entry.name for entry in batch if entry.is_dir(follow_symlinks=False)]
            yield from (join_path(level.folder.path, entry.name)[len(folder) + 1 :] for entry in batch)


def _is_below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder}/")


def _least(limit: int, other: int | None) -> int:
    return limit if other is None else min(limit, other)
