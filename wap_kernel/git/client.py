"""Perform git operations: choose the function for an action, give it the caller's permits, and return its result.

The modules for remotes are imported on first use, because many servers have no remote.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING

from wap_kernel.files.interface import Guard
from wap_kernel.git import output_parser
from wap_kernel.git.identity import complete_identity, parse_author
from wap_kernel.git.local import changes, queries
from wap_kernel.git.local.repository import LocalRepository, Permits, read_current_branch
from wap_kernel.git.local.sandboxed_git import SandboxedGit
from wap_kernel.git.remote.preview import TransferPreview, preview_push
from wap_kernel.git.settings import GitSettings
from wap_kernel.model.caller import Caller
from wap_kernel.model.command import CancelToken, Confinement
from wap_kernel.model.errors import InvalidArgument, PermissionDenied, WapError
from wap_kernel.model.git import names
from wap_kernel.model.git.operations import GitAction, GitTransfer
from wap_kernel.model.git.results import GitError, GitFailureReason, GitResult, Person, build_git_error
from wap_kernel.model.paths import Access
from wap_kernel.policy.git_remotes import Remote
from wap_kernel.providers.base import Provider

if TYPE_CHECKING:
    from wap_kernel.git.remote.transfer import RemoteLink

_NO_REMOTE = "The repository has no remote."
_NAME_URL = "Name its url: https://host/owner/name.git."


class GitClient:
    """Git for one workspace. `root` is its real path, `state` a folder of the server that no tool sees."""

    def __init__(self, provider: Provider, root: str, state: str, settings: GitSettings) -> None:
        self._provider = provider
        self._root = root
        self._state = os.path.join(state, "git")
        self._settings = settings

    def act(
        self, operation: GitAction, guard: Guard, confinement: Confinement, cancel: CancelToken, caller: Caller
    ) -> GitResult:
        try:
            call = self._call(operation, guard, confinement, cancel, caller)
            return GitResult(answer=_ACTIONS[operation.action](call))
        except GitError as error:
            return GitResult(failure=error.failure)

    def preview(self, operation: GitTransfer, guard: Guard, confinement: Confinement) -> TransferPreview:
        """Return what a transfer would do, for the person who is to approve it.

        A failure of git yields an empty preview, since performing the transfer reports it. A transfer that is certain
        to be denied, or has no remote, raises now, so that no person is asked about it.
        """
        try:
            return _preview_transfer(self._call(operation, guard, confinement, CancelToken(), Caller()))
        except (PermissionDenied, InvalidArgument):
            raise
        except GitError as error:
            if error.failure.reason is GitFailureReason.NO_REMOTE:
                raise InvalidArgument(_NO_REMOTE, hint=_NAME_URL) from None
            return TransferPreview()
        except (WapError, OSError):
            return TransferPreview()

    def _call(
        self, operation: GitAction, guard: Guard, confinement: Confinement, cancel: CancelToken, caller: Caller
    ) -> _GitCall:
        guard.check(self._provider.files.resolve(operation.folder), Access.READ, folder=True)
        git = SandboxedGit(self._provider, self._root, confinement=confinement, cancel=cancel)
        return _GitCall(operation, git, build_permits(guard), self._settings, self._state, cancel, caller)


def _preview_transfer(call: _GitCall) -> TransferPreview:
    from wap_kernel.git.remote import transfer

    if call.operation.action == "clone":
        return TransferPreview(call.remote(None).url)
    repository = call.open_repository()
    there = call.remote(repository).url
    if call.operation.action != "push":
        return TransferPreview(there)
    transfer.refuse_partial(repository.info)  # the list of commits would be incomplete
    branch = names.check_branch_name(call.operation.branch or read_current_branch(repository))
    force, delete = call.operation.force, call.operation.delete
    return preview_push(repository, call.link(repository), branch, force=force, delete=delete)


def build_permits(guard: Guard) -> Permits:
    """Return permits by which the guard of the file tools decides about paths in every commit too."""

    def build_check(access: Access) -> Callable[[str], bool]:
        def is_allowed(path: str) -> bool:
            try:
                guard.check(path, access)
            except PermissionDenied:
                return False
            return True

        return is_allowed

    return Permits(build_check(Access.READ), build_check(Access.WRITE))


@dataclass(frozen=True)
class _GitCall:
    operation: GitAction
    git: SandboxedGit
    permits: Permits
    settings: GitSettings
    state: str
    cancel: CancelToken
    caller: Caller

    def open_repository(self, *, commits: bool = False) -> LocalRepository:
        repository = LocalRepository.open(self.git, self.permits, folder=self.operation.folder)
        return replace(repository, identity=self._find_identity(repository)) if commits else repository

    def _find_identity(self, repository: LocalRepository) -> Person | None:
        """Return the identity of a commit; None: the one of the repository's config."""
        if self.operation.author is not None:
            return parse_author(self.operation.author)
        return self.settings.committer() or complete_identity(repository, self.caller, os.environ)

    def link(self, repository: LocalRepository | None) -> RemoteLink:
        from wap_kernel.git.remote.server_repository import ServerRepository
        from wap_kernel.git.remote.transfer import RemoteLink

        return RemoteLink(
            ServerRepository(self.state, self.remote(repository), cancel=self.cancel), self.settings.source
        )

    def remote(self, repository: LocalRepository | None) -> Remote:
        """Return the remote that the operation names, else the repository's own; raise if it is not allowed."""
        url = self.operation.url
        if url is None and repository is not None:
            output = repository.read("config", "--get", f"remote.{repository.remote}.url", accept=(0, 1))
            url = output_parser.decode_text(output.stdout).strip()
        if not url:
            raise build_git_error(GitFailureReason.NO_REMOTE, f"{_NO_REMOTE} {_NAME_URL}")
        return self.settings.resolve_remote(url)


def _branch(call: _GitCall) -> object:
    name, operation = call.operation.branch, call.operation
    if name is None:
        return queries.branches(call.open_repository())
    if operation.delete:
        return changes.delete_branch(call.open_repository(), name, force=operation.force)
    return changes.create_branch(call.open_repository(), name, operation.revision or "HEAD")


def _log(call: _GitCall) -> object:
    operation = call.operation
    return queries.log(
        call.open_repository(),
        operation.revision or "HEAD",
        paths=operation.files,
        limit=operation.limit,
        skip=operation.skip,
    )


def _restore(call: _GitCall) -> object:
    operation = call.operation
    return changes.restore(call.open_repository(), operation.files, staged=operation.staged, source=operation.revision)


def _commit(call: _GitCall) -> object:
    return changes.commit(call.open_repository(commits=True), call.operation.message, call.operation.files)


def _fetch(call: _GitCall) -> object:
    from wap_kernel.git.remote import transfer

    call.settings.require_remote()
    repository = call.open_repository()
    return transfer.fetch(call.link(repository), repository)


def _pull(call: _GitCall) -> object:
    from wap_kernel.git.remote import transfer

    call.settings.require_remote()
    repository = call.open_repository(commits=True)
    return transfer.pull(call.link(repository), repository)


def _push(call: _GitCall) -> object:
    from wap_kernel.git.remote import transfer

    call.settings.require_remote()
    repository, operation = call.open_repository(), call.operation
    link = call.link(repository)
    return transfer.push(
        link,
        repository,
        operation.branch,
        force=operation.force,
        delete=operation.delete,
        approved_commit=operation.revision,
    )


def _clone(call: _GitCall) -> object:
    from wap_kernel.git.remote import clone

    call.settings.require_remote()
    assert call.operation.destination is not None
    return clone.clone(
        call.link(None), call.git, call.permits, call.operation.destination, branch=call.operation.branch
    )


_ACTIONS: Mapping[str, Callable[[_GitCall], object]] = MappingProxyType(
    {
        "status": lambda call: queries.status(call.open_repository()),
        "diff": lambda call: queries.diff(call.open_repository(), call.operation.files),
        "log": _log,
        "show": lambda call: queries.show(call.open_repository(), call.operation.revision or "HEAD"),
        "branch": _branch,
        "add": lambda call: changes.add(call.open_repository(), call.operation.files),
        "restore": _restore,
        "commit": _commit,
        "checkout": lambda call: changes.checkout(call.open_repository(), call.operation.branch or ""),
        "fetch": _fetch,
        "pull": _pull,
        "push": _push,
        "clone": _clone,
    }
)
