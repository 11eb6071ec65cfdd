"""What an agent's commands leave at places that are the person's: start-up files, links, repositories, mount points."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.agent_server import ORDINARY, USERS, AgentServer, Answer, give, open_place
from tests.support.budgets import choose_budget
from tests.support.rename_attacker import swapping

IDENTITY = "git -c user.name=a -c user.email=a@b"
STARTS = choose_budget(suite=40, soak=200)
"""Sandboxes that start while a folder is exchanged; the first mount point appeared at the 13th of 94."""


@pytest.fixture(params=USERS)
def place(request: pytest.FixtureRequest) -> Iterator[AgentServer]:
    with open_place(request.param) as place:
        yield place


def own(place: AgentServer) -> None:
    """Give the workspace to the user of the server."""
    if place.user == "ordinary":
        give(place.home)


def list_paths(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


def clear(home: Path) -> None:
    """Remove what was applied, except for the workspace."""
    for path in home.iterdir():
        if path.name != "ws":
            subprocess.run(["rm", "-rf", path], check=True)


def list_refused(answer: Answer) -> set[str]:
    assert answer.status == 200, answer
    return {change["path"] for change in answer.body.get("refusedChanges", ())}


PLANTS = {
    "closed": "mkdir -p .config/git; echo x > .config/git/config; chmod 555 .config; echo x > .zshenv; chmod 0 .zshenv",
    "deep": "mkdir -p .ipython/profile_default/startup; echo x > .ipython/profile_default/startup/x.py",
    "programs": "mkdir -p .local/bin bin; echo x | tee .local/bin/ls > bin/ls",
    "another case": "mkdir -p .SSH; echo x | tee .SSH/authorized_keys > .BASHRC",
    "renamed": "mkdir -p stage/git; echo x > stage/git/config; mv stage .config",
    "a link": "mkdir -p mine/git; echo x > mine/git/config; ln -s mine .config",
    "a link to a folder above": "mkdir -p mine/lib/python3/site-packages; ln -s mine .local",
    "links": "echo x > mine.sh; ln -s mine.sh .bash_profile; ln mine.sh .zshrc; mkdir -p mine; ln -s mine .ssh",
    "special": "mkfifo .profile; python3 -c \"import socket; socket.socket(socket.AF_UNIX).bind('.bash_login')\"",
    "policy": "echo '{}' | tee .cws-policy.json > ws/.cws-policy.json",
    "hooks": "mkdir ws/.git/hooks; echo x > ws/.git/hooks/post-commit; chmod 555 ws/.git/hooks",
}
PROTECTED = (
    *(".config/git", ".zshenv", ".ipython", ".local/bin", ".local/lib", "bin", ".SSH", ".ssh", ".BASHRC", ".zshrc"),
    *(".bash_profile", ".profile", ".bash_login", ".cws-policy.json", "ws/.cws-policy.json", "ws/.git/hooks"),
)


def test_no_command_leaves_a_file_that_programs_obey(place: AgentServer) -> None:
    """Finding 4: it stayed where its folder was closed, and where another command was running."""
    subprocess.run(["git", "init", "-q", "--template=", place.root], check=True)
    own(place)
    with place.start(root=place.home) as agent:
        for name, line in PLANTS.items():
            assert list_refused(agent.run(line)), name
            assert not [path for path in PROTECTED if os.path.lexists(place.home / path)], name
            clear(place.home)
        overlapping = [f"sleep 0.3; {line}; sleep 0.3" for line in PLANTS.values()]
        threads = [threading.Thread(target=agent.run, args=(line,)) for line in overlapping]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not [path for path in PROTECTED if os.path.lexists(place.home / path)]


@pytest.mark.parametrize("provider", ["bubblewrap", "gvisor"])
@pytest.mark.parametrize("user", USERS)
def test_no_command_replaces_a_protected_link(user: str, provider: str) -> None:
    """Finding 5: the link was unlinked, or what it leads to was written."""
    with open_place(user, provider=provider) as place:
        replace_protected_links(place, "; " if provider == "gvisor" else None)  # its commands take a second each


def replace_protected_links(place: AgentServer, joint: str | None) -> None:
    """Try to replace links, and check that they are the same; with a joint, the lines are joined to one command."""
    files = {".bashrc": "dotfiles/bashrc", ".gitconfig": "dotfiles/gitconfig", ".ssh": "dotfiles/ssh"}
    (place.home / "dotfiles/ssh").mkdir(parents=True)
    for name, target in files.items():
        (place.home / name).symlink_to(target)
        (place.home / target if name != ".ssh" else place.home / target / "config").write_text("the person's")
    store = place.home / "store"
    subprocess.run(["git", "init", "-q", f"--separate-git-dir={store}", place.root], check=True)
    (place.root / ".git").unlink()
    (place.root / ".git").symlink_to(store)
    before = list_paths(store)
    own(place)
    with place.start(root=place.home) as agent:
        for name in (*files, "ws/.git"):
            lines = (
                f"rm -f {name}; echo evil > {name}",
                f"ln -sfn evil {name}",
                f"mv {name} gone",
                f"echo evil > new; mv new {name}",
                f"python3 -c \"import os; os.symlink('evil', 'n'); os.replace('n', '{name}')\"",
            )
            for line in (joint.join(lines),) if joint is not None else lines:
                agent.run(line)
        agent.run("echo evil > dotfiles/bashrc; mv dotfiles d2; echo evil > store/hooks/post-commit; mv store s2")
    for name, target in files.items():
        assert os.readlink(place.home / name) == target
    for name in ("dotfiles/bashrc", "dotfiles/gitconfig", "dotfiles/ssh/config"):
        assert (place.home / name).read_text() == "the person's"
    assert os.readlink(place.root / ".git") == str(store)
    assert list_paths(store) == before


class Person:
    """The person's own git, outside of any sandbox."""

    def __init__(self, place: AgentServer) -> None:
        self._root = place.root
        self._prefix = (
            ["setpriv", "--reuid", str(ORDINARY), "--regid", str(ORDINARY), "--clear-groups", "--"]
            if place.user == "ordinary"
            else []
        )

    def git(self, folder: str, *words: str) -> None:
        environment = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "GIT_EDITOR": "true"}
        environment |= {f"GIT_{who}_{what}": "a" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
        command = [*self._prefix, "git", *words]
        subprocess.run(command, cwd=self._root / folder, env=environment, capture_output=True, timeout=60, check=False)


def test_the_persons_git_runs_nothing_of_the_agents(place: AgentServer) -> None:
    """Finding 6: a nested repository, added as a gitlink, whose settings name a program. And other ways to the same."""
    mark, program = place.root / "ran", place.root / "evil.sh"
    program.write_text(f"#!/bin/sh\ntouch {mark}\n")
    program.chmod(0o755)
    for name in ("outer", "rebased"):
        subprocess.run(["git", "init", "-q", place.root / name], check=True)
    own(place)
    person = Person(place)
    with place.start() as agent:
        commit = f"{IDENTITY} commit -q --allow-empty -m x"
        agent.run(
            f"cd outer; git init -q sub; cd sub; {commit}; git config core.fsmonitor {program}; "
            f"cp ../../evil.sh .git/hooks/post-checkout; cd ..; git add sub; {commit}"
        )
        agent.run(f"cd outer/sub; git config core.fsmonitor {program}; printf '[core]\\nfsmonitor=x' > .git/config")
        for words in (("status",), ("diff",), ("add", "-A"), ("commit", "-qam", "mine"), ("submodule", "status")):
            person.git("outer", *words)
            person.git("outer/sub", *words)
        person.git("outer/sub", "checkout", "-q", "-b", "other")
        assert not mark.exists()
        # A folder that becomes a repository bit by bit, with settings that were there before.
        settings = f"printf '[core]\\n\\tfsmonitor = %s\\n\\tworktree = .\\n' {program} > bare/config"
        for line in (f"mkdir -p bare/objects; {settings}", "mkdir bare/refs", "echo 'ref: refs/heads/x' > bare/HEAD"):
            agent.run(line)
        person.git("bare", "status")
        assert not mark.exists()
        # A rebase that the person continues, with a strategy that is a program of the folder.
        agent.run(f"cd rebased; for n in 1 2 3; do echo $n > $n; git add $n; {commit}; done")
        agent.run("mkdir 'rebased/git-merge-..'; cp evil.sh 'rebased/git-merge-../evil'")
        refused = list_refused(
            agent.run(
                f"cd rebased; GIT_SEQUENCE_EDITOR='sed -i 1s/pick/edit/' {IDENTITY} rebase -q -i HEAD~2; "
                f"{commit} --amend; echo ../evil > .git/rebase-merge/strategy"
            )
        )
        assert refused == {"rebased/.git/rebase-merge/strategy"}
        person.git("rebased", "rebase", "--continue")
        assert not mark.exists()


def test_no_mount_point_appears_outside(place: AgentServer) -> None:
    """Finding 7: a folder with something protected was exchanged for a link while sandboxes started."""
    outside = place.folder / "outside"
    (place.root / "swap/sub").mkdir(parents=True)
    (place.root / "swap/sub/.env").write_text("x")
    outside.mkdir()
    (place.root / "link").symlink_to(f"/oldroot{outside}")
    own(place)
    with place.start() as agent, swapping(place.root / "swap", place.root / "link"):
        for _ in range(STARTS):
            assert agent.run("true").status in (200, 409)
    assert not any(outside.iterdir())


def test_a_deleted_folder_comes_back_without_devices(place: AgentServer) -> None:
    """The mark of a deletion came along, and then no command started any more."""
    with place.start() as agent:
        agent.run("mkdir -p d/e; touch d/x d/e/x; mkfifo never; touch -d 2001-01-01 d/y")
        line = "rm d/x d/e/x; echo new > d/new; touch started; until [ -s go ]; do sleep 0.02; done"
        (place.root / "go").touch()
        own(place)
        command = threading.Thread(target=agent.run, args=(line,))
        command.start()
        wait_for_layer(place, "started")
        assert agent.call("deleteFile", path="d", recursive=True).status == 200
        (place.root / "go").write_text("now")
        command.join()
        assert [path for path in place.root.rglob("*") if not (path.is_file() or path.is_dir())] == []
        assert agent.run("echo alive").body["stdout"] == "alive\n"


def wait_for_layer(place: AgentServer, name: str) -> None:
    """Wait until a command has written a file on its layer."""
    poll = threading.Event()
    while not list(place.data.glob(f"wap/*/layers/*/upper/{name}")):
        poll.wait(0.02)


def test_a_closed_folder_hides_what_policy_denies(place: AgentServer) -> None:
    """The search for masks cannot enter a folder that is closed to its owner; a command could open it again."""
    folders = [place.root / f"closed-{mode:o}" for mode in (0o000, 0o100, 0o300, 0o400, 0o600)]
    for folder in folders:
        (folder / "deep").mkdir(parents=True)
        for name in (".env", "deep/.env"):
            (folder / name).write_text("the secret")
    own(place)
    with place.start() as agent:
        names = " ".join(folder.name for folder in folders)
        assert agent.run(f"for f in {names}; do chmod ${{f#closed-}} $f; done").status == 200
        for line in (f"chmod 700 {names}", f"cat {names}", f"chmod 700 {names}; cat */.env */*/.env; cp -r . /tmp/x"):
            answer = agent.run(line)
            assert answer.status == 200 and "the secret" not in answer.text, answer
        agent.run("python3 -c \"import shutil; shutil.rmtree('closed-0', ignore_errors=True)\"")
        agent.run("mv closed-300 moved; mv closed-0 moved2")
        for folder in folders:
            folder.chmod(0o700)
            assert (folder / "deep/.env").read_text() == (folder / ".env").read_text() == "the secret"
        assert agent.run("cat */.env").body["stdout"] == ""


def test_a_device_of_the_person_does_not_stop_commands(place: AgentServer) -> None:
    if os.getuid() != 0:
        pytest.skip("only root makes devices")
    os.mknod(place.root / "whiteout", 0o020666, os.makedev(0, 0))
    with place.start() as agent:
        assert agent.run("echo alive").body["stdout"] == "alive\n"


def test_a_tree_that_no_path_can_name_is_refused_and_removed(place: AgentServer) -> None:
    deep = "import os\nfor _ in range({depth}):\n    os.mkdir('{name}'); os.chdir('{name}')\nopen('x', 'w')"
    with place.start() as agent:
        for depth, name in ((3000, "d"), (100, "d" * 100)):
            code = deep.format(depth=depth, name=name)
            answer = agent.run(f'python3 -c "{code}"')
            assert (answer.status, answer.body["code"]) == (413, "SIZE_LIMIT_EXCEEDED"), answer
            assert agent.run("echo alive").status == 200
        assert list_paths(place.root) == set()
    assert not list(place.data.glob("wap/*/layers/*"))
