"""Changes in repositories, made by git itself and by those who would have it run something."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.support.change_sets import (
    GIT,
    ChangedFolder,
    change_set,
    changed,
    created,
    deleted,
    judge,
    moved,
)
from wap_kernel.model.changes import Change
from wap_kernel.model.policy import FilesystemPolicy, Policy
from wap_kernel.policy import presets

STANDARD = presets.load_preset("standard")
REPOSITORY = ("git init -q .", "echo x > a", "git add a", "git commit -qm x")


@pytest.fixture
def folder(tmp_path: Path) -> ChangedFolder:
    return ChangedFolder(tmp_path)


WORK = [
    ("echo y > b; git add b; git commit -qm y",),
    ("git checkout -q -b dev; git rm -q a; git commit -qm y; git checkout -q master; git merge -q dev",),
    ("git tag v1; git branch x; git branch -D x; git gc -q",),
    ("echo z > a; git stash -q; git stash pop -q",),
    ("git checkout -q -b dev; echo 1 > b; git add b; git commit -qm 1; git rebase -q master",),
    ("echo 1 > a; git commit -qam 1; git checkout -qb dev HEAD~1; echo 2 > a; git commit -qam 2; ! git rebase master",),
    ("echo 1 > a; git commit -qam 1; git checkout -qb d HEAD~1; echo 2 > a; git commit -qam 2; ! git rebase -s ort -",),
    ("git worktree add -q wt; cd wt; echo y > b; git add b; git commit -qm y",),
    ("git clone -q . copy", "cd copy; echo y > b; git add b; git commit -qm y"),
    ("git init -q new", "cd new; git config user.name me; git commit -q --allow-empty -m x"),
    ("git clone -q --bare . copy.git", "git -C copy.git worktree add -q ../wt"),
    ("git clone -q --no-local . lib", "git init -q outer; git -C outer submodule -q add ../lib deps/lib"),
]  # fmt: skip


@pytest.mark.parametrize("lines", WORK)
def test_what_git_does_is_applied_as_a_whole(folder: ChangedFolder, lines: tuple[str, ...]) -> None:
    folder.prepare(*REPOSITORY)
    folder.run(*lines)
    assert len(folder.changes) > 0
    found = folder.judge(STANDARD)
    assert (found.refused, found.omitted) == ((), ())
    folder.apply(found)
    assert len(folder.changes) == len(found.rewritten)
    subprocess.run(["git", "fsck", "--strict"], cwd=folder.before, env=GIT, check=True, capture_output=True, timeout=60)


PLANTS = [
    ("git config core.fsmonitor ./x", [".git/config"]),
    ("git remote add o https://example.org", [".git/config"]),
    ("rm .git/config", [".git/config"]),
    ("echo id > .git/hooks/post-commit", [".git/hooks/post-commit"]),
    ("chmod -x .git/hooks/pre-commit.sample", [".git/hooks/pre-commit.sample"]),
    ("rm -r .git/hooks; ln -s ../evil .git/hooks", [".git/hooks"]),
    ("mv .git/info .git/i; ln -s ../evil .git/info", [".git/info"]),
    ("echo '* filter=x' > .git/info/attributes", [".git/info/attributes"]),
    ("mkdir -p .git/objects/info; echo /x > .git/objects/info/alternates", [".git/objects/info/alternates"]),
    ("echo ../evil > .git/commondir", [".git/commondir"]),
    ("echo '[core]' > .git/config.worktree", [".git/config.worktree"]),
    ("mkdir .git/remotes; echo 'URL: x' > .git/remotes/o", [".git/remotes/o"]),
    ("touch .git/index.lock", [".git/index.lock"]),
    ("mkdir .git/rebase-merge; echo 'exec id' > .git/rebase-merge/git-rebase-todo",
     [".git/rebase-merge/git-rebase-todo"]),
    ("mkdir .git/rebase-merge; echo ../evil > .git/rebase-merge/strategy; echo ort > .git/rebase-merge/strategy_opts",
     [".git/rebase-merge/strategy"]),
    (r"mkdir .git/sequencer; printf '[options]\n\tstrategy = ..\\\n/evil\n' > .git/sequencer/opts",
     [".git/sequencer/opts"]),
    ("mkdir .git/modules; echo x > .git/modules/config", [".git/modules/config"]),
    ("mkdir -p .git/modules/x; echo x > .git/modules/x/config", [".git/modules/x/config"]),
    ("git worktree add -q wt; echo ../../../evil > .git/worktrees/wt/commondir", [".git/worktrees/wt/commondir"]),
    ("git worktree add -q wt; echo 'gitdir: ../evil' > wt/.git", ["wt/.git"]),
    ("echo 'gitdir: ../.git' > x; mkdir y; mv x y/.git", ["y/.git"]),
    ("mkdir y; echo 'gitdir: /etc' > y/.git", ["y/.git"]),
    ("mkdir y; ln -s ../.git y/.git", ["y/.git"]),
    ("chmod 777 .git", [".git"]),
    ("git init -q n; echo id > n/.git/hooks/post-checkout", ["n/.git/hooks/post-checkout"]),
    ("git init -q n; echo '* diff=x' > n/.git/info/attributes", ["n/.git/info/attributes"]),
    ("git init -q n; ln -s /etc/passwd n/.git/description2", ["n/.git/description2"]),
    ("git clone -q --shared . n", ["n/.git/objects/info/alternates"]),
    ("git clone -q --bare . n; echo id > n/hooks/update", ["n/hooks/update"]),
    ("mkdir .GIT; echo id > .GIT/config.worktree", [".GIT/config.worktree"]),
]  # fmt: skip


@pytest.mark.parametrize(("line", "refused"), PLANTS)
def test_what_would_make_git_run_something_is_refused(folder: ChangedFolder, line: str, refused: list[str]) -> None:
    folder.prepare(*REPOSITORY)
    folder.run(line)
    found = folder.judge(STANDARD)
    assert [each.path for each in found.named if each.path not in found.rewritten][:1] == refused
    assert {each.rule for each in found.refused} == {"effects.repository"}


def test_the_persons_status_runs_nothing_of_a_nested_repository(folder: ChangedFolder, tmp_path: Path) -> None:
    """The finding: a repository with `core.fsmonitor`, added to the outer one, whose status then runs the program."""
    mark = tmp_path / "ran"
    program = f"#!/bin/sh\ntouch {mark}\n"
    folder.prepare(*REPOSITORY)
    folder.run(
        "git init -q n; cd n; echo x > f; git add f; git commit -qm x",
        f"printf '{program}' > evil; chmod +x evil; git add n",
        'git -C n config core.fsmonitor "$PWD/evil"; git -C n config include.path ../../more',
        "cp evil n/.git/hooks/post-index-change",
    )
    found = folder.judge(STANDARD)
    assert [each.path for each in found.refused] == ["n/.git/hooks/post-index-change"]
    assert [(each.path, each.reason) for each in found.omitted] == [
        ("n/.git/config", "Left out of the configuration: core.fsmonitor, include.path")
    ]
    folder.apply(found)
    (folder.before / "n/f").write_text("y")
    subprocess.run(["git", "status"], cwd=folder.before, env=GIT, check=True, capture_output=True, timeout=60)
    assert not mark.exists()
    assert (folder.before / "n/.git/HEAD").exists()
    subprocess.run(["git", "status"], cwd=folder.after, env=GIT, check=False, capture_output=True, timeout=60)
    assert mark.exists()  # in the folder of the command it does run


@pytest.mark.parametrize(
    "line", ["rm -rf .git", "rm -rf .git/HEAD", "rm -rf .git/objects", "mv .git x", "rm -rf .git/*"]
)
def test_a_repository_is_not_destroyed(folder: ChangedFolder, line: str) -> None:
    folder.prepare(*REPOSITORY)
    folder.run(line)
    found = folder.judge(STANDARD)
    assert all(change.path in found.refused_paths for change in folder.changes if change.path.startswith(".git"))


def test_a_linked_repository_is_not_replaced(folder: ChangedFolder) -> None:
    folder.prepare("mkdir real; cd real; git init -q .; cd ..; mkdir p; ln -s ../real/.git p/.git")
    folder.run("rm p/.git; git init -q p; echo id > p/.git/hooks/post-commit")
    assert {path for path in folder.judge(STANDARD).refused_paths if "/" in path} >= {"p/.git", "p/.git/HEAD"}
    assert len(folder.judge(STANDARD).refused) == len(folder.changes)


# -- folders that look like repositories


BARE = ("x/HEAD", "x/objects", "x/refs")
EVIL = {"x/config": b"[core]\n\tfsmonitor = ./evil\n", "x/hooks/update": b"id"}
BY_HAND: list[tuple[str, tuple[str, ...], list[Change], list[str]]] = [
    ("a plain folder", (), [created("x/config"), created("x/hooks/update")], []),
    ("a bare repository that was there", BARE, [changed("x/config"), created("x/hooks/update"), changed("x/HEAD")],
     ["x/config", "x/hooks/update"]),
    ("that is deleted", (*BARE, "x/config"),
     [deleted("x", "folder"), *(deleted(path) for path in (*BARE, "x/config"))], []),
    ("made", (), [created("x/HEAD"), created("x/objects", "folder"), created("x/refs", "folder"),
                  created("x/hooks/update")], ["x/hooks/update"]),
    ("completed around a configuration", ("x/config", "x/objects"), [created("x/HEAD"), created("x/refs", "folder")],
     ["x/HEAD", "x/refs"]),
    ("completed after a move", ("y/config", "y/objects", "y/refs"), [moved("y", "x"), created("x/HEAD")], ["x/HEAD"]),
    ("by a commondir", ("x/HEAD",), [created("x/commondir")], ["x/commondir"]),
    ("at the root", ("HEAD", "objects", "refs"), [created("config")], ["config"]),
    ("a folder that becomes .git", ("y/config",), [moved("y", ".git")], [".git"]),
    ("a folder that becomes its hooks", (".git/HEAD", "y/update"), [moved("y", ".git/hooks")], [".git/hooks"]),
    ("a folder of .git that is moved away", (".git/HEAD", ".git/info"), [moved(".git/info", "x")], ["x"]),
    ("a project that is moved with its repository", ("p/.git/HEAD", "p/.git/config"), [moved("p", "q")], []),
    ("and changed", ("p/.git/HEAD", "p/.git/config"), [moved("p", "q"), changed("q/.git/config")], ["q/.git/config"]),
    ("a HEAD that would hide other modules", (".git/modules/lib/json/HEAD", ".git/modules/lib/json/config"),
     [created(".git/modules/lib/HEAD"), changed(".git/modules/lib/json/config")],
     [".git/modules/lib/HEAD", ".git/modules/lib/json/config"]),
    ("a repository in a .git", (".git/HEAD",), [created(".git/x/.git", "folder"), created(".git/x/.git/config")],
     [".git/x/.git", ".git/x/.git/config"]),
    ("a branch named config", (".git/HEAD",),
     [created(".git/refs/heads/config"), created(".git/logs/refs/heads/hooks")], []),
]  # fmt: skip


@pytest.mark.parametrize(("before", "changes", "refused"), [case[1:] for case in BY_HAND], ids=[c[0] for c in BY_HAND])
def test_by_hand(before: tuple[str, ...], changes: list[Change], refused: list[str]) -> None:
    found = judge(change_set(*changes), before=before, contents=EVIL)
    assert [each.path for each in found.refused] == refused


def test_the_configuration_of_a_bare_repository_is_cleaned() -> None:
    changes = change_set(*(created(path, "folder") for path in BARE[1:]), created("x/HEAD"), created("x/config"))
    found = judge(changes, contents=EVIL)
    assert (found.refused, dict(found.rewritten)) == ((), {"x/config": b""})


@pytest.mark.parametrize(
    ("layer", "is_refused"),
    [
        (Policy(filesystem=FilesystemPolicy(denied_paths=("**/.git/**",))), False),
        (Policy(filesystem=FilesystemPolicy(denied_paths=("p/**",))), True),
        (Policy(filesystem=FilesystemPolicy(read_only_paths=("p",))), True),
        (Policy(filesystem=FilesystemPolicy(allowed_paths=("src/**",))), True),
        (Policy(filesystem=FilesystemPolicy(allowed_paths=("p/**",))), False),
        (Policy(filesystem=FilesystemPolicy(access="read")), True),
    ],
)
def test_policy_binds_the_folder_that_holds_the_repository(layer: Policy, is_refused: bool) -> None:
    found = judge(change_set(created("p/.git/objects/aa"), changed("p/.git/HEAD")), layer, before=("p/.git/HEAD",))
    assert bool(found.refused) is is_refused
