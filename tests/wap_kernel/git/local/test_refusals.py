"""Local operations: names that are not what they seem, and what policy denies."""

from __future__ import annotations

import pytest

from tests.wap_kernel.git.scene import Workspace, denying
from wap_kernel.errors import InvalidArgument, PermissionDenied
from wap_kernel.git import changing, reading
from wap_kernel.git.answers import GitFailed, ShownCommit, ShownFolder
from wap_kernel.providers.base import Confinement

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
        changing.create_branch(workspace.work(), name)


@pytest.mark.parametrize("name", ["-p", "--output=x", "--all", ":/saved", "HEAD^{/saved}", "a b", "$(id)", "HEAD\n"])
def test_a_revision_that_is_an_option_or_a_search_is_refused(workspace: Workspace, name: str) -> None:
    work = workspace.work()
    with pytest.raises(InvalidArgument):
        reading.log(work, name)
    assert not (workspace.folder / "x").exists()


@pytest.mark.parametrize("path", ["../x", "a/../../x", "/etc/passwd", ".git/config", "a/.GIT/x", "x\0y", ""])
def test_a_path_that_leaves_or_belongs_to_git_is_refused(workspace: Workspace, path: str) -> None:
    with pytest.raises((PermissionDenied, InvalidArgument)):
        changing.add(workspace.work(), [path])


def test_paths_are_taken_literally(workspace: Workspace) -> None:
    for name in ("*.txt", "a.txt", "-A", ":(top)x", ":!a.txt"):
        workspace.write(name, "1")
    work = workspace.work()
    added = changing.add(work, ["*.txt", "-A", ":(top)x", ":!a.txt"])
    assert sorted(added.paths) == sorted(["*.txt", "-A", ":(top)x", ":!a.txt"])
    assert reading.status(work).untracked == ("a.txt",)


# -- policy


def test_git_show_of_a_denied_path_is_denied(workspace: Workspace) -> None:
    workspace.write(".env", "TOKEN=1\n")
    workspace.write("secrets/key", "KEY\n")
    workspace.write("open", "open\n")
    workspace.save()
    work = workspace.work(denying(".env", "secrets"))
    for target in ("HEAD:.env", "HEAD:./.env", "main:.env", "HEAD:secrets", "HEAD:secrets/key"):
        with pytest.raises(PermissionDenied):
            reading.show(work, target)
    for blob in (f"{workspace.plain('rev-parse', 'HEAD:.env').strip()}", "HEAD^{tree}"):
        with pytest.raises(GitFailed):
            reading.show(work, blob)
    subtree = workspace.plain("rev-parse", "HEAD:secrets").strip()
    with pytest.raises(GitFailed):
        reading.show(work, f"{subtree}:key")
    top = reading.show(work, "HEAD:")
    assert isinstance(top, ShownFolder) and top.names == ("README.md", "open") and top.left_out == 2
    shown = reading.show(work)
    assert isinstance(shown, ShownCommit)
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
    work = workspace.work(denying(".env"))
    found = reading.diff(work)
    assert "TOKEN" not in str(found) and ".env" not in str(found)
    assert [file.path for file in found.staged.files] == ["a"] and found.staged.left_out == 1
    with pytest.raises(PermissionDenied):
        reading.diff(work, [".env"])
    with pytest.raises(PermissionDenied):
        reading.log(work, paths=[".env"])
    assert reading.status(work).left_out == 1


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
    found = reading.diff(workspace.work(denying(".env")))
    assert "TOKEN" not in str(found) and [file.path for file in found.unstaged.files] == ["a"]


def test_a_file_that_the_sandbox_hides_is_not_committed_empty(workspace: Workspace) -> None:
    workspace.write(".env", "TOKEN=one\n")
    workspace.write("a", "a\n")
    workspace.save()
    workspace.write("a", "b\n")
    confinement = Confinement(hidden=(".env",), read_only=(".git/config", ".git/hooks"), pinned=(".git",))
    work = workspace.work(denying(".env"), confinement=confinement)
    changing.commit(work, "all", ["."])
    assert workspace.plain("show", "HEAD:.env") == "TOKEN=one\n"
    assert workspace.plain("diff", "--name-only", "HEAD~1", "HEAD").split() == ["a"]


def test_a_file_that_became_a_folder_brings_no_denied_file_with_it(workspace: Workspace) -> None:
    workspace.write("x", "a file\n")
    workspace.save()
    (workspace.folder / "x").unlink()
    workspace.write("x/.env", "TOKEN=one\n")
    workspace.write("x/ok", "ok\n")
    added = changing.add(workspace.work(denying(".env")), ["."])
    assert (set(added.paths), added.left_out) == ({"x", "x/ok"}, 1)
    assert workspace.plain("ls-files").split() == ["README.md", "x/ok"]


def test_a_branch_that_would_change_a_protected_file_is_not_checked_out(workspace: Workspace) -> None:
    workspace.plain("switch", "--quiet", "-c", "sly")
    workspace.write(".cws-policy.json", "{}")
    workspace.save()
    workspace.plain("switch", "--quiet", "main")
    work = workspace.work(denying(".cws-policy.json"))
    with pytest.raises(PermissionDenied):
        changing.checkout(work, "sly")
    with pytest.raises(PermissionDenied):
        changing.restore(work, [".cws-policy.json"], source="sly")
    changing.restore(work, ["."], source="sly")
    assert not (workspace.folder / ".cws-policy.json").exists()
