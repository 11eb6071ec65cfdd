"""Local operations: what goes wrong, in clear words."""

from __future__ import annotations

import os

import pytest

from tests.support.git_repository import MakeWorkspace, Workspace, reason
from wap_kernel.git.local import changes, queries
from wap_kernel.model.git.results import ChangedFile, GitFailed, Reason
from wap_kernel.providers.base import Confinement


def test_no_repository(make: MakeWorkspace) -> None:
    with pytest.raises(GitFailed) as caught:
        make().work()
    assert reason(caught) is Reason.NO_REPOSITORY and caught.value.failure.exit_code == 128


@pytest.mark.parametrize("provider", ["local", "bubblewrap"])
def test_a_repository_above_the_workspace_is_not_taken(make: MakeWorkspace, provider: str) -> None:
    workspace = make(provider)
    workspace.plain("init", "--quiet", folder="..")
    with pytest.raises(GitFailed) as caught:
        workspace.work()
    assert reason(caught) is Reason.NO_REPOSITORY


def test_a_locked_index(workspace: Workspace) -> None:
    workspace.write("a", "1")
    workspace.write(".git/index.lock", "")
    work = workspace.work()
    assert queries.status(work).untracked == ("a",)
    with pytest.raises(GitFailed) as caught:
        changes.add(work, ["a"])
    assert reason(caught) is Reason.LOCKED


def test_a_detached_head(workspace: Workspace) -> None:
    commit = workspace.save()
    work = workspace.work()
    assert changes.checkout(work, commit).branch is None
    status = queries.status(work)
    assert status.branch is None and status.note is not None and commit[:12] in status.note
    workspace.write("a", "1")
    assert changes.commit(work, "on nothing", ["a"]).note is not None


def test_a_merge_conflict(workspace: Workspace) -> None:
    workspace.plain("switch", "--quiet", "-c", "theirs")
    workspace.write("README.md", "theirs\n")
    workspace.save()
    workspace.plain("switch", "--quiet", "main")
    workspace.write("README.md", "ours\n")
    workspace.save()
    workspace.plain("merge", "theirs", check=False)
    work = workspace.work()
    status = queries.status(work)
    assert status.conflicts == (ChangedFile("README.md", "both-modified"),)
    assert status.underway == "merge" and status.note is not None
    (file,) = queries.diff(work).unstaged.files
    assert file.kind == "unmerged" and "+<<<<<<< HEAD" in file.patch
    with pytest.raises(GitFailed) as caught:
        changes.commit(work, "too early")
    assert reason(caught) is Reason.CONFLICTS and caught.value.failure.conflicts == ("README.md",)
    workspace.write("README.md", "both\n")
    merged = changes.commit(work, "merged", ["README.md"])
    assert len(workspace.plain("rev-parse", f"{merged.id}^@").split()) == 2


def test_local_changes_in_the_way(workspace: Workspace) -> None:
    workspace.plain("switch", "--quiet", "-c", "other")
    workspace.write("README.md", "other\n")
    workspace.save()
    workspace.plain("switch", "--quiet", "main")
    workspace.write("README.md", "mine\n")
    with pytest.raises(GitFailed) as caught:
        changes.checkout(workspace.work(), "other")
    assert reason(caught) is Reason.IN_THE_WAY


def test_nothing_to_commit_and_no_commit_yet(make: MakeWorkspace) -> None:
    workspace = make()
    workspace.plain("init", "--quiet", "--initial-branch=main")
    work = workspace.work()
    status = queries.status(work)
    assert (status.branch, status.commit) == ("main", None)
    with pytest.raises(GitFailed) as caught:
        changes.commit(work, "nothing")
    assert reason(caught) is Reason.NOTHING
    with pytest.raises(GitFailed):
        queries.log(work)
    workspace.write("a", "1")
    assert changes.commit(work, "first", ["a"]).files == 1


def test_unknown_names(workspace: Workspace) -> None:
    work = workspace.work()
    with pytest.raises(GitFailed) as caught:
        changes.add(work, ["none"])
    assert reason(caught) is Reason.UNKNOWN_PATH
    with pytest.raises(GitFailed) as caught:
        changes.restore(work, ["none"])
    assert reason(caught) is Reason.UNKNOWN_PATH
    with pytest.raises(GitFailed) as caught:
        queries.show(work, "none")
    assert reason(caught) is Reason.UNKNOWN_REVISION
    workspace.write(".gitignore", "ignored\n")
    workspace.write("ignored", "1")
    with pytest.raises(GitFailed) as caught:
        changes.add(work, ["ignored"])
    assert reason(caught) is Reason.UNKNOWN_PATH


def test_commits_without_an_identity_say_what_is_missing(workspace: Workspace) -> None:
    work = workspace.work()
    nobody = type(work)(work.inside, work.repository, work.permits)
    workspace.write("a", "1")
    with pytest.raises(GitFailed) as caught:
        changes.commit(nobody, "who?", ["a"])
    assert reason(caught) is Reason.IDENTITY


def test_a_name_that_is_not_utf8_is_told(workspace: Workspace) -> None:
    os.close(os.open(os.fsencode(workspace.folder) + b"/caf\xe9", os.O_CREAT | os.O_WRONLY))
    work = workspace.work()
    assert queries.status(work).untracked == ("caf\\xe9",)
    with pytest.raises(GitFailed) as caught:
        changes.add(work, ["."])
    assert reason(caught) is Reason.UNKNOWN_PATH and "caf" in caught.value.failure.text


def test_what_a_partial_clone_left_at_its_remote(workspace: Workspace) -> None:
    workspace.write("README.md", "changed\n")
    workspace.save()
    workspace.plain("config", "uploadpack.allowFilter", "true")
    address = f"file://{workspace.folder}"
    workspace.plain("clone", "--quiet", "--filter=blob:none", address, "part")
    for url in (address, "ext::sh -c id", "https://example.org/x"):
        workspace.plain("config", "remote.origin.url", url, folder="part")
        work = workspace.work(folder="part", confinement=Confinement(pinned=("part/.git",)))
        for target in ("HEAD~1:README.md", "HEAD"):
            with pytest.raises(GitFailed) as caught:
                queries.show(work, target)
            assert reason(caught) is Reason.PARTIAL and "Clone it whole" in caught.value.failure.text


def test_before_the_first_commit(make: MakeWorkspace) -> None:
    workspace = make()
    workspace.plain("init", "--quiet")
    for look in (queries.log, queries.show):
        with pytest.raises(GitFailed) as caught:
            look(workspace.work())
        assert (reason(caught), caught.value.failure.text) == (Reason.NOTHING, "There is no commit yet.")
    with pytest.raises(GitFailed) as caught:
        queries.log(workspace.work(), "topic")
    assert reason(caught) is Reason.UNKNOWN_REVISION
