"""Local operations: what goes wrong, in clear words."""

from __future__ import annotations

import os

import pytest

from tests.support.git_repository import MakeWorkspace, Workspace, reason
from wap_kernel.git.local import changes, queries
from wap_kernel.model.command import Confinement
from wap_kernel.model.git.results import ChangedFile, GitError, GitFailureReason


def test_no_repository(make: MakeWorkspace) -> None:
    with pytest.raises(GitError) as caught:
        make().open_repository()
    assert reason(caught) is GitFailureReason.NO_REPOSITORY and caught.value.failure.exit_code == 128


@pytest.mark.parametrize("provider", ["local", "bubblewrap"])
def test_a_repository_above_the_workspace_is_not_taken(make: MakeWorkspace, provider: str) -> None:
    workspace = make(provider)
    workspace.plain("init", "--quiet", folder="..")
    with pytest.raises(GitError) as caught:
        workspace.open_repository()
    assert reason(caught) is GitFailureReason.NO_REPOSITORY


def test_a_locked_index(workspace: Workspace) -> None:
    workspace.write("a", "1")
    workspace.write(".git/index.lock", "")
    repository = workspace.open_repository()
    assert queries.status(repository).untracked == ("a",)
    with pytest.raises(GitError) as caught:
        changes.add(repository, ["a"])
    assert reason(caught) is GitFailureReason.LOCKED


def test_a_detached_head(workspace: Workspace) -> None:
    commit = workspace.save()
    repository = workspace.open_repository()
    assert changes.checkout(repository, commit).branch is None
    status = queries.status(repository)
    assert status.branch is None and status.note is not None and commit[:12] in status.note
    workspace.write("a", "1")
    assert changes.commit(repository, "on nothing", ["a"]).note is not None


def test_a_merge_conflict(workspace: Workspace) -> None:
    workspace.plain("switch", "--quiet", "-c", "theirs")
    workspace.write("README.md", "theirs\n")
    workspace.save()
    workspace.plain("switch", "--quiet", "main")
    workspace.write("README.md", "ours\n")
    workspace.save()
    workspace.plain("merge", "theirs", check=False)
    repository = workspace.open_repository()
    status = queries.status(repository)
    assert status.conflicts == (ChangedFile("README.md", "both-modified"),)
    assert status.underway == "merge" and status.note is not None
    (file,) = queries.diff(repository).unstaged.files
    assert file.kind == "unmerged" and "+<<<<<<< HEAD" in file.patch
    with pytest.raises(GitError) as caught:
        changes.commit(repository, "too early")
    assert reason(caught) is GitFailureReason.CONFLICTS and caught.value.failure.conflicts == ("README.md",)
    workspace.write("README.md", "both\n")
    merged = changes.commit(repository, "merged", ["README.md"])
    assert len(workspace.plain("rev-parse", f"{merged.id}^@").split()) == 2


def test_local_changes_in_the_way(workspace: Workspace) -> None:
    workspace.plain("switch", "--quiet", "-c", "other")
    workspace.write("README.md", "other\n")
    workspace.save()
    workspace.plain("switch", "--quiet", "main")
    workspace.write("README.md", "mine\n")
    with pytest.raises(GitError) as caught:
        changes.checkout(workspace.open_repository(), "other")
    assert reason(caught) is GitFailureReason.IN_THE_WAY


def test_nothing_to_commit_and_no_commit_yet(make: MakeWorkspace) -> None:
    workspace = make()
    workspace.plain("init", "--quiet", "--initial-branch=main")
    repository = workspace.open_repository()
    status = queries.status(repository)
    assert (status.branch, status.commit) == ("main", None)
    with pytest.raises(GitError) as caught:
        changes.commit(repository, "nothing")
    assert reason(caught) is GitFailureReason.NOTHING
    with pytest.raises(GitError):
        queries.log(repository)
    workspace.write("a", "1")
    assert changes.commit(repository, "first", ["a"]).files == 1


def test_unknown_names(workspace: Workspace) -> None:
    repository = workspace.open_repository()
    with pytest.raises(GitError) as caught:
        changes.add(repository, ["none"])
    assert reason(caught) is GitFailureReason.UNKNOWN_PATH
    with pytest.raises(GitError) as caught:
        changes.restore(repository, ["none"])
    assert reason(caught) is GitFailureReason.UNKNOWN_PATH
    with pytest.raises(GitError) as caught:
        queries.show(repository, "none")
    assert reason(caught) is GitFailureReason.UNKNOWN_REVISION
    workspace.write(".gitignore", "ignored\n")
    workspace.write("ignored", "1")
    with pytest.raises(GitError) as caught:
        changes.add(repository, ["ignored"])
    assert reason(caught) is GitFailureReason.UNKNOWN_PATH


def test_commits_without_an_identity_say_what_is_missing(workspace: Workspace) -> None:
    repository = workspace.open_repository()
    nobody = type(repository)(repository.git, repository.info, repository.permits)
    workspace.write("a", "1")
    with pytest.raises(GitError) as caught:
        changes.commit(nobody, "who?", ["a"])
    assert reason(caught) is GitFailureReason.IDENTITY


def test_a_name_that_is_not_utf8_is_told(workspace: Workspace) -> None:
    os.close(os.open(os.fsencode(workspace.folder) + b"/caf\xe9", os.O_CREAT | os.O_WRONLY))
    repository = workspace.open_repository()
    assert queries.status(repository).untracked == ("caf\\xe9",)
    with pytest.raises(GitError) as caught:
        changes.add(repository, ["."])
    assert reason(caught) is GitFailureReason.UNKNOWN_PATH and "caf" in caught.value.failure.text


def test_what_a_partial_clone_left_at_its_remote(workspace: Workspace) -> None:
    workspace.write("README.md", "changed\n")
    workspace.save()
    workspace.plain("config", "uploadpack.allowFilter", "true")
    address = f"file://{workspace.folder}"
    workspace.plain("clone", "--quiet", "--filter=blob:none", address, "part")
    for url in (address, "ext::sh -c id", "https://example.org/x"):
        workspace.plain("config", "remote.origin.url", url, folder="part")
        repository = workspace.open_repository(folder="part", confinement=Confinement(pinned=("part/.git",)))
        for target in ("HEAD~1:README.md", "HEAD"):
            with pytest.raises(GitError) as caught:
                queries.show(repository, target)
            assert reason(caught) is GitFailureReason.PARTIAL and "Clone it whole" in caught.value.failure.text


def test_before_the_first_commit(make: MakeWorkspace) -> None:
    workspace = make()
    workspace.plain("init", "--quiet")
    for look in (queries.log, queries.show):
        with pytest.raises(GitError) as caught:
            look(workspace.open_repository())
        assert (reason(caught), caught.value.failure.text) == (GitFailureReason.NOTHING, "There is no commit yet.")
    with pytest.raises(GitError) as caught:
        queries.log(workspace.open_repository(), "topic")
    assert reason(caught) is GitFailureReason.UNKNOWN_REVISION
