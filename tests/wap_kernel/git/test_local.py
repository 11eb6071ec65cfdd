"""Local operations: their answers, on every provider, beside plain git's."""

from __future__ import annotations

import os

import pytest

from tests.wap_kernel.git.scene import BOT, MakeWorkspace, Workspace, denying
from tests.wap_kernel.providers.scene import ALL
from wap_kernel.errors import InvalidArgument, PermissionDenied
from wap_kernel.git import changing, reading
from wap_kernel.git.answers import Change, GitFailed, Reason, ShownCommit, ShownFile, ShownFolder
from wap_kernel.providers.base import Confinement


def reason(caught: pytest.ExceptionInfo[GitFailed]) -> Reason:
    assert caught.value.failure.text.endswith(".")
    return caught.value.failure.reason


@pytest.mark.parametrize("provider", ALL)
def test_the_same_answers_on_every_provider(make: MakeWorkspace, provider: str) -> None:
    """Status, branch, edit, diff, commit, log, checkout."""
    workspace = make(provider)
    workspace.init()
    workspace.write("src/server.ts", "port = 1\n")
    work = workspace.work()
    assert reading.status(work).untracked == ("src/",)
    made = changing.commit(work, "fix: update port", ["src/server.ts"])
    assert made.id == workspace.plain("rev-parse", "HEAD").strip()
    assert (made.branch, made.author, made.files) == ("main", BOT, 1)
    workspace.write("src/server.ts", "port = 2\n")
    found = reading.diff(work)
    assert [(file.path, file.kind, file.added, file.deleted) for file in found.unstaged.files] == [
        ("src/server.ts", "modified", 1, 1)
    ]
    assert found.unstaged.files[0].patch == workspace.plain("diff")
    assert found.staged.files == ()
    checked = changing.checkout(work, "feature/new-thing")
    assert checked.created and checked.branch == "feature/new-thing"
    assert workspace.plain("branch", "--show-current").strip() == "feature/new-thing"
    assert [commit.subject for commit in reading.log(work).commits] == ["fix: update port", "saved"]
    assert not changing.checkout(work, "main").created
    assert changing.restore(work, ["src"]).paths == ("src/server.ts",)
    assert reading.status(work).changed == ()


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
    status = reading.status(workspace.work())
    assert status.staged == (Change("added", "added"), Change("new name", "renamed", "renamed"))
    assert status.changed == (
        Change("deleted", "deleted"),
        Change("modified", "modified"),
        Change("typed", "type-changed"),
    )
    assert status.untracked == ('odd "name"\n',)
    assert (status.branch, status.upstream, status.ahead, status.behind) == ("main", None, 0, 0)


def test_ahead_and_behind_without_a_configured_upstream(workspace: Workspace) -> None:
    workspace.plain("update-ref", "refs/remotes/origin/main", workspace.save(message="theirs"))
    workspace.plain("reset", "--quiet", "--hard", "HEAD~1")
    workspace.save(message="ours 1")
    workspace.save(message="ours 2")
    status = reading.status(workspace.work())
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
    found = reading.diff(workspace.work()).staged
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
    work = workspace.work(folder="projects/one", confinement=confinement)
    assert reading.status(work).untracked == ("projects/one/a.txt",)
    with pytest.raises(InvalidArgument, match="not in this repository"):
        changing.add(work, ["outside.txt"])
    assert changing.add(work, ["."]).paths == ("projects/one/a.txt",)


def test_show(workspace: Workspace) -> None:
    workspace.write("src/a.py", "print()\n")
    workspace.write("logo", b"\0png")
    commit = workspace.save(message="subject\n\nbody\nof two lines")
    work = workspace.work()
    shown = reading.show(work)
    assert isinstance(shown, ShownCommit)
    assert (shown.commit.id, shown.commit.subject, shown.commit.body) == (commit, "subject", "body\nof two lines")
    assert [file.path for file in shown.diff.files] == ["logo", "src/a.py"]
    first = reading.show(work, "HEAD~1")
    assert isinstance(first, ShownCommit) and first.diff.files[0].kind == "added"
    assert reading.show(work, "HEAD:src/a.py") == ShownFile("src/a.py", commit, 8, "print()\n", False)
    logo = reading.show(work, "HEAD:logo")
    assert isinstance(logo, ShownFile) and logo.content is None and logo.size == 4
    assert reading.show(work, "HEAD:src") == ShownFolder("src", commit, ("a.py",), 0)
    top = reading.show(work, "HEAD:")
    assert isinstance(top, ShownFolder) and top.names == ("README.md", "logo", "src/")
    with pytest.raises(GitFailed) as caught:
        reading.show(work, "HEAD:none")
    assert reason(caught) is Reason.UNKNOWN_PATH


def test_log_by_range_path_and_page(workspace: Workspace) -> None:
    for number in range(4):
        workspace.write(f"file{number % 2}", str(number))
        workspace.save(message=f"number {number}")
    work = workspace.work()
    page = reading.log(work, limit=2, skip=1)
    assert [commit.subject for commit in page.commits] == ["number 2", "number 1"] and page.more
    assert [commit.subject for commit in reading.log(work, paths=["file1"]).commits] == ["number 3", "number 1"]
    assert [commit.subject for commit in reading.log(work, "HEAD~2..HEAD").commits] == ["number 3", "number 2"]
    assert not reading.log(work, limit=5).more


def test_branches_with_a_config_that_is_read_only(workspace: Workspace) -> None:
    work = workspace.work()
    made = changing.create_branch(work, "topic")
    assert [(branch.name, branch.current) for branch in made.branches] == [("main", True), ("topic", False)]
    assert [branch.name for branch in changing.delete_branch(work, "topic").branches] == ["main"]
    changing.checkout(work, "other")
    workspace.save(message="only here")
    changing.checkout(work, "main")
    with pytest.raises(GitFailed) as caught:
        changing.delete_branch(work, "other")
    assert reason(caught) is Reason.UNMERGED_BRANCH
    assert changing.delete_branch(work, "other", force=True).current == "main"
    assert "autoSetupMerge" not in (workspace.folder / ".git/config").read_text()


# -- what goes wrong, in clear words


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
    assert reading.status(work).untracked == ("a",)
    with pytest.raises(GitFailed) as caught:
        changing.add(work, ["a"])
    assert reason(caught) is Reason.LOCKED


def test_a_detached_head(workspace: Workspace) -> None:
    commit = workspace.save()
    work = workspace.work()
    assert changing.checkout(work, commit).branch is None
    status = reading.status(work)
    assert status.branch is None and status.note is not None and commit[:12] in status.note
    workspace.write("a", "1")
    assert changing.commit(work, "on nothing", ["a"]).note is not None


def test_a_merge_conflict(workspace: Workspace) -> None:
    workspace.plain("switch", "--quiet", "-c", "theirs")
    workspace.write("README.md", "theirs\n")
    workspace.save()
    workspace.plain("switch", "--quiet", "main")
    workspace.write("README.md", "ours\n")
    workspace.save()
    workspace.plain("merge", "theirs", check=False)
    work = workspace.work()
    status = reading.status(work)
    assert status.conflicts == (Change("README.md", "both-modified"),)
    assert status.underway == "merge" and status.note is not None
    (file,) = reading.diff(work).unstaged.files
    assert file.kind == "unmerged" and "+<<<<<<< HEAD" in file.patch
    with pytest.raises(GitFailed) as caught:
        changing.commit(work, "too early")
    assert reason(caught) is Reason.CONFLICTS and caught.value.failure.conflicts == ("README.md",)
    workspace.write("README.md", "both\n")
    merged = changing.commit(work, "merged", ["README.md"])
    assert len(workspace.plain("rev-parse", f"{merged.id}^@").split()) == 2


def test_local_changes_in_the_way(workspace: Workspace) -> None:
    workspace.plain("switch", "--quiet", "-c", "other")
    workspace.write("README.md", "other\n")
    workspace.save()
    workspace.plain("switch", "--quiet", "main")
    workspace.write("README.md", "mine\n")
    with pytest.raises(GitFailed) as caught:
        changing.checkout(workspace.work(), "other")
    assert reason(caught) is Reason.IN_THE_WAY


def test_nothing_to_commit_and_no_commit_yet(make: MakeWorkspace) -> None:
    workspace = make()
    workspace.plain("init", "--quiet", "--initial-branch=main")
    work = workspace.work()
    status = reading.status(work)
    assert (status.branch, status.commit) == ("main", None)
    with pytest.raises(GitFailed) as caught:
        changing.commit(work, "nothing")
    assert reason(caught) is Reason.NOTHING
    with pytest.raises(GitFailed):
        reading.log(work)
    workspace.write("a", "1")
    assert changing.commit(work, "first", ["a"]).files == 1


def test_unknown_names(workspace: Workspace) -> None:
    work = workspace.work()
    with pytest.raises(GitFailed) as caught:
        changing.add(work, ["none"])
    assert reason(caught) is Reason.UNKNOWN_PATH
    with pytest.raises(GitFailed) as caught:
        changing.restore(work, ["none"])
    assert reason(caught) is Reason.UNKNOWN_PATH
    with pytest.raises(GitFailed) as caught:
        reading.show(work, "none")
    assert reason(caught) is Reason.UNKNOWN_REVISION
    workspace.write(".gitignore", "ignored\n")
    workspace.write("ignored", "1")
    with pytest.raises(GitFailed) as caught:
        changing.add(work, ["ignored"])
    assert reason(caught) is Reason.UNKNOWN_PATH


def test_commits_without_an_identity_say_what_is_missing(workspace: Workspace) -> None:
    work = workspace.work()
    nobody = type(work)(work.inside, work.repository, work.permits)
    workspace.write("a", "1")
    with pytest.raises(GitFailed) as caught:
        changing.commit(nobody, "who?", ["a"])
    assert reason(caught) is Reason.IDENTITY


def test_a_name_that_is_not_utf8_is_told(workspace: Workspace) -> None:
    os.close(os.open(os.fsencode(workspace.folder) + b"/caf\xe9", os.O_CREAT | os.O_WRONLY))
    work = workspace.work()
    assert reading.status(work).untracked == ("caf\\xe9",)
    with pytest.raises(GitFailed) as caught:
        changing.add(work, ["."])
    assert reason(caught) is Reason.UNKNOWN_PATH and "caf" in caught.value.failure.text


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
