"""Remote operations: fetch, pull, push. Each goes through the server's own repository.

workspace  --bundle, made in the sandbox-->  server's repository  --push, with the credential-->  remote
workspace  <--bundle, unpacked in the sandbox--  server's repository  <--fetch, with the credential--  remote
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from wap_kernel.git import output_parser
from wap_kernel.git.local import filters
from wap_kernel.git.local.changes import check_writes
from wap_kernel.git.local.repository import Work, current
from wap_kernel.git.local.sandboxed_git import Inside, Repository, borrowed
from wap_kernel.git.remote import bundles
from wap_kernel.git.remote.credentials import CredentialSource
from wap_kernel.git.remote.server_repository import Host
from wap_kernel.model.git import names
from wap_kernel.model.git.results import Fetched, GitFailed, Pulled, Pushed, Reason, RefChange, failed

_MAX_LOOKED_AT = 50


@dataclass(frozen=True)
class Link:
    """A remote, the server's repository for it, and where its credential comes from."""

    host: Host
    source: CredentialSource

    def remotely(self, *arguments: str) -> bytes:
        """Git with the credential. One that is refused is asked for anew, once: it may have been revoked."""
        remote = self.host.remote
        try:
            return self.host.remotely(*arguments, credential=self.source.credential(remote))[1]
        except GitFailed as error:
            if error.failure.reason is not Reason.CREDENTIAL or not self.source.forget(remote):
                raise
        return self.host.remotely(*arguments, credential=self.source.credential(remote))[1]

    def update(self) -> None:
        """Bring the server's repository up to date with the remote."""
        remote = self.host.remote
        specs = (f"+refs/heads/*:refs/remotes/{remote.name}/*", "+refs/tags/*:refs/tags/*")
        options = ("--quiet", "--prune", "--no-tags", "--no-write-fetch-head", "--no-auto-maintenance", "--refmap=")
        self.remotely("fetch", *options, "--no-recurse-submodules", "--end-of-options", remote.url, *specs)

    def refuse_lfs(self, *commits: str) -> None:
        """Large files would be pushed as their pointers only, or fetched without their contents."""
        if not commits:
            return
        pathspecs = (":(glob).gitattributes", ":(glob)**/.gitattributes")
        options = ("--quiet", "--fixed-strings", "--no-recurse-submodules", "-e", "filter=lfs")
        arguments = (*options, *commits[:_MAX_LOOKED_AT], "--", *pathspecs)
        status, _ = self.host.git("grep", *arguments, accept=(0, 1), variables={"GIT_LITERAL_PATHSPECS": "0"})
        if status == 0:
            raise failed(
                Reason.LFS, "The repository uses Git LFS, which is not supported here. A person transfers it by hand."
            )


def refuse_partial(repository: Repository) -> None:
    if repository.shallow:
        raise failed(
            Reason.SHALLOW,
            "The repository is a shallow clone: its history is cut off. Clone it whole, or a person runs "
            "`git fetch --unshallow`.",
        )
    if repository.borrows:
        raise borrowed()


def push(
    link: Link,
    work: Work,
    branch: str | None = None,
    *,
    force: bool = False,
    delete: bool = False,
    agreed: str | None = None,
) -> Pushed:
    """Push one branch of the workspace to the branch of that name; `agreed` is the commit that it must be at.
    `questions` says what policy is asked before."""
    branch = names.branch(branch or current(work))
    if delete:
        return _delete(link, work, branch)
    refuse_partial(work.repository)
    host, name = link.host, link.host.remote.name
    ref, tracking = f"refs/heads/{branch}", f"refs/remotes/{name}/{branch}"
    if work.ref(ref) is None:
        raise failed(Reason.UNKNOWN_REVISION, "There is no such branch, or no commit on it. Look at branch.")
    with host.held():
        commit = bundles.take_out(work.inside, work.repository, host, ref)
        if agreed not in (None, commit):
            raise failed(Reason.MOVED, "The branch has moved since a person agreed to the push. Push again: it asks.")
        link.refuse_lfs(commit)
        before = bundles.refs(host, tracking).get(tracking)
        options = ("--porcelain", "--quiet", "--no-verify", "--no-follow-tags", "--no-recurse-submodules")
        forced = (_lease(ref, before),) if force else ()
        link.remotely("push", *options, *forced, "--end-of-options", host.remote.url, f"{commit}:{ref}")
        host.git("update-ref", tracking, commit)
        host.git("update-ref", "-d", bundles.ARRIVED)
    bundles.set_refs(work.inside, work.repository, {tracking: commit})
    return Pushed(name, (RefChange(branch, before, commit),))


def _lease(ref: str, seen: str | None) -> str:
    """Overwrite what was seen there, and not what somebody pushed since."""
    return f"--force-with-lease={ref}:{seen or ''}"


def _delete(link: Link, work: Work, branch: str) -> Pushed:
    host, name = link.host, link.host.remote.name
    tracking = f"refs/remotes/{name}/{branch}"
    with host.held():
        before = bundles.refs(host, tracking).get(tracking)
        options = ("--porcelain", "--quiet", "--no-verify", "--no-recurse-submodules")
        ref = f"refs/heads/{branch}"
        link.remotely("push", *options, _lease(ref, before), "--end-of-options", host.remote.url, f":{ref}")
        host.git("update-ref", "-d", tracking)
    bundles.set_refs(work.inside, work.repository, {tracking: None})
    return Pushed(name, (RefChange(branch, before, None),))


def fetch(link: Link, work: Work) -> Fetched:
    """Bring the remote's branches and tags into the workspace, as `origin/...`."""
    refuse_partial(work.repository)
    with link.host.held():
        link.update()
        return bring_in(link, work.inside, work.repository)


def bring_in(link: Link, inside: Inside, repository: Repository) -> Fetched:
    name = link.host.remote.name
    patterns = (f"refs/remotes/{name}", "refs/tags")
    there = bundles.refs(link.host, *patterns)
    here = bundles.refs_inside(inside, repository, *patterns)
    # A tag that the workspace has stays as it is, as git itself has it.
    changed = {
        ref: value for ref, value in there.items() if here.get(ref) != value and not (ref in here and _is_tag(ref))
    }
    gone: dict[str, str | None] = {ref: None for ref in here if ref not in there and not _is_tag(ref)}
    gone.pop(f"refs/remotes/{name}/HEAD", None)
    if changed:
        link.refuse_lfs(*(value for ref, value in changed.items() if not _is_tag(ref)))
        bundles.bring_in(inside, repository, link.host, changed, here.values())
    bundles.set_refs(inside, repository, {**changed, **gone})
    return Fetched(name, tuple(_changes({**changed, **gone}, here)))


def _is_tag(ref: str) -> bool:
    return ref.startswith("refs/tags/")


def _changes(changed: Mapping[str, str | None], before: Mapping[str, str]) -> list[RefChange]:
    return [RefChange(ref.split("/", 2)[2], before.get(ref), value) for ref, value in changed.items()]


def pull(link: Link, work: Work) -> Pulled:
    """Fetch, and merge the remote's branch of the current name: forward if that is enough, else with a commit."""
    branch = names.branch(current(work))
    fetched = fetch(link, work)
    name = link.host.remote.name
    target = work.ref(f"refs/remotes/{name}/{branch}")
    if target is None:
        raise failed(Reason.UNKNOWN_REVISION, "The remote has no branch of the current name. Push it first.")
    before = work.find("HEAD")
    if before is not None and _is_ancestor(work, target, before):
        return Pulled(fetched, branch, before, before, "up-to-date")
    _check_merge(work, before, target)
    options = ("--quiet", "--no-edit", "--no-verify", "--no-gpg-sign", "--no-stat", "--no-autostash")
    message = f"--message=Merge branch '{branch}' of {link.host.remote.url}"
    merging = replace(work.repository, settings=(*work.repository.settings, (f"branch.{branch}.mergeOptions", "")))
    try:
        replace(work, repository=merging).change("merge", *options, "--strategy=ort", "--ff", message, target)
    except GitFailed as error:
        conflicts = tuple(work.shown(change.path) for change in work.status().conflicts if work.may_read(change.path))
        reason = Reason.CONFLICTS if conflicts else error.failure.reason
        raise GitFailed(replace(error.failure, reason=reason, conflicts=conflicts)) from None
    after = work.commit("HEAD")
    return Pulled(fetched, branch, before, after, "fast-forward" if after == target else "merge")


def _is_ancestor(work: Work, older: str, newer: str) -> bool:
    return work.read("merge-base", "--is-ancestor", older, newer, accept=(0, 1)).exit_code == 0


def _check_merge(work: Work, before: str | None, target: str) -> None:
    """Policy is asked about what the other side changed. Of Git LFS there may be something too, if a person fetched."""
    if before is None:
        changed = work.read("ls-tree", "-r", "-z", "--name-only", "--full-tree", target)
    else:
        changed = work.read("diff", "--name-only", "--no-renames", "-z", f"{before}...{target}", "--", accept=(0, 128))
    paths = output_parser.lines(changed.stdout)
    check_writes(work, paths)
    filters.refuse_lfs(work, paths, target)
