"""Warm sandboxes that keep nothing from one command to the next, and of which nothing is left behind."""

from __future__ import annotations

import os
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from unittest.mock import Mock

import pytest

from tests.support.gvisor_sandboxes import of_sandboxes, providing, run, script, wait_until
from wap_kernel.model.command import CancelToken, MountedLayer
from wap_kernel.model.errors import ProviderUnavailable, WapError
from wap_kernel.providers.base import Probe
from wap_kernel.providers.gvisor import provider as gvisor
from wap_kernel.providers.gvisor.pool import SandboxKey, SandboxPool
from wap_kernel.providers.gvisor.pool_folder import PoolFolder
from wap_kernel.providers.gvisor.provider import GvisorProvider
from wap_kernel.providers.gvisor.sandbox import GvisorSandbox
from wap_kernel.providers.mounts import Guards
from wap_kernel.providers.resource_limits import find_groups

# -- warm sandboxes


def only_idle(provider: GvisorProvider) -> GvisorSandbox:
    (idle,) = provider._pool._idle_sandboxes
    assert idle.sandbox is not None
    return idle.sandbox


def test_commands_share_a_sandbox(provider: GvisorProvider, started: list[str]) -> None:
    for _ in range(3):
        assert run(provider, "echo hello").stdout == "hello\n"
    assert len(started) == 1


LEFT = [
    ("a file", "echo planted > /tmp/left", "cat /tmp/left"),
    ("a hidden file", "echo planted > ~/.gitconfig", "cat ~/.gitconfig"),
    ("a name like a pattern", "echo planted > '/tmp/*'", "cat '/tmp/*'"),
    ("a folder that was closed", "echo planted > ~/left; chmod 0700 ~", "cat ~/left"),
    ("shared memory", "echo planted > /dev/shm/left", "cat /dev/shm/left"),
    ("a device", "rm -f /dev/null; echo planted > /dev/null", "cat /dev/null"),
    ("on the way to the workspace", "echo planted > ../left", "cat ../left"),
    ("a process", "(while :; do echo planted > /tmp/left; sleep 0.01; done) >/dev/null 2>&1 &", "cat /tmp/left"),
    ("process 1", "kill -KILL 1; kill -STOP 1; echo planted > /proc/1/environ", "cat /proc/1/environ"),
]


@pytest.mark.parametrize(("first", "second"), [case[1:] for case in LEFT], ids=[case[0] for case in LEFT])
def test_nothing_goes_from_one_command_to_the_next(provider: GvisorProvider, first: str, second: str) -> None:
    run(provider, first)
    assert "planted" not in run(provider, second).stdout


def test_commands_at_once_have_sandboxes_of_their_own(provider: GvisorProvider, workspace: Path) -> None:
    meet = "touch {0}; until [ -e {1} ]; do sleep 0.02; done; echo /proc/[0-9]*"
    with ThreadPoolExecutor(2) as threads:
        answers = list(threads.map(lambda names: run(provider, meet.format(*names)).stdout, [("a", "b"), ("b", "a")]))
    assert all(len(answer.split()) <= 3 for answer in answers)


def test_a_sandbox_that_nobody_needs_is_ended(workspace: Path, started: list[str]) -> None:
    with providing(workspace, idle=0.01) as provider:
        run(provider, "true")
        wait_until(lambda: not os.path.exists(started[0]))
        assert not of_sandboxes(started[0])


def test_a_sandbox_that_was_killed_is_replaced(provider: GvisorProvider, started: list[str]) -> None:
    run(provider, "true")
    sandbox = only_idle(provider)
    for pid in of_sandboxes(started[0]):
        os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not of_sandboxes(started[0]))
    wait_until(lambda: not sandbox.is_alive)  # a dying process has lost its command line a moment before
    assert run(provider, "echo hello").stdout == "hello\n"


def test_a_command_that_cannot_be_started_leaves_nothing(provider: GvisorProvider, started: list[str]) -> None:
    run(provider, "true")
    runsc = only_idle(provider)._runsc
    program, runsc[0] = runsc[0], "/nonexistent/runsc"
    descriptors, files = len(os.listdir("/proc/self/fd")), sorted(os.listdir(started[0]))
    for _ in range(20):
        with pytest.raises(WapError):
            run(provider, "true")
    assert len(os.listdir("/proc/self/fd")) <= descriptors  # fewer, where something from before is collected
    assert sorted(os.listdir(started[0])) == files
    runsc[0] = program
    assert run(provider, "echo hello").stdout == "hello\n"
    assert len(started) == 1


def test_closing_waits_for_what_is_being_started_ahead(tmp_path: Path, works: Probe) -> None:
    """Whatever thread `close` finds can be joined: it has been started."""
    begun = threading.Event()

    def fail(wanted: SandboxKey, folder: str, layer: MountedLayer | None) -> GvisorSandbox:
        begun.set()
        raise ProviderUnavailable("not here")

    home = PoolFolder(gvisor.find_program(), str(tmp_path))
    found: list[bool] = []

    class Observed(list[threading.Thread]):
        def append(self, thread: threading.Thread) -> None:
            found.append(thread.ident is not None)
            super().append(thread)

    used = Mock(spec=GvisorSandbox)
    used.is_clean.return_value = False
    pool = SandboxPool(home, fail, Mock())
    pool._starting = Observed()
    pool.put_back(used, SandboxKey((), Guards(), False, (), ()), None)
    pool.close()
    used.end.assert_called_once_with()
    home.close()
    assert begun.is_set()
    assert found == [True]


# -- the end

ENDLESS = [
    ("alone", "sleep 1000", 128 + signal.SIGTERM),
    ("ignores TERM", "trap '' TERM; sleep 1000 & sleep 1000", 128 + signal.SIGKILL),
    ("a session of its own", "setsid sleep 1000 & sleep 1000", 128 + signal.SIGTERM),
    ("stopped", "kill -STOP $$", 128 + signal.SIGTERM),
]


@pytest.mark.parametrize(("command", "code"), [case[1:] for case in ENDLESS], ids=[case[0] for case in ENDLESS])
def test_nothing_is_left_after_a_cancellation(
    provider: GvisorProvider, workspace: Path, started: list[str], command: str, code: int
) -> None:
    cancel = CancelToken()
    with ThreadPoolExecutor(1) as threads:
        running = threads.submit(run, provider, f"touch begun; {command}", cancel=cancel)
        wait_until((workspace / "begun").exists)
        cancel.request()
        outcome = running.result()
    assert (outcome.cancelled, outcome.exit_code) == (True, code)
    assert run(provider, "echo /proc/[0-9]*").stdout.split()[0] == "/proc/1"
    assert len(run(provider, "echo /proc/[0-9]*").stdout.split()) == 2


def test_closing_leaves_no_trace(workspace: Path, started: list[str]) -> None:
    groups = list(find_groups().folders.values())
    before = [set(os.listdir(folder)) for folder in groups]
    threads = threading.active_count()
    with providing(workspace) as provider:
        run(provider, "touch /tmp/left")
        run(provider, "true")
        provider.close()
        with pytest.raises(ProviderUnavailable, match="closed"):
            run(provider, "true")
    assert not any(of_sandboxes(folder) for folder in started)
    assert not any(os.path.exists(os.path.dirname(folder)) for folder in started)
    # The others are somebody else's, who tests beside us.
    left = [
        name
        for folder, names in zip(groups, before, strict=True)
        for name in set(os.listdir(folder)) - names
        if name.startswith(f"wap-{os.getpid()}-")
    ]
    assert left == []
    assert threading.active_count() <= threads  # fewer, where one from before has ended meanwhile


KILLED = """
import sys
from pathlib import Path
from tests.support.gvisor_sandboxes import Command, providing
with providing(Path(sys.argv[1])) as provider:
    provider.run(Command("echo begun; trap '' TERM; setsid sleep 1000 & sleep 1000", 1000, 1000),
                 on_chunk=lambda *_: print(provider._folder.path, flush=True))
"""


def test_when_the_server_is_killed_nothing_stays(workspace: Path) -> None:
    with script(KILLED, workspace) as server:
        assert server.stdout is not None
        home = server.stdout.readline().strip()
        assert of_sandboxes(home)
        server.kill()
    wait_until(lambda: not of_sandboxes(home))
    assert os.path.isdir(home)
    PoolFolder(gvisor.find_program(), os.path.dirname(home)).close()  # the next start
    assert not os.path.exists(home)


def test_the_next_start_leaves_those_alone_who_live(tmp_path: Path, works: Probe) -> None:
    first = PoolFolder(gvisor.find_program(), str(tmp_path))
    second = PoolFolder(gvisor.find_program(), str(tmp_path))
    assert os.path.isdir(first.path)
    second.close()
    first.close()
    assert not list(tmp_path.iterdir())
