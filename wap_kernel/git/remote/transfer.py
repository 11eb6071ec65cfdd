"""Fetch, pull and push, each through the server's own repository.

workspace  --bundle, made in the sandbox-->  server's repository  --push, with the credential-->  remote
workspace  <--bundle, unpacked in the sandbox--  server's repository  <--fetch, with the credential--  remote
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from wap_kernel.git import output_parser
from wap_kernel.git.local import filters
from wap_kernel.git.local.changes import check_writes
from wap_kernel.git.local.repository import LocalRepository, read_current_branch
from wap_kernel.git.local.sandboxed_git import RepositoryInfo, SandboxedGit, borrowed_objects_error
from wap_kernel.git.remote import bundles
from wap_kernel.git.remote.credentials import CredentialSource
from wap_kernel.git.remote.server_repository import ServerRepository
from wap_kernel.model.git import names
from wap_kernel.model.git.results import (
    FetchResult,
    GitError,
    GitFailureReason,
    PullResult,
    PushResult,
    RefChange,
    build_git_error,
)

_MAX_SEARCHED_COMMITS = 50


@dataclass(frozen=True)
class RemoteLink:
    """A remote, the server's repository for it, and the source of its credential."""

    server: ServerRepository
    source: CredentialSource

    def run_remote(self, *arguments: str) -> bytes:
        """Run git with the credential; retry once with a new one if the remote refuses it as revoked."""
        remote = self.server.remote
        try:
            return self.server.run_remote(*arguments, credential=self.source.credential(remote))[1]
        except GitError as error:
            if error.failure.reason is not GitFailureReason.CREDENTIAL or not self.source.forget(remote):
                raise
        return self.server.run_remote(*arguments, credential=self.source.credential(remote))[1]

    def fetch_remote(self) -> None:
        """Bring the server's repository up to date with the remote."""
        remote = self.server.remote
        specs = (f"+refs/heads/*:refs/remotes/{remote.name}/*", "+refs/tags/*:refs/tags/*")
        options = ("--quiet", "--prune", "--no-tags", "--no-write-fetch-head", "--no-auto-maintenance", "--refmap=")
        self.run_remote("fetch", *options, "--no-recurse-submodules", "--end-of-options", remote.url, *specs)

    def refuse_lfs(self, *commits: str) -> None:
        """Refuse commits with Git LFS: large files would be transferred as their pointers only."""
        if not commits:
            return
        pathspecs = (":(glob).gitattributes", ":(glob)**/.gitattributes")
        options = ("--quiet", "--fixed-strings", "--no-recurse-submodules", "-e", "filter=lfs")
        arguments = (*options, *commits[:_MAX_SEARCHED_COMMITS], "--", *pathspecs)
        status, _ = self.server.run("grep", *arguments, accept=(0, 1), variables={"GIT_LITERAL_PATHSPECS": "0"})
        if status == 0:
            raise build_git_error(
                GitFailureReason.LFS,
                "The repository uses Git LFS, which is not supported here. A person transfers it by hand.",
            )


def refuse_partial(info: RepositoryInfo) -> None:
    if info.shallow:
        raise build_git_error(
            GitFailureReason.SHALLOW,
            "The repository is a shallow clone: its history is cut off. Clone it whole, or a person runs "
            "`git fetch --unshallow`.",
        )
    if info.borrows:
        raise borrowed_objects_error()


def push(
    link: RemoteLink,
    repository: LocalRepository,
    branch: str | None = None,
    *,
    force: bool = False,
    delete: bool = False,
    approved_commit: str | None = None,
) -> PushResult:
    """Push one branch of the workspace to the remote's branch of that name.

    `approved_commit` is the commit that the branch must be at, if a person approved the push.
    """
    branch = names.check_branch_name(branch or read_current_branch(repository))
    if delete:
        return _push_deletion(link, repository, branch)
    refuse_partial(repository.info)
    server, name = link.server, link.server.remote.name
    ref, tracking = f"refs/heads/{branch}", f"refs/remotes/{name}/{branch}"
    if repository.find_ref(ref) is None:
        raise build_git_error(
            GitFailureReason.UNKNOWN_REVISION, "There is no such branch, or no commit on it. Look at branch."
        )
    with server.lock():
        commit = bundles.export_commit(repository.git, repository.info, server, ref)
        if approved_commit not in (None, commit):
            raise build_git_error(
                GitFailureReason.MOVED,
                "The branch has moved since a person approved the push. Push again to request a new approval.",
            )
        link.refuse_lfs(commit)
        before = bundles.read_server_refs(server, tracking).get(tracking)
        options = ("--porcelain", "--quiet", "--no-verify", "--no-follow-tags", "--no-recurse-submodules")
        forced = (_build_lease_option(ref, before),) if force else ()
        link.run_remote("push", *options, *forced, "--end-of-options", server.remote.url, f"{commit}:{ref}")
        server.run("update-ref", tracking, commit)
        server.run("update-ref", "-d", bundles.ARRIVED_REF)
    bundles.set_refs(repository.git, repository.info, {tracking: commit})
    return PushResult(name, (RefChange(branch, before, commit),))


def _build_lease_option(ref: str, seen: str | None) -> str:
    """Return the option that overwrites the commit that was seen, and none that was pushed since."""
    return f"--force-with-lease={ref}:{seen or ''}"


def _push_deletion(link: RemoteLink, repository: LocalRepository, branch: str) -> PushResult:
    server, name = link.server, link.server.remote.name
    tracking = f"refs/remotes/{name}/{branch}"
    with server.lock():
        before = bundles.read_server_refs(server, tracking).get(tracking)
        options = ("--porcelain", "--quiet", "--no-verify", "--no-recurse-submodules")
        ref = f"refs/heads/{branch}"
        link.run_remote(
            "push", *options, _build_lease_option(ref, before), "--end-of-options", server.remote.url, f":{ref}"
        )
        server.run("update-ref", "-d", tracking)
    bundles.set_refs(repository.git, repository.info, {tracking: None})
    return PushResult(name, (RefChange(branch, before, None),))


def fetch(link: RemoteLink, repository: LocalRepository) -> FetchResult:
    """Copy the remote's branches and tags into the workspace, as `origin/...`."""
    refuse_partial(repository.info)
    with link.server.lock():
        link.fetch_remote()
        return import_refs(link, repository.git, repository.info)


def import_refs(link: RemoteLink, git: SandboxedGit, info: RepositoryInfo) -> FetchResult:
    name = link.server.remote.name
    patterns = (f"refs/remotes/{name}", "refs/tags")
    there = bundles.read_server_refs(link.server, *patterns)
    here = bundles.read_workspace_refs(git, info, *patterns)
    # A tag that the workspace has stays as it is, as git itself has it.
    changed = {
        ref: value for ref, value in there.items() if here.get(ref) != value and not (ref in here and _is_tag(ref))
    }
    gone: dict[str, str | None] = {ref: None for ref in here if ref not in there and not _is_tag(ref)}
    gone.pop(f"refs/remotes/{name}/HEAD", None)
    if changed:
        link.refuse_lfs(*(value for ref, value in changed.items() if not _is_tag(ref)))
        bundles.import_commits(git, info, link.server, changed, here.values())
    bundles.set_refs(git, info, {**changed, **gone})
    return FetchResult(name, tuple(_list_ref_changes({**changed, **gone}, here)))


def _is_tag(ref: str) -> bool:
    return ref.startswith("refs/tags/")


def _list_ref_changes(changed: Mapping[str, str | None], before: Mapping[str, str]) -> list[RefChange]:
    return [RefChange(ref.split("/", 2)[2], before.get(ref), value) for ref, value in changed.items()]


def pull(link: RemoteLink, repository: LocalRepository) -> PullResult:
    """Fetch, and merge the remote's branch of the current name: forward if that is enough, else with a commit."""
    branch = names.check_branch_name(read_current_branch(repository))
    fetched = fetch(link, repository)
    name = link.server.remote.name
    target = repository.find_ref(f"refs/remotes/{name}/{branch}")
    if target is None:
        raise build_git_error(
            GitFailureReason.UNKNOWN_REVISION, "The remote has no branch of the current name. Push it first."
        )
    before = repository.find_commit("HEAD")
    if before is not None and _is_ancestor(repository, target, before):
        return PullResult(fetched, branch, before, before, "up-to-date")
    _check_merge(repository, before, target)
    options = ("--quiet", "--no-edit", "--no-verify", "--no-gpg-sign", "--no-stat", "--no-autostash")
    message = f"--message=Merge branch '{branch}' of {link.server.remote.url}"
    merging = replace(repository.info, settings=(*repository.info.settings, (f"branch.{branch}.mergeOptions", "")))
    try:
        replace(repository, info=merging).change("merge", *options, "--strategy=ort", "--ff", message, target)
    except GitError as error:
        conflicts = tuple(
            repository.render_path(change.path)
            for change in repository.read_status().conflicts
            if repository.may_read(change.path)
        )
        reason = GitFailureReason.CONFLICTS if conflicts else error.failure.reason
        raise GitError(replace(error.failure, reason=reason, conflicts=conflicts)) from None
    after = repository.require_commit("HEAD")
    return PullResult(fetched, branch, before, after, "fast-forward" if after == target else "merge")


def _is_ancestor(repository: LocalRepository, older: str, newer: str) -> bool:
    return repository.read("merge-base", "--is-ancestor", older, newer, accept=(0, 1)).exit_code == 0


def _check_merge(repository: LocalRepository, before: str | None, target: str) -> None:
    """Refuse a merge that changes a protected path, or a path of Git LFS, which a person may have fetched."""
    if before is None:
        changed = repository.read("ls-tree", "-r", "-z", "--name-only", "--full-tree", target)
    else:
        changed = repository.read(
            "diff", "--name-only", "--no-renames", "-z", f"{before}...{target}", "--", accept=(0, 128)
        )
    paths = output_parser.split_records(changed.stdout)
    check_writes(repository, paths)
    filters.refuse_lfs(repository, paths, target)
