"""Attacks by shared commands, whose effect is not judged, on paths that the person's programs obey."""

from __future__ import annotations

import os
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.agent_server import (
    ORDINARY,
    USERS,
    Agent,
    AgentServer,
    SharedAgentServer,
    give,
    open_place,
    share_place,
)

IDENTITY = "git -c user.name=a -c user.email=a@b"


@pytest.fixture(scope="module", params=USERS)
def shared_place(request: pytest.FixtureRequest) -> Iterator[SharedAgentServer]:
    with share_place(request.param) as place:
        yield place


@pytest.fixture
def place(shared_place: SharedAgentServer) -> AgentServer:
    shared_place.clear()
    return shared_place


def run_shared(agent: Agent, line: str) -> dict[str, Any]:
    """Run a script with the person's approval, and return its event; the words of a command tell nothing of it."""
    script = agent.server.root / f"{abs(hash(line))}.sh"
    script.write_text(f"{line}\n")
    message = agent.start({"type": "shell", "command": f"sh {script.name}", "isolation": "shared"})
    assert message["pendingApproval"]["isolation"] == "shared", message
    ended = agent.decide(message)
    assert ended["status"] == "completed", ended
    event: dict[str, Any] = ended["events"][-1]
    return event


def run_git(place: AgentServer, folder: str, *words: str) -> None:
    """Run the person's own git, outside of any sandbox."""
    user = ["setpriv", "--reuid", str(ORDINARY), "--regid", str(ORDINARY), "--clear-groups", "--"]
    command = [*(user if place.user == "ordinary" else ()), "git", *words]
    environment = {"PATH": os.environ["PATH"], "HOME": "/nonexistent"}
    subprocess.run(command, cwd=place.home / folder, env=environment, capture_output=True, timeout=60, check=False)


def list_moved(folder: Path) -> set[str]:
    return {path.name.partition(".set-aside-")[0] for path in folder.rglob("*.set-aside-*")}


LINKS = {".bashrc": "dotfiles/bashrc", ".ssh": "dotfiles/ssh", ".config": "dotfiles/config", "ws/.git": "../store"}
REPLACEMENTS = (
    "rm -f {name}; mkdir {name}; echo evil > {name}/evil",
    "rm -f {name}; echo evil > {name}",
    "ln -sfn evil {name}",
    "rm {name}",
    "mv {name} gone",
    "python3 -c \"import os; os.symlink('evil', 'n'); os.replace('n', '{name}')\"",
)


def test_a_shared_command_replaces_no_protected_link(place: AgentServer) -> None:
    """Finding 5 again: a mount guards what a link leads to, and not the link."""
    for name in ("dotfiles/ssh/config", "dotfiles/config/git/config", "dotfiles/bashrc"):
        (place.home / name).parent.mkdir(parents=True, exist_ok=True)
        (place.home / name).write_text("the person's")
    subprocess.run(["git", "init", "-q", f"--separate-git-dir={place.home / 'store'}", place.root], check=True)
    (place.root / ".git").unlink()
    for name, target in LINKS.items():
        (place.home / name).symlink_to(target)
    if place.user == "ordinary":
        give(place.home)
    with place.start(root=place.home) as agent:
        for name, target in LINKS.items():
            line = "; ".join(replacement.format(name=name) for replacement in REPLACEMENTS)
            event = run_shared(agent, f"{line}; chmod 555 .; mkdir -p .config/git; echo evil > .config/git/config")
            place.home.chmod(0o755)
            assert f"{name} is protected" in event["stderr"], event
            assert os.readlink(place.home / name) == target
        run_shared(agent, "mv dotfiles d2; mkdir -p dotfiles; echo evil > dotfiles/bashrc; mv store s2; mv ws w2")
    assert {name: os.readlink(place.home / name) for name in LINKS} == LINKS
    for name in ("dotfiles/ssh/config", ".config/git/config", ".bashrc"):
        assert (place.home / name).read_text() == "the person's"
    assert list_moved(place.home) >= {".bashrc", ".ssh", ".config", ".git"}


def test_the_persons_git_runs_nothing_of_a_shared_command(place: AgentServer) -> None:
    """Finding 6 again: a new nested repository, added as a gitlink, whose settings name a program."""
    mark, program = place.root / "ran", place.root / "evil.sh"
    program.write_text(f"#!/bin/sh\ntouch {mark}\n")
    program.chmod(0o755)
    subprocess.run(["git", "init", "-q", place.root / "outer"], check=True)
    if place.user == "ordinary":
        give(place.home)
    commit = f"{IDENTITY} commit -q --allow-empty -m x"
    with place.start(root=place.home) as agent:
        event = run_shared(
            agent,
            f"cd ws/outer; git init -q sub; cd sub; {commit}; git config core.fsmonitor {program}; "
            "cp ../../evil.sh .git/hooks/post-checkout; echo '* filter=x' > .git/info/attributes; "
            f"cd ..; git init -q --bare bare; git -C bare config core.fsmonitor {program}; "
            "mkdir linked; echo gitdir: ../bare > linked/.git; mkdir led; ln -s ../bare led/.git; "
            f"mkdir -p .git/modules/x/objects .git/modules/x/refs; echo ref: refs/heads/x > .git/modules/x/HEAD; "
            f"printf '[core]\\n\\tfsmonitor = {program}\\n\\tworktree = ../../../m\\n' > .git/modules/x/config; "
            "mkdir m; echo gitdir: ../.git/modules/x > m/.git; git add sub; true",
        )
        for name in ("sub/.git/config", "sub/.git/hooks/post-checkout", "linked/.git", ".git/modules/x/config"):
            assert f"ws/outer/{name} is protected" in event["stderr"], event
        for folder in ("ws/outer", *(f"ws/outer/{name}" for name in ("sub", "linked", "led", "m"))):
            for words in (("status",), ("diff",), ("add", "-A"), ("submodule", "status")):
                run_git(place, folder, *words)
        run_git(place, "ws/outer/sub", "checkout", "-q", "-b", "other")
        assert not mark.exists()
        # The repository that is left is a good one.
        log = subprocess.run(
            ["git", "-c", "safe.directory=*", "log", "--oneline"],
            cwd=place.root / "outer/sub",
            capture_output=True,
            check=True,
        )
        assert log.stdout.endswith(b" x\n")


def test_a_repository_is_cleaned_while_the_command_still_runs(place: AgentServer) -> None:
    if place.user == "ordinary":
        give(place.home)
    with place.start(root=place.home) as agent:
        line = "git init -q sub; git -C sub config core.fsmonitor ./evil; until [ -e go ]; do sleep 0.1; done"
        events: list[dict[str, Any]] = []
        command = threading.Thread(target=lambda: events.append(run_shared(agent, line)))
        command.start()
        poll = threading.Event()
        while not list_moved(place.home / "sub"):
            assert command.is_alive()
            poll.wait(0.05)
        assert "evil" not in (place.home / "sub/.git/config").read_text()
        (place.home / "go").touch()
        command.join()
        assert "sub/.git/config is protected" in events[0]["stderr"]


def test_a_shared_command_leaves_no_file_that_programs_obey(place: AgentServer) -> None:
    """Finding 4: start-up files, and hooks of a repository that was there before, also with another command running."""
    subprocess.run(["git", "init", "-q", place.root], check=True)
    for name in ("hooks", "config"):
        subprocess.run(["rm", "-rf", place.root / ".git" / name], check=True)
    if place.user == "ordinary":
        give(place.home)
    plants = (
        "echo x > .zshenv; mkdir -p .config/git; echo x > .config/git/config; chmod 555 .config",
        "mkdir -p ws/.git/hooks; echo x > ws/.git/hooks/post-commit; echo x > ws/.git/config",
    )
    with place.start(root=place.home) as agent:
        threads = [threading.Thread(target=run_shared, args=(agent, f"{line}; sleep 0.3; {line}")) for line in plants]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    for name in (".zshenv", ".config/git/config", "ws/.git/hooks", "ws/.git/config"):
        assert not (place.home / name).exists(), name
    assert list_moved(place.home) == {".zshenv", "git", "config", "hooks"}


@pytest.mark.parametrize("user", USERS)
def test_what_programs_obey_is_watched_where_nothing_confines_a_command(user: str) -> None:
    with open_place(user, provider="local", allow_unconfined=True) as place:
        (place.home / "dotfiles").mkdir()
        (place.home / "dotfiles/bashrc").write_text("the person's")
        (place.home / ".bashrc").symlink_to("dotfiles/bashrc")
        with place.start(root=place.home) as agent:
            assert agent.call("getWorkspaceInfo").body["isolation"] == "shared"
            event = run_shared(agent, "echo x > .zshenv; rm .bashrc; echo evil > .bashrc")
            assert ".zshenv is protected" in event["stderr"] and ".bashrc is protected" in event["stderr"], event
            assert not (place.home / ".zshenv").exists()
            assert os.readlink(place.home / ".bashrc") == "dotfiles/bashrc"


@contextmanager
def mount_small_disk(folder: Path) -> Iterator[None]:
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=96m,mode=755", "tmpfs", folder], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts a filesystem")
@pytest.mark.parametrize("user", USERS)
def test_a_command_that_fills_the_disk_is_ended(user: str) -> None:
    """Finding 10, where the command writes into a layer and where it shares the workspace."""
    fill = "echo first > first; while :; do head -c 1000000 /dev/zero >> large; sleep 0.02; done"
    with tempfile.TemporaryDirectory(prefix="wap-disk-") as name, mount_small_disk(Path(name)):
        place = AgentServer(Path(name).resolve(), user)
        (place.root / "fill.sh").write_text(fill)
        with place.start() as agent:
            answer = agent.run(fill)
            assert answer.body["code"] == "NO_SPACE" and "Nothing that it changed was applied" in answer.text, answer
            assert [path.name for path in place.root.iterdir()] == ["fill.sh"]
            assert not list(place.data.glob("wap/*/layers/layer_*"))
            message = agent.start({"type": "shell", "command": "sh fill.sh", "isolation": "shared", "timeout": 60_000})
            event = agent.decide(message)["events"][-1]
            assert (event["code"], event["success"]) == ("NO_SPACE", False), event
            space = os.statvfs(place.root)
            assert space.f_bavail > space.f_blocks // 20, "some of the disk is left"
            assert (place.root / "large").exists()
            (place.root / "large").unlink()
            assert agent.run("echo alive").body["stdout"] == "alive\n"
