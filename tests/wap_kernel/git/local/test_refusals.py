"""Local operations: names that are not what they seem, and what policy denies."""

from __future__ import annotations

import pytest

from tests.support.git_repository import Workspace, denying
from wap_kernel.git.local import changes, queries
from wap_kernel.model.command import Confinement
from wap_kernel.model.errors import InvalidArgument, PermissionDenied
from wap_kernel.model.git.results import CommitDetails, FolderAtCommit, GitError

# -- names that are not what they seem


@pytest.mark.parametrize(
    "name",
    [
        *("-D", "--orphan", "--upload-pack=id", "", "a b", "a..b", "a~1", "@{-1}", "HEAD", "@", "refs/heads/x", "a\nb"),
        *("a.lock", ".a", "a/.b", "/a", "a/", "a//b", "a:b", "a*", "a\\b", "\udc80", "a" * 300, "a@{1}", "0" * 40),
        *("a\u2028b", "a\u202eb", "a\x85b"),
    ],
)
def test_a_branch_with_such_a_name_is_refused(workspace: Workspace, name: str) -> None:
    with pytest.raises(InvalidArgument):
        changes.create_branch(workspace.open_repository(), name)


@pytest.mark.parametrize("name", ["-p", "--output=x", "--all", ":/saved", "HEAD^{/saved}", "a b", "$(id)", "HEAD\n"])
def test_a_revision_that_is_an_option_or_a_search_is_refused(workspace: Workspace, name: str) -> None:
    repository = workspace.open_repository()
    with pytest.raises(InvalidArgument):
        queries.log(repository, name)
    assert not (workspace.folder / "x").exists()


@pytest.mark.parametrize("path", ["../x", "a/../../x", "/etc/passwd", ".git/config", "a/.GIT/x", "x\0y", ""])
def test_a_path_that_leaves_or_belongs_to_git_is_refused(workspace: Workspace, path: str) -> None:
    with pytest.raises((PermissionDenied, InvalidArgument)):
        changes.add(workspace.open_repository(), [path])


def test_paths_are_taken_literally(workspace: Workspace) -> None:
    for name in ("*.txt", "a.txt", "-A", ":(top)x", ":!a.txt"):
        workspace.write(name, "1")
    repository = workspace.open_repository()
    added = changes.add(repository, ["*.txt", "-A", ":(top)x", ":!a.txt"])
    assert sorted(added.paths) == sorted(["*.txt", "-A", ":(top)x", ":!a.txt"])
    assert queries.status(repository).untracked == ("a.txt",)


# -- policy


def test_git_show_of_a_denied_path_is_denied(workspace: Workspace) -> None:
    workspace.write(".env", "TOKEN=1\n")
    workspace.write("secrets/key", "KEY\n")
    workspace.write("open", "open\n")
    workspace.save()
    repository = workspace.open_repository(denying(".env", "secrets"))
    for target in ("HEAD:.env", "HEAD:./.env", "main:.env", "HEAD:secrets", "HEAD:secrets/key"):
        with pytest.raises(PermissionDenied):
            queries.show(repository, target)
    for blob in (f"{workspace.plain('rev-parse', 'HEAD:.env').strip()}", "HEAD^{tree}"):
        with pytest.raises(GitError):
            queries.show(repository, blob)
    subtree = workspace.plain("rev-parse", "HEAD:secrets").strip()
    with pytest.raises(GitError):
        queries.show(repository, f"{subtree}:key")
    top = queries.show(repository, "HEAD:")
    assert isinstance(top, FolderAtCommit) and top.names == ("README.md", "open") and top.left_out == 2
    shown = queries.show(repository)
    assert isinstance(shown, CommitDetails)
    assert [file.path for file in shown.diff.files] == ["open"] and shown.diff.left_out == 2


def test_a_denied_path_is_in_no_diff(workspace: Workspace) -> None:
    workspace.write(".env", "TOKEN=one\n" * 9)
    workspace.write("a", "a\n")
    workspace.write("z", "z\n")
    workspace.save()
    workspace.plain("mv", ".env", "public")
    workspace.write("a", "b\n")
    workspace.write("z", "y\n")
    workspace.plain("add", "a")
    repository = workspace.open_repository(denying(".env"))
    found = queries.diff(repository)
    assert "TOKEN" not in str(found) and ".env" not in str(found)
    assert [file.path for file in found.staged.files] == ["a"] and found.staged.left_out == 1
    with pytest.raises(PermissionDenied):
        queries.diff(repository, [".env"])
    with pytest.raises(PermissionDenied):
        queries.log(repository, paths=[".env"])
    assert queries.status(repository).left_out == 1


def test_a_denied_file_in_conflict_shows_nothing(workspace: Workspace) -> None:
    workspace.write(".env", "TOKEN=one\n")
    workspace.write("a", "a\n")
    workspace.save()
    workspace.plain("switch", "--quiet", "-c", "theirs")
    workspace.write(".env", "TOKEN=two\n")
    workspace.save()
    workspace.plain("switch", "--quiet", "main")
    workspace.write(".env", "TOKEN=three\n")
    workspace.save()
    workspace.plain("merge", "theirs", check=False)
    workspace.write("a", "b\n")
    found = queries.diff(workspace.open_repository(denying(".env")))
    assert "TOKEN" not in str(found) and [file.path for file in found.unstaged.files] == ["a"]


def test_a_file_that_the_sandbox_hides_is_not_committed_empty(workspace: Workspace) -> None:
    workspace.write(".env", "TOKEN=one\n")
    workspace.write("a", "a\n")
    workspace.save()
    workspace.write("a", "b\n")
    confinement = Confinement(hidden=(".env",), read_only=(".git/config", ".git/hooks"), pinned=(".git",))
    repository = workspace.open_repository(denying(".env"), confinement=confinement)
    changes.commit(repository, "all", ["."])
    assert workspace.plain("show", "HEAD:.env") == "TOKEN=one\n"
    assert workspace.plain("diff", "--name-only", "HEAD~1", "HEAD").split() == ["a"]


def test_a_file_that_became_a_folder_brings_no_denied_file_with_it(workspace: Workspace) -> None:
    workspace.write("x", "a file\n")
    workspace.save()
    (workspace.folder / "x").unlink()
    workspace.write("x/.env", "TOKEN=one\n")
    workspace.write("x/ok", "ok\n")
    added = changes.add(workspace.open_repository(denying(".env")), ["."])
    assert (set(added.paths), added.left_out) == ({"x", "x/ok"}, 1)
    assert workspace.plain("ls-files").split() == ["README.md", "x/ok"]


def test_a_branch_that_would_change_a_protected_file_is_not_checked_out(workspace: Workspace) -> None:
    workspace.plain("switch", "--quiet", "-c", "sly")
    workspace.write(".cws-policy.json", "{}")
    workspace.save()
    workspace.plain("switch", "--quiet", "main")
    repository = workspace.open_repository(denying(".cws-policy.json"))
    with pytest.raises(PermissionDenied):
        changes.checkout(repository, "sly")
    with pytest.raises(PermissionDenied):
        changes.restore(repository, [".cws-policy.json"], source="sly")
    changes.restore(repository, ["."], source="sly")
    assert not (workspace.folder / ".cws-policy.json").exists()
