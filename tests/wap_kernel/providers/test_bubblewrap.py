"""bubblewrap: when no sandbox can be made, when things move meanwhile, when the server dies."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import wap_kernel
from tests.support.processes import eventually
from tests.support.provider_workspace import LONG, SERVER, Guard, Journal, MakeScene, Scene, alive, skip_unless_works
from wap_kernel.files.contained.root import Root
from wap_kernel.model.command import Command, Confinement
from wap_kernel.model.errors import Conflict, ExecutionFailed, ProviderUnavailable
from wap_kernel.providers import bubblewrap
from wap_kernel.providers.bubblewrap import BubblewrapProvider
from wap_kernel.providers.layers import pid_namespace
from wap_kernel.providers.process.environment import GIT_ATTRIBUTES


@pytest.fixture
def scene(make_scene: MakeScene) -> Scene:
    return make_scene("bubblewrap")


@pytest.mark.parametrize(("failures", "ends_well"), [(1, True), (bubblewrap.ATTEMPTS, False)])
def test_a_file_of_the_system_that_is_replaced_meanwhile(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, failures: int, ends_well: bool
) -> None:
    """Programs like useradd replace a file: for a moment the kernel mounts one that is gone."""
    left = iter(range(failures))

    def start(*arguments: Any, **more: Any) -> Any:
        if next(left, None) is not None:
            raise pid_namespace.sandbox_error("Can't bind mount /oldroot/etc/group: No such file or directory")
        return pid_namespace.NamespacedCommand(*arguments, **more)

    monkeypatch.setattr(bubblewrap, "NamespacedCommand", start)
    if ends_well:
        assert scene.run("true").exit_code == 0
    else:
        with pytest.raises(ProviderUnavailable, match="etc/group"):
            scene.run("true")


def test_what_the_server_ignores_is_not_passed_on(scene: Scene) -> None:
    """A server under nohup ignores SIGHUP."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        outcome = scene.run("grep SigIgn /proc/self/status")
    finally:
        signal.signal(signal.SIGHUP, before)
    assert int(outcome.stdout.split()[1], 16) & (1 << (signal.SIGHUP - 1)) == 0


# -- no sandbox


@pytest.fixture
def pretending(tmp_path: Path) -> Callable[[str], str]:
    """A bwrap that does something else."""

    def pretend(script: str) -> str:
        program = tmp_path / "bwrap"
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
        return str(program)

    return pretend


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Root]:
    (tmp_path / "ws").mkdir()
    root = Root(str(tmp_path / "ws"), guard=Guard(), journal=Journal())
    yield root
    root.close()


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("echo 'bwrap: No permissions to create new namespace' >&2; exit 1", "No permissions to create new namespace"),
        ("exit 0", "bubblewrap ended"),
        ("echo ready; exit 127", "bubblewrap ended"),
    ],
)
def test_a_sandbox_that_cannot_start_runs_nothing(
    pretending: Callable[[str], str], root: Root, script: str, reason: str
) -> None:
    provider = BubblewrapProvider(root, secrets=(), program=pretending(script), server_environment=SERVER)
    with closing(provider), pytest.raises(ProviderUnavailable, match=reason) as failure:
        provider.run(Command("touch begun", timeout=LONG, output_limit=100))
    assert "wap doctor" in (failure.value.hint or "")
    assert os.listdir(root.path) == []


def test_a_sandbox_that_never_gets_ready(
    pretending: Callable[[str], str], root: Root, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pid_namespace, "START_SECONDS", 0.1)
    provider = BubblewrapProvider(root, secrets=(), program=pretending("exec sleep 1000"), server_environment=SERVER)
    with closing(provider), pytest.raises(ProviderUnavailable, match="not ready"):
        provider.run(Command("true", timeout=LONG, output_limit=100))


def test_a_program_that_is_not_seen_in_the_sandbox(scene: Scene, tmp_path: Path) -> None:
    shutil.copy("/bin/true", tmp_path / "tool")
    with pytest.raises(ExecutionFailed, match="No such file"):
        scene.run((str(tmp_path / "tool"),))


@pytest.mark.parametrize(
    ("script", "detail", "fix"),
    [
        ("echo bubblewrap 0.6.1", "0.6.1 is too old", "install"),
        ("echo something else", "is not bubblewrap", "install"),
        (
            "[ $1 = --version ] && echo bubblewrap 0.8.0 || { echo 'bwrap: mount proc: no' >&2; exit 1; }",
            "mount proc: no",
            "systempaths",
        ),
    ],
)
def test_the_probe_tells_why_not(pretending: Callable[[str], str], script: str, detail: str, fix: str) -> None:
    found = bubblewrap.probe(pretending(script))
    assert not found.works
    assert detail in found.detail
    assert fix in (found.fix or "")


def test_the_probe_of_what_is_not_installed() -> None:
    found = bubblewrap.probe("/no/such/bwrap")
    assert (found.works, found.fix) == (False, bubblewrap.INSTALL)


def test_the_probe_of_what_works() -> None:
    skip_unless_works("bubblewrap")
    found = bubblewrap.probe()
    assert found.detail.startswith("bubblewrap ")
    assert found.promises["files outside"]
    assert found.promises["network"]


@pytest.mark.parametrize(
    ("reason", "settings", "todo"),
    [
        ("setting up uid map", {"kernel/apparmor_restrict_unprivileged_userns": "1"}, "apparmor"),
        ("No permissions", {"kernel/unprivileged_userns_clone": "0"}, "unprivileged_userns_clone=1"),
        ("No permissions", {"user/max_user_namespaces": "0"}, "max_user_namespaces"),
        ("Can't mount proc on /newroot/proc", {}, "systempaths"),
        ("No permissions to create new namespace", {"user/max_user_namespaces": "100"}, "seccomp"),
        ("bwrap must not be installed setuid", {}, "chmod u-s"),
        ("something else", {}, None),
    ],
)
def test_what_to_do_about_it(reason: str, settings: dict[str, str], todo: str | None) -> None:
    found = bubblewrap.find_fix(reason, settings.get)
    assert (found is None) if todo is None else (found is not None and todo in found)


# -- things move meanwhile


def test_a_workspace_that_was_moved_away(scene: Scene) -> None:
    moved = scene.folder.with_name("moved")
    scene.folder.rename(moved)
    scene.folder.mkdir()
    with pytest.raises(ProviderUnavailable, match="another folder has its path"):
        scene.run("touch begun")
    assert list(scene.folder.iterdir()) == list(moved.iterdir()) == []


@pytest.fixture
def between(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], object]], None]:
    """Does something once, after the mounts were planned and before they are made."""

    def between(act: Callable[[], object]) -> None:
        acts = [act]
        arguments = bubblewrap.build_options

        def acting(*given: Any, **named: Any) -> Any:
            if acts:
                acts.pop()()
            return arguments(*given, **named)

        monkeypatch.setattr(bubblewrap, "build_options", acting)

    return between


@pytest.fixture
def secret(scene: Scene) -> Path:
    (scene.folder / "a").mkdir()
    (scene.folder / "b").mkdir()
    file = scene.folder / "a/.env"
    file.write_text("the secret")
    return file


def test_a_hidden_file_that_is_moved_meanwhile(
    scene: Scene, secret: Path, between: Callable[[Callable[[], object]], None]
) -> None:
    """The file would be visible at its new path. No mount point is made at the old one."""
    between(lambda: (scene.folder / "a").rename(scene.folder / "c"))
    with pytest.raises(Conflict):
        scene.run("touch begun", hidden=("a/.env",))
    assert sorted(path.name for path in scene.folder.rglob("*")) == [".env", "b", "c"]


def test_a_hidden_file_that_is_replaced_meanwhile(
    scene: Scene, secret: Path, between: Callable[[Callable[[], object]], None]
) -> None:
    def replace() -> None:
        secret.with_name("new").write_text("the secret")
        secret.with_name("new").rename(secret)

    between(replace)
    assert scene.run("cat a/.env; echo done", hidden=("a/.env",)).stdout == "done\n"


@pytest.mark.parametrize("becomes", ["folder", "link"])
def test_a_hidden_file_that_becomes_something_else_meanwhile(
    scene: Scene, secret: Path, between: Callable[[Callable[[], object]], None], becomes: str
) -> None:
    def exchange() -> None:
        secret.rename(secret.with_name("kept"))
        secret.mkdir() if becomes == "folder" else secret.symlink_to("kept")

    between(exchange)
    with pytest.raises(Conflict):
        scene.run("touch begun; cat a/*", hidden=("a/.env",))
    assert not (scene.folder / "begun").exists()


def test_a_folder_that_is_a_way_out_while_the_mounts_are_made(
    scene: Scene, secret: Path, between: Callable[[Callable[[], object]], None]
) -> None:
    outside = scene.folder.parent
    before = sorted(outside.iterdir())

    def exchange() -> None:
        (scene.folder / "a").rename(scene.folder / "c")
        (scene.folder / "a").symlink_to("..")

    between(exchange)
    with pytest.raises(Conflict):
        scene.run("touch a/begun", hidden=("a/.env",), read_only=("a",))
    assert sorted(outside.iterdir()) == before


@pytest.mark.parametrize("isolation", ["shared", "layer"])
def test_the_file_of_gits_attributes_may_lie_in_a_folder_that_is_hidden(
    make_scene: MakeScene, tmp_path: Path, isolation: str
) -> None:
    """The state folder of a workspace that is the home folder lies below the root."""
    state = tmp_path / "ws/state"
    state.mkdir(parents=True)
    (state / "attributes").write_text("*.pem -diff\n")
    scene = make_scene("bubblewrap", secrets=(state,), state=state)
    command = f"ls -A state; cat {GIT_ATTRIBUTES}"
    confinement = Confinement(
        git_attributes=str(state / "attributes"), layer=scene.layers.create() if isolation == "layer" else None
    )
    outcome = scene.provider.run(Command(command, timeout=LONG, output_limit=1000, confinement=confinement))
    assert outcome.stdout == "*.pem -diff\n"


# -- the end of the server


HOST = """
import os, sys
from tests.support.provider_workspace import Scene
from pathlib import Path
Scene("bubblewrap", Path(sys.argv[1])).run(sys.argv[2], environment={"CASE_MARK": sys.argv[3]})
"""


def test_the_death_of_the_server_ends_its_commands(tmp_path: Path) -> None:
    skip_unless_works("bubblewrap")
    (tmp_path / "ws").mkdir()
    mark = f"mark-{os.getpid()}"
    command = "trap '' TERM HUP; (setsid sleep 1000 &); touch begun; sleep 1000"
    host = subprocess.Popen(
        [sys.executable, "-c", HOST, str(tmp_path / "ws"), command, mark], cwd=Path(wap_kernel.__file__).parents[1]
    )
    assert eventually((tmp_path / "ws/begun").exists)
    host.kill()
    host.wait()
    assert eventually(lambda: alive(mark) == [])


def test_a_command_that_kills_everything_it_can(scene: Scene) -> None:
    outcome, living = scene.run_marked("(setsid sleep 1000 &); kill -9 -1; sleep 1000")
    assert (outcome.exit_code, living) == (137, [])


def test_a_command_that_tries_to_forge_its_exit(scene: Scene) -> None:
    assert scene.run("echo exit 5 > /proc/$PPID/fd/0; exit 4").exit_code == 4


def test_many_at_once(tmp_path: Path) -> None:
    skip_unless_works("bubblewrap")
    before = len(os.listdir("/proc/self/fd"))
    (tmp_path / "ws").mkdir()
    with closing(Scene("bubblewrap", tmp_path / "ws")) as scene, ThreadPoolExecutor(12) as threads:
        outcomes = list(threads.map(lambda number: scene.run(f"echo {number}").stdout, range(24)))
    assert outcomes == [f"{number}\n" for number in range(24)]
    assert len(os.listdir("/proc/self/fd")) <= before  # fewer, where something from before is collected meanwhile
