"""Local operations: their answers, on every provider, beside plain git's."""

from __future__ import annotations

import pytest

from tests.support.git_repository import BOT, MakeWorkspace, Workspace, reason
from tests.support.provider_workspace import ALL
from wap_kernel.git.local import changes, queries
from wap_kernel.model.command import Confinement
from wap_kernel.model.errors import InvalidArgument
from wap_kernel.model.git.results import (
    ChangedFile,
    CommitDetails,
    FileAtCommit,
    FolderAtCommit,
    GitError,
    GitFailureReason,
)


@pytest.mark.parametrize("provider", ALL)
def test_the_same_answers_on_every_provider(make: MakeWorkspace, provider: str) -> None:
    """Status, branch, edit, diff, commit, log, checkout."""
    workspace = make(provider)
    workspace.init()
    workspace.write("src/server.ts", "port = 1\n")
    repository = workspace.open_repository()
    assert queries.status(repository).untracked == ("src/",)
    made = changes.commit(repository, "fix: update port", ["src/server.ts"])
    assert made.id == workspace.plain("rev-parse", "HEAD").strip()
    assert (made.branch, made.author, made.files) == ("main", BOT, 1)
    workspace.write("src/server.ts", "port = 2\n")
    found = queries.diff(repository)
    assert [(file.path, file.kind, file.added, file.deleted) for file in found.unstaged.files] == [
        ("src/server.ts", "modified", 1, 1)
    ]
    assert found.unstaged.files[0].patch == workspace.plain("diff")
    assert found.staged.files == ()
    checked = changes.checkout(repository, "feature/new-thing")
    assert checked.created and checked.branch == "feature/new-thing"
    assert workspace.plain("branch", "--show-current").strip() == "feature/new-thing"
    assert [commit.subject for commit in queries.log(repository).commits] == ["fix: update port", "saved"]
    assert not changes.checkout(repository, "main").created
    assert changes.restore(repository, ["src"]).paths == ("src/server.ts",)
    assert queries.status(repository).changed == ()


def test_git_status(workspace: Workspace) -> None:
    for name in ("modified", "deleted", "renamed", "typed"):
        workspace.write(name, f"{name}\n" * 5)
    workspace.save()
    workspace.write("modified", "new\n")
    (workspace.folder / "deleted").unlink()
    workspace.plain("mv", "renamed", "new name")
    (workspace.folder / "typed").unlink()
    (workspace.folder / "typed").symlink_to("modified")
    workspace.write("added", "1")
    workspace.plain("add", "added")
    workspace.write('odd "name"\n', "1")
    status = queries.status(workspace.open_repository())
    assert status.staged == (ChangedFile("added", "added"), ChangedFile("new name", "renamed", "renamed"))
    assert status.changed == (
        ChangedFile("deleted", "deleted"),
        ChangedFile("modified", "modified"),
        ChangedFile("typed", "type-changed"),
    )
    assert status.untracked == ('odd "name"\n',)
    assert (status.branch, status.upstream, status.ahead, status.behind) == ("main", None, 0, 0)


def test_ahead_and_behind_without_a_configured_upstream(workspace: Workspace) -> None:
    workspace.plain("update-ref", "refs/remotes/origin/main", workspace.save(message="theirs"))
    workspace.plain("reset", "--quiet", "--hard", "HEAD~1")
    workspace.save(message="ours 1")
    workspace.save(message="ours 2")
    status = queries.status(workspace.open_repository())
    assert (status.upstream, status.ahead, status.behind) == ("origin/main", 2, 1)


def test_diff_of_everything_that_git_can_say(workspace: Workspace) -> None:
    lines = "".join(f"{number}\n" for number in range(20))
    for name in ("text", "binary", "mode", "old", "gone", "typed", "ünïcode", 'we"ird\n\t\\'):
        workspace.write(name, b"\0\1" if name == "binary" else "gone\n" * 20 if name == "gone" else lines)
    workspace.save()
    workspace.write("text", lines + "more\n")
    workspace.write("binary", b"\0\2")
    (workspace.folder / "mode").chmod(0o755)
    workspace.plain("mv", "old", "new")
    workspace.write("new", lines + "renamed\n")
    (workspace.folder / "gone").unlink()
    (workspace.folder / "typed").unlink()
    (workspace.folder / "typed").symlink_to("text")
    workspace.write("ünïcode", "diff --git a/x b/x\n" + lines)
    workspace.write('we"ird\n\t\\', "1\n" + lines)
    workspace.plain("add", "--all")
    found = queries.diff(workspace.open_repository()).staged
    assert {file.path: (file.kind, file.added, file.deleted) for file in found.files} == {
        "text": ("modified", 1, 0),
        "binary": ("modified", None, None),
        "mode": ("modified", 0, 0),
        "new": ("renamed", 1, 0),
        "gone": ("deleted", 0, 20),
        "typed": ("type-changed", 1, 20),
        "ünïcode": ("modified", 1, 0),
        'we"ird\n\t\\': ("modified", 1, 0),
    }
    together = "".join(file.patch for file in found.files)
    assert together == workspace.plain("-c", "core.quotePath=false", "diff", "--cached", "-M")


def test_a_subfolder_is_a_repository_of_its_own(make: MakeWorkspace) -> None:
    workspace = make()
    workspace.init("projects/one")
    workspace.write("projects/one/a.txt", "a")
    workspace.write("outside.txt", "a")
    confinement = Confinement(read_only=("projects/one/.git/config",), pinned=("projects/one/.git",))
    repository = workspace.open_repository(folder="projects/one", confinement=confinement)
    assert queries.status(repository).untracked == ("projects/one/a.txt",)
    with pytest.raises(InvalidArgument, match="not in this repository"):
        changes.add(repository, ["outside.txt"])
    assert changes.add(repository, ["."]).paths == ("projects/one/a.txt",)


def test_show(workspace: Workspace) -> None:
    workspace.write("src/a.py", "print()\n")
    workspace.write("logo", b"\0png")
    commit = workspace.save(message="subject\n\nbody\nof two lines")
    repository = workspace.open_repository()
    shown = queries.show(repository)
    assert isinstance(shown, CommitDetails)
    assert (shown.commit.id, shown.commit.subject, shown.commit.body) == (commit, "subject", "body\nof two lines")
    assert [file.path for file in shown.diff.files] == ["logo", "src/a.py"]
    first = queries.show(repository, "HEAD~1")
    assert isinstance(first, CommitDetails) and first.diff.files[0].kind == "added"
    assert queries.show(repository, "HEAD:src/a.py") == FileAtCommit("src/a.py", commit, 8, "print()\n", False)
    logo = queries.show(repository, "HEAD:logo")
    assert isinstance(logo, FileAtCommit) and logo.content is None and logo.size == 4
    assert queries.show(repository, "HEAD:src") == FolderAtCommit("src", commit, ("a.py",), 0)
    top = queries.show(repository, "HEAD:")
    assert isinstance(top, FolderAtCommit) and top.names == ("README.md", "logo", "src/")
    with pytest.raises(GitError) as caught:
        queries.show(repository, "HEAD:none")
    assert reason(caught) is GitFailureReason.UNKNOWN_PATH


def test_log_by_range_path_and_page(workspace: Workspace) -> None:
    for number in range(4):
        workspace.write(f"file{number % 2}", str(number))
        workspace.save(message=f"number {number}")
    repository = workspace.open_repository()
    page = queries.log(repository, limit=2, skip=1)
    assert [commit.subject for commit in page.commits] == ["number 2", "number 1"] and page.more
    assert [commit.subject for commit in queries.log(repository, paths=["file1"]).commits] == ["number 3", "number 1"]
    assert [commit.subject for commit in queries.log(repository, "HEAD~2..HEAD").commits] == ["number 3", "number 2"]
    assert not queries.log(repository, limit=5).more


def test_branches_with_a_config_that_is_read_only(workspace: Workspace) -> None:
    repository = workspace.open_repository()
    made = changes.create_branch(repository, "topic")
    assert [(branch.name, branch.current) for branch in made.branches] == [("main", True), ("topic", False)]
    assert [branch.name for branch in changes.delete_branch(repository, "topic").branches] == ["main"]
    changes.checkout(repository, "other")
    workspace.save(message="only here")
    changes.checkout(repository, "main")
    with pytest.raises(GitError) as caught:
        changes.delete_branch(repository, "other")
    assert reason(caught) is GitFailureReason.UNMERGED_BRANCH
    assert changes.delete_branch(repository, "other", force=True).current == "main"
    assert "autoSetupMerge" not in (workspace.folder / ".git/config").read_text()
