"""From an operation to git: which function does it, with whose rights, and its answer or git's refusal as a result.

What transfers is imported when it is wanted: many servers have no remote.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

from wap_kernel.files.interface import Guard
from wap_kernel.git import output_parser
from wap_kernel.git.local import changes, queries
from wap_kernel.git.local.repository import Permits, Work, current
from wap_kernel.git.local.sandboxed_git import Inside
from wap_kernel.git.remote.preview import Foreseen, of_push
from wap_kernel.git.settings import GitSettings
from wap_kernel.model.command import CancelToken
from wap_kernel.model.errors import InvalidArgument, PermissionDenied, WapError
from wap_kernel.model.git import names
from wap_kernel.model.git.results import GitActed, GitFailed, Reason, failed
from wap_kernel.model.operations import GitAction, GitTransfer
from wap_kernel.model.path_access import Access
from wap_kernel.policy.git_remotes import Remote
from wap_kernel.providers.base import Confinement, Provider

if TYPE_CHECKING:
    from wap_kernel.git.remote.transfer import Link


class Git:
    """Git for one workspace. `root` is its real path, `state` a folder of the server that no tool sees."""

    def __init__(self, provider: Provider, root: str, state: str, settings: GitSettings) -> None:
        self._provider = provider
        self._root = root
        self._state = os.path.join(state, "git")
        self._settings = settings

    def act(self, operation: GitAction, guard: Guard, confinement: Confinement, cancel: CancelToken) -> GitActed:
        try:
            return GitActed(answer=_ACTIONS[operation.action](self._call(operation, guard, confinement, cancel)))
        except GitFailed as error:
            return GitActed(failure=error.failure)

    def foresee(self, operation: GitTransfer, guard: Guard, confinement: Confinement) -> Foreseen:
        """What it would be about, as far as that can be told: what git says against it is said when it is done. What
        is certain to be denied is denied now, since nobody need be asked about it."""
        try:
            return _foreseen(self._call(operation, guard, confinement, CancelToken()))
        except (PermissionDenied, InvalidArgument):
            raise
        except (GitFailed, WapError, OSError):
            return Foreseen()

    def _call(self, operation: GitAction, guard: Guard, confinement: Confinement, cancel: CancelToken) -> _Call:
        guard.check(self._provider.files.resolve(operation.folder), Access.READ, folder=True)
        inside = Inside(self._provider, self._root, confinement=confinement, cancel=cancel)
        return _Call(operation, inside, permits(guard), self._settings, self._state, cancel)


def _foreseen(call: _Call) -> Foreseen:
    from wap_kernel.git.remote import transfer

    if call.operation.action == "clone":
        return Foreseen(call.remote(None).url)
    work = call.work()
    there = call.remote(work).url
    if call.operation.action != "push":
        return Foreseen(there)
    transfer.refuse_partial(work.repository)  # of a history that is cut off, too little would be told
    branch = names.branch(call.operation.branch or current(work))
    force, delete = call.operation.force, call.operation.delete
    return of_push(work, call.link(work), branch, force=force, delete=delete)


def permits(guard: Guard) -> Permits:
    """What the guard of the file tools says of a path holds in every commit too."""

    def allowing(access: Access) -> Callable[[str], bool]:
        def may(path: str) -> bool:
            try:
                guard.check(path, access)
            except PermissionDenied:
                return False
            return True

        return may

    return Permits(allowing(Access.READ), allowing(Access.WRITE))


@dataclass(frozen=True)
class _Call:
    operation: GitAction
    inside: Inside
    permits: Permits
    settings: GitSettings
    state: str
    cancel: CancelToken

    def work(self, *, commits: bool = False) -> Work:
        identity = self.settings.committer() if commits else None
        return Work.open(self.inside, self.permits, folder=self.operation.folder, identity=identity)

    def link(self, work: Work | None) -> Link:
        from wap_kernel.git.remote.server_repository import Host
        from wap_kernel.git.remote.transfer import Link

        return Link(Host(self.state, self.remote(work), cancel=self.cancel), self.settings.source)

    def remote(self, work: Work | None) -> Remote:
        """The one that is named, or what the repository calls its remote, if that may be reached."""
        url = self.operation.url
        if url is None and work is not None:
            ran = work.read("config", "--get", f"remote.{work.remote}.url", accept=(0, 1))
            url = output_parser.text(ran.stdout).strip()
        if not url:
            raise failed(Reason.NO_REMOTE, "The repository has no remote. Name its url: https://host/owner/name.git.")
        return self.settings.remote(url)


def _branch(call: _Call) -> object:
    name, operation = call.operation.branch, call.operation
    if name is None:
        return queries.branches(call.work())
    if operation.delete:
        return changes.delete_branch(call.work(), name, force=operation.force)
    return changes.create_branch(call.work(), name, operation.revision or "HEAD")


def _log(call: _Call) -> object:
    asked = call.operation
    return queries.log(call.work(), asked.revision or "HEAD", paths=asked.files, limit=asked.limit, skip=asked.skip)


def _restore(call: _Call) -> object:
    asked = call.operation
    return changes.restore(call.work(), asked.files, staged=asked.staged, source=asked.revision)


def _commit(call: _Call) -> object:
    return changes.commit(call.work(commits=True), call.operation.message, call.operation.files)


def _fetch(call: _Call) -> object:
    from wap_kernel.git.remote import transfer

    call.settings.require_any()
    work = call.work()
    return transfer.fetch(call.link(work), work)


def _pull(call: _Call) -> object:
    from wap_kernel.git.remote import transfer

    call.settings.require_any()
    work = call.work(commits=True)
    return transfer.pull(call.link(work), work)


def _push(call: _Call) -> object:
    from wap_kernel.git.remote import transfer

    call.settings.require_any()
    work, asked = call.work(), call.operation
    link = call.link(work)
    return transfer.push(link, work, asked.branch, force=asked.force, delete=asked.delete, agreed=asked.revision)


def _clone(call: _Call) -> object:
    from wap_kernel.git.remote import clone

    call.settings.require_any()
    assert call.operation.destination is not None
    return clone.clone(
        call.link(None), call.inside, call.permits, call.operation.destination, branch=call.operation.branch
    )


_ACTIONS: Mapping[str, Callable[[_Call], object]] = MappingProxyType(
    {
        "status": lambda call: queries.status(call.work()),
        "diff": lambda call: queries.diff(call.work(), call.operation.files),
        "log": _log,
        "show": lambda call: queries.show(call.work(), call.operation.revision or "HEAD"),
        "branch": _branch,
        "add": lambda call: changes.add(call.work(), call.operation.files),
        "restore": _restore,
        "commit": _commit,
        "checkout": lambda call: changes.checkout(call.work(), call.operation.branch or ""),
        "fetch": _fetch,
        "pull": _pull,
        "push": _push,
        "clone": _clone,
    }
)
