"""Planted configuration: nothing of it runs outside of the sandbox, and what we can switch off does not run at all."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.wap_kernel.git.plants import PLANTS
from tests.wap_kernel.git.scene import Workspace
from tests.wap_kernel.git.team import Team
from wap_kernel.errors import TimedOut, WapError
from wap_kernel.git import changing, reading
from wap_kernel.git.answers import GitFailed
from wap_kernel.git.transfer import fetch, pull, push


def make_program(workspace: Workspace, outside: Path) -> str:
    """Leaves a mark where it can: outside only if it runs there. Otherwise it behaves as a filter."""
    outside.mkdir()
    text = f"#!/bin/sh\ntouch {outside}/ran 2>/dev/null\ntouch {workspace.folder}/.git/ran-inside\ncat\n"
    program = workspace.write("evil.sh", text)
    program.chmod(0o755)
    for name in ("git-merge-evil", "git-remote-evil"):
        (workspace.write(name, text)).chmod(0o755)
    workspace.write(".git/info/exclude", "evil.sh\ngit-*\n")
    return str(program)


def work_through(workspace: Workspace) -> None:
    """Every local operation, with something to do for each."""
    work = workspace.work()
    workspace.write("README.md", "changed\n")
    workspace.write("new", "new\n")
    reading.status(work)
    (file,) = [one for one in reading.diff(work).unstaged.files if one.path == "README.md"]
    assert file.patch.startswith("diff --git a/README.md b/README.md\n") and "+changed\n" in file.patch
    changing.add(work, ["README.md", "new"])
    made = changing.commit(work, "message", ["README.md"])
    assert reading.log(work, limit=1).commits[0].subject == "message"
    reading.show(work, made.id)
    reading.show(work, "HEAD:README.md")
    changing.checkout(work, "topic")
    workspace.write("README.md", "other\n")
    changing.commit(work, "other", ["."])
    changing.checkout(work, "main")
    workspace.write("README.md", "more\n")
    changing.restore(work, ["README.md"])
    changing.create_branch(work, "third")
    changing.delete_branch(work, "third")
    assert (workspace.folder / "README.md").read_text() == "changed\n"


@pytest.mark.parametrize("name", PLANTS)
def test_nothing_that_is_planted_runs(workspace: Workspace, tmp_path: Path, name: str) -> None:
    outside = tmp_path / "outside"
    PLANTS[name](workspace, make_program(workspace, outside))
    work_through(workspace)
    assert list(outside.iterdir()) == []
    assert not (workspace.folder / ".git/ran-inside").exists()


def test_a_filter_whose_name_holds_an_equals_sign(workspace: Workspace, tmp_path: Path) -> None:
    """`git config` cannot write it in one word, an editor can."""
    program = make_program(workspace, tmp_path / "outside")
    workspace.write(".gitattributes", "* filter=a=b\n")
    config = workspace.folder / ".git/config"
    config.write_text(config.read_text() + f'[filter "a=b"]\n\tclean = {program}\n\tsmudge = {program}\n')
    work_through(workspace)
    assert not (workspace.folder / ".git/ran-inside").exists()


def test_all_of_it_at_once_and_the_token_goes_to_the_right_host(team: Team, tmp_path: Path) -> None:
    workspace = team.workspace
    outside = tmp_path / "outside"
    program = make_program(workspace, outside)
    push(team.link(), workspace.work())
    team.colleague(tmp_path / "colleague", "theirs", "1")
    for name in ("submodule", *PLANTS):  # first what needs git itself, which would run the others
        if not (workspace.folder / "inner").exists() or name not in ("submodule", "worktree's config"):
            PLANTS[name](workspace, program)
    work = workspace.work()
    fetch(team.link(), work)
    changing.checkout(work, "topic")
    workspace.write("mine", "1")
    changing.commit(work, "mine", ["mine"])
    push(team.link(), work)
    changing.checkout(work, "main")
    assert pull(team.link(), work).kind == "fast-forward"
    assert list(outside.iterdir()) == []
    assert not (workspace.folder / ".git/ran-inside").exists()
    assert {password for _, password in team.server.seen} <= {None, *team.server.tokens}
    assert team.server.given == 1


def test_a_repository_made_by_hand(workspace: Workspace, tmp_path: Path) -> None:
    """Files that are no config: refs, packed refs and an index full of rubbish. Git fails; nothing else happens."""
    outside = tmp_path / "outside"
    make_program(workspace, outside)
    git = workspace.folder / ".git"
    for path, content in (
        ("packed-refs", b"\0\xff\n" * 9),
        ("index", b"DIRC" + b"\xff" * 99),
        ("HEAD", b"ref: ../../../etc/passwd\n"),
        ("refs/heads/-x", b"0" * 40),
    ):
        (git / path).write_bytes(content)
        with pytest.raises((GitFailed, WapError)):
            changing.commit(workspace.work(), "message", ["README.md"])
    assert list(outside.iterdir()) == []


def test_a_pipe_that_git_reads_ends_in_time(workspace: Workspace) -> None:
    os.mkfifo(workspace.folder / ".git/info/attributes")
    with pytest.raises(TimedOut):
        reading.status(workspace.work(timeout=1.0))


def test_the_plants_would_run_without_us(workspace: Workspace, tmp_path: Path) -> None:
    """The test of the tests: a plain `git diff` in the sandbox runs the program there, and only there."""
    PLANTS["external diff"](workspace, make_program(workspace, tmp_path / "outside"))
    workspace.write("README.md", "changed\n")
    workspace.scene.run("git diff")
    assert (workspace.folder / ".git/ran-inside").exists()
    assert list((tmp_path / "outside").iterdir()) == []
