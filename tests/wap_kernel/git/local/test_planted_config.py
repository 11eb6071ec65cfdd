"""Planted configuration: nothing of it runs outside of the sandbox, and what we can switch off does not run at all."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.support.git_plants import CONTROLS, PLANTS, SILENT, TOGETHER, make_program, plant_everything
from tests.support.git_repository import PLAIN, Workspace
from tests.support.git_team import Team
from tests.support.provider_workspace import LONG
from tests.support.tool_interface import Interface, opened
from wap_kernel.git.local import changes, queries
from wap_kernel.git.remote.transfer import fetch, pull, push
from wap_kernel.model.errors import TimedOut, WapError
from wap_kernel.model.git.results import GitError


def work_through(tools: Interface) -> None:
    """Every local action, with something to do for each, as a caller has them."""

    def git(action: str, **fields: Any) -> dict[str, Any]:
        answer = tools("git", action=action, **fields)
        assert answer["exit_code"] == 0, answer
        return answer

    tools.file("README.md", "changed\n")
    tools.file("new", "new\n")
    git("status")
    (file,) = [one for one in git("diff")["unstaged"]["files"] if one["path"] == "/workspace/README.md"]
    assert file["patch"].startswith("diff --git a/README.md b/README.md\n") and "+changed\n" in file["patch"]
    git("add", files=["new"])
    made = git("commit", message="message", files=["README.md"])
    assert git("log", limit=1)["commits"][0]["subject"] == "message"
    git("show", ref=made["id"])
    git("show", ref="HEAD:README.md")
    git("checkout", branch="topic")
    tools.file("README.md", "other\n")
    git("commit", message="other", files=["."])
    git("checkout", branch="main")
    tools.file("README.md", "more\n")
    git("restore", files=["README.md"])
    git("branch", branch="third")
    assert (tools.root / "README.md").read_text() == "changed\n"


@pytest.fixture
def tools(workspace: Workspace, tmp_path: Path) -> Iterator[Interface]:
    """All tools, on the folder of `workspace`."""
    with opened(tmp_path, provider="bubblewrap") as tools:
        assert tools.root == workspace.folder
        yield tools


def runs_in_plain_git(workspace: Workspace, outside: Path, commands: str) -> bool:
    """Return whether the program runs when a person types `commands`. It may wait for input, so its mark is enough."""
    environment = {**PLAIN, "PATH": f"{workspace.folder}:{PLAIN['PATH']}", "GIT_TERMINAL_PROMPT": "0", "TERM": "dumb"}
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(
        ["sh", "-c", commands], cwd=workspace.folder, env=environment, start_new_session=True, **pipes
    ) as shell:
        until = time.monotonic() + LONG
        while shell.poll() is None and not (outside / "ran").exists() and time.monotonic() < until:
            time.sleep(0.005)
        with suppress(ProcessLookupError):
            os.killpg(shell.pid, signal.SIGKILL)
    return (outside / "ran").exists()


@pytest.mark.parametrize("names", TOGETHER, ids=" + ".join)
def test_nothing_that_is_planted_runs(
    workspace: Workspace, tools: Interface, tmp_path: Path, names: tuple[str, ...]
) -> None:
    outside = tmp_path / "outside"
    program = make_program(workspace, outside)
    for name in names:
        PLANTS[name](workspace, program)
    # A checkout that would change a repository in a folder is refused: it is read-only for every tool but git.
    is_refused = "bare repository in a folder" in names
    with pytest.raises(WapError, match="protected") if is_refused else nullcontext():
        work_through(tools)
    assert list(outside.iterdir()) == []
    assert not (workspace.folder / ".git/ran-inside").exists()


@pytest.mark.parametrize("name", PLANTS)
def test_it_would_run_if_somebody_used_git_as_it_is(workspace: Workspace, tmp_path: Path, name: str) -> None:
    """Also among the others that are planted with it."""
    outside = tmp_path / "outside"
    other = make_program(workspace, tmp_path / "others", "other.sh")
    program = make_program(workspace, outside)
    (group,) = (names for names in TOGETHER if name in names)
    for each in group:
        PLANTS[each](workspace, program if each == name else other)
    workspace.write("README.md", "changed\n")
    usual = "git status; git diff; git commit -qam message"
    assert runs_in_plain_git(workspace, outside, CONTROLS.get(name, usual)) is (name not in SILENT)


def test_a_filter_whose_name_holds_an_equals_sign(workspace: Workspace, tools: Interface, tmp_path: Path) -> None:
    """`git config` cannot write it in one word, an editor can."""
    outside = tmp_path / "outside"
    program = make_program(workspace, outside)
    workspace.write(".gitattributes", "* filter=a=b\n")
    config = workspace.folder / ".git/config"
    config.write_text(config.read_text() + f'[filter "a=b"]\n\tclean = {program}\n\tsmudge = {program}\n')
    work_through(tools)
    assert list(outside.iterdir()) == []
    assert not (workspace.folder / ".git/ran-inside").exists()
    workspace.write(".gitattributes", "* filter=a=b\n")  # it went with the branch
    workspace.write("README.md", "changed again\n")
    assert runs_in_plain_git(workspace, outside, "git diff")


def test_all_of_it_at_once_and_the_token_goes_to_the_right_host(team: Team, tmp_path: Path) -> None:
    workspace = team.workspace
    outside = tmp_path / "outside"
    program = make_program(workspace, outside)
    push(team.link(), workspace.open_repository())
    team.colleague(tmp_path / "colleague", "theirs", "1")
    plant_everything(workspace, program)
    repository = workspace.open_repository()
    fetch(team.link(), repository)
    changes.checkout(repository, "topic")
    workspace.write("mine", "1")
    changes.commit(repository, "mine", ["mine"])
    push(team.link(), repository)
    changes.checkout(repository, "main")
    assert pull(team.link(), repository).kind == "fast-forward"
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
        with pytest.raises((GitError, WapError)):
            changes.commit(workspace.open_repository(), "message", ["README.md"])
    assert list(outside.iterdir()) == []


def test_a_pipe_that_git_reads_ends_in_time(workspace: Workspace) -> None:
    os.mkfifo(workspace.folder / ".git/info/attributes")
    with pytest.raises(TimedOut):
        queries.status(workspace.open_repository(timeout=1.0))
