"""A remote that means harm: names that look like something else, words and packs without end, commits nobody saw."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.support.git_repository import MakeWorkspace, plain
from tests.support.git_team import Team
from wap_kernel.git.local import queries
from wap_kernel.git.remote import server_repository
from wap_kernel.git.remote.transfer import fetch, push
from wap_kernel.model.git.results import GitError, GitFailureReason


def test_the_name_of_a_branch_is_one_name(team: Team, tmp_path: Path) -> None:
    """Python ends lines at characters that git allows in names; what follows one was once an option of git's."""
    workspace = team.workspace
    push(team.link(), workspace.open_repository())
    precious = tmp_path / "precious"
    precious.write_text("as it was")
    theirs = team.colleague(tmp_path / "colleague", "b", "theirs")
    mine = workspace.plain("rev-parse", "main")
    odd = [f"x\u2028--output={precious}", "x\u2028refs/heads/main", "x\x85y"]
    for name in odd:
        team.there("update-ref", f"refs/heads/{name}", theirs)
    fetched = fetch(team.link(), workspace.open_repository())
    assert {ref.name for ref in fetched.refs} == {"origin/main", *(f"origin/{name}" for name in odd)}
    assert precious.read_text() == "as it was" and workspace.plain("rev-parse", "main") == mine
    assert {f"origin/{name}" for name in odd} < {
        one.name for one in queries.branches(workspace.open_repository()).branches
    }


def test_the_name_of_a_folder_is_one_name(make: MakeWorkspace, tmp_path: Path) -> None:
    """Its lines look like the answers about another repository, which lies inside."""
    workspace = make("local")
    workspace.init()
    outside = tmp_path / "outside"
    outside.mkdir()
    plain(outside, "init", "--quiet")
    top = str(workspace.folder)
    inner = f"a\n{top}/.git\n{top}/.git"
    for folder in (inner, "a", "b\n"):
        workspace.write(f"{folder}/.git", f"gitdir: {outside}/.git\n")
    for folder in (inner, "a", "b\n"):
        with pytest.raises(GitError) as caught:
            workspace.sandboxed_git().inspect(folder)
        assert caught.value.failure.reason is GitFailureReason.OUTSIDE, folder


def test_commits_that_nobody_saw_are_not_overwritten(team: Team, tmp_path: Path) -> None:
    workspace = team.workspace
    push(team.link(), workspace.open_repository())
    theirs = team.colleague(tmp_path / "colleague", "b", "theirs")
    mine = workspace.save()
    for force in (True, False):
        with pytest.raises(GitError) as caught:
            push(team.link(), workspace.open_repository(), "main", force=force, delete=not force)
        assert caught.value.failure.reason is GitFailureReason.BEHIND and "Fetch" in caught.value.failure.text
        assert team.there("rev-parse", "main").strip() == theirs
    fetch(team.link(), workspace.open_repository())
    push(team.link(), workspace.open_repository(), force=True)
    assert team.there("rev-parse", "main").strip() == mine


def test_a_remote_that_talks_without_end(team: Team) -> None:
    hook = team.bare() / "hooks" / "pre-receive"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\nyes 'no, because' | head -n 20000\nexit 1\n")
    hook.chmod(0o755)
    with pytest.raises(GitError) as caught:
        push(team.link(), team.workspace.open_repository())
    failure = caught.value.failure
    assert failure.reason is GitFailureReason.REFUSED and "no, because" in failure.stderr
    assert len(failure.stderr) <= server_repository.MAX_GIT_MESSAGE_BYTES


def test_a_remote_that_says_the_token_without_end(team: Team) -> None:
    """The stored end of the messages begins within a secret, after another character in each try."""
    token = team.app.credential(team.remote()).secret.reveal()
    hook = team.bare() / "hooks" / "pre-receive"
    hook.parent.mkdir(exist_ok=True)
    for shift in ("", "abc", "abcdefghijk"):
        hook.write_text(f"#!/bin/sh\nyes '{token}' | head -n 5000\necho {shift}\nexit 1\n")
        hook.chmod(0o755)
        with pytest.raises(GitError) as caught:
            push(team.link(), team.workspace.open_repository())
        said = caught.value.failure.stderr
        assert not any(token[at:] in said for at in range(len(token) - 4)), said[:100]


def test_a_remote_that_is_too_large(team: Team, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    push(team.link(), team.workspace.open_repository())
    team.colleague(tmp_path / "colleague", "large", os.urandom(400_000).hex())
    with monkeypatch.context() as patch:
        patch.setattr(server_repository, "MAX_TRANSFERRED_FILE_BYTES", 64 * 1024)
        with pytest.raises(GitError) as caught:
            fetch(team.link(), team.workspace.open_repository())
    assert caught.value.failure.reason is GitFailureReason.TOO_LARGE, caught.value.failure
    assert list(team.state.rglob("tmp_pack_*"))
    fetch(team.link(), team.workspace.open_repository())
    assert not list(team.state.rglob("tmp_*"))
