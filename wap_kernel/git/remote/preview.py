"""Preview a transfer: the remote's address, the branch and the commit that a person approves.

A branch is a name that the agent can move, and so is `origin`. So both are resolved when the approval is requested and
again when it is decided, and the push takes the commit that the person saw. New and lost commits are counted from where
the server itself last saw the branch, because the agent can forge the workspace's own refs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from wap_kernel.files import content_hash
from wap_kernel.git import output_parser
from wap_kernel.git.local.repository import LocalRepository
from wap_kernel.git.remote import bundles
from wap_kernel.model.git.operations import GitTransfer
from wap_kernel.model.limits import MAX_PREVIEWED_COMMITS
from wap_kernel.model.paths import render_path

if TYPE_CHECKING:
    from wap_kernel.git.remote.server_repository import ServerRepository, Variables
    from wap_kernel.git.remote.transfer import RemoteLink

ABSENT = "absent"
_REMOTE = "the remote"
_BRANCH = "the branch "
_LAST_SEEN = "what was last seen there"
_LISTED = "what is new and what is lost there"
_MORE = "... and more"
_NO_COMMIT = "0" * 40
"""No commit has this id."""
_LOG_OPTIONS = (
    f"--max-count={MAX_PREVIEWED_COMMITS + 1}",
    "--no-show-signature",
    "--no-color",
    "--no-patch",
    "--format=%h %s",
)


@dataclass(frozen=True)
class TransferPreview:
    """The effect of a transfer, as far as it is known before."""

    remote: str | None = None
    branch: str | None = None
    commit: str | None = None
    """The commit to push. None: there is none, or the branch is to be deleted."""
    commits: tuple[str, ...] = ()
    """Commits that would be new at the remote, newest first: ids and subjects."""
    seen: str | None = None
    """The commit that the remote's branch was at when the server last saw it."""
    overwritten: tuple[str, ...] = ()
    """Commits that the remote would lose, by force or by deletion: ids and subjects."""

    @property
    def evidence(self) -> dict[str, str]:
        """Return the facts that must be the same when the transfer runs; see `runs/approval_evidence.py`."""
        found = {_REMOTE: self.remote or ABSENT}
        if self.branch is None:
            return found
        found |= {f"{_BRANCH}{self.branch}": self.commit or ABSENT, _LAST_SEEN: self.seen or ABSENT}
        return {**found, _LISTED: content_hash.hash_bytes("\n".join((*self.commits, "", *self.overwritten)).encode())}

    def describe(self, operation: GitTransfer) -> dict[str, Any]:
        """Return the description for the person who decides about the approval."""
        described = {
            "command": _fill_in_evidence(operation, self.evidence).line,
            "cwd": operation.folder,
            "remote": self.remote,
            "branch": self.branch,
            "commit": self.commit,
            "commits": list(self.commits) or None,
            "seen": self.seen,
            "overwritten": list(self.overwritten) or None,
        }
        return {name: value for name, value in described.items() if value is not None}


def bind_evidence(operation: GitTransfer, evidence: Mapping[str, str | None]) -> GitTransfer:
    """Return the operation with the approved facts instead of names.

    A person who saw no commit has approved none: the push then gets a commit id that does not exist.
    """
    named = _fill_in_evidence(operation, evidence)
    approved = [commit for name, commit in evidence.items() if name.startswith(_BRANCH) and commit != ABSENT]
    if operation.action != "push" or operation.delete or approved:
        return named
    return named.model_copy(update={"revision": _NO_COMMIT})


def _fill_in_evidence(operation: GitTransfer, evidence: Mapping[str, str | None]) -> GitTransfer:
    update: dict[str, str] = {}
    if (remote := evidence.get(_REMOTE)) not in (None, ABSENT):
        update["url"] = str(remote)
    for name, commit in evidence.items():
        if name.startswith(_BRANCH):
            update["branch"] = name.removeprefix(_BRANCH)
            if commit not in (None, ABSENT):
                update["revision"] = str(commit)
    return operation.model_copy(update=update)


def preview_push(
    repository: LocalRepository, link: RemoteLink, branch: str, *, force: bool, delete: bool
) -> TransferPreview:
    """Return the preview of a push.

    The commits are listed in a quarantine of the server's repository: in the workspace an object can hold anything,
    whatever its id says, and the import computes the ids anew. The quarantine is removed afterwards.
    """
    server, ref = link.server, f"refs/heads/{branch}"
    with server.lock(), server.quarantine() as quarantine:
        seen = server.read_last_seen(branch)
        commit: str | None = None
        added: tuple[str, ...] = ()
        if not delete and repository.find_ref(ref) is not None:
            try:
                commit = bundles.export_commit(repository.git, repository.info, server, ref, variables=quarantine)
                added = _list_commits(server, quarantine, commit, seen)
            finally:
                server.run("update-ref", "-d", bundles.ARRIVED_REF)
        lost = _list_commits(server, quarantine, seen, commit) if seen is not None and (force or delete) else ()
    return TransferPreview(server.remote.url, branch, commit, added, seen, lost)


def _list_commits(server: ServerRepository, quarantine: Variables, commit: str, without: str | None) -> tuple[str, ...]:
    excluded = () if without is None else (f"^{without}",)
    return _parse_subjects(server.run("log", *_LOG_OPTIONS, commit, *excluded, "--", variables=quarantine)[1])


def _parse_subjects(stdout: bytes) -> tuple[str, ...]:
    found = tuple(map(render_path, output_parser.split_lines(stdout)))
    return found if len(found) <= MAX_PREVIEWED_COMMITS else (*found[:MAX_PREVIEWED_COMMITS], _MORE)
