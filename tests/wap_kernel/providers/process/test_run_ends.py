"""Test that commands are stopped, and that nothing of them is left."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.support.processes import LEFT_BEHIND, LONG, READY, Runner, eventually, is_alive
from tests.support.time_limits import growing
from wap_kernel.model.command import CancelToken, Stream
from wap_kernel.providers.process import run as running

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks at processes through /proc")


@pytest.mark.parametrize("command", LEFT_BEHIND.values(), ids=LEFT_BEHIND)
def test_what_a_command_leaves_behind_is_ended(run: Runner, command: str) -> None:
    outcome = run(f"{command}; exit 7")
    assert (outcome.stdout, outcome.exit_code, outcome.timed_out) == ("ready\n", 7, False)
    assert not is_alive(run.pid())


@pytest.mark.parametrize("command", LEFT_BEHIND.values(), ids=LEFT_BEHIND)
def test_cancelling_ends_everything(run: Runner, command: str) -> None:
    cancel = CancelToken()

    def on_chunk(stream: Stream, chunk: bytes) -> None:
        threading.Thread(target=cancel.request).start()

    outcome = run(f"{command}; sleep 1000", on_chunk=on_chunk, cancel=cancel)
    assert (outcome.stdout, outcome.cancelled, outcome.timed_out) == ("ready\n", True, False)
    assert outcome.exit_code == 143
    assert not is_alive(run.pid())


def test_timeout_asks_first_and_keeps_what_was_said(run: Runner) -> None:
    for seconds in growing(0.5):
        command = "trap 'echo bye; exit 5' TERM; echo hello; while :; do sleep 0.01; done"
        outcome = run(command, timeout=seconds, grace=LONG)
        if outcome.stdout:
            break
    assert (outcome.stdout, outcome.exit_code, outcome.timed_out) == ("hello\nbye\n", 5, True)


def test_timeout_kills_what_does_not_listen(run: Runner) -> None:
    for seconds in growing(0.5):
        outcome = run("trap '' TERM; echo $$ > pid; echo hello; while :; do sleep 0.01; done", timeout=seconds)
        if outcome.stdout:
            break
    assert (outcome.stdout, outcome.exit_code, outcome.timed_out) == ("hello\n", 137, True)
    assert not is_alive(run.pid())


def test_a_command_that_forks_all_the_time(run: Runner) -> None:
    """Each generation ignores TERM and lives on only in its child, which has a session of its own."""
    (run.folder / "hop").write_text(
        "trap '' TERM\necho x >> hops\n[ $(wc -l < hops) -gt 5 ] && echo $$ > pid\nsetsid sh hop &\n"
    )
    os.mkfifo(run.folder / "held")  # by every generation, so it ends when the last of them does
    held = os.open(run.folder / "held", os.O_RDONLY | os.O_NONBLOCK)
    try:
        outcome = run(f"exec 9> held; sh hop; {READY}")
        assert outcome.stdout == "ready\n"
        assert os.read(held, 1) == b""
    finally:
        os.close(held)
        (run.folder / "hop").unlink()


def test_cancelled_before_it_began(run: Runner) -> None:
    cancel = CancelToken()
    cancel.request()
    outcome = run("touch begun", cancel=cancel)
    assert outcome.cancelled
    assert not (run.folder / "begun").exists()


def test_a_failing_callback_ends_the_command(run: Runner) -> None:
    def on_chunk(stream: Stream, chunk: bytes) -> None:
        raise RuntimeError("the reader is gone")

    with pytest.raises(RuntimeError, match="the reader is gone"):
        run(f"{LEFT_BEHIND['in a session of its own']}; sleep 1000", on_chunk=on_chunk)
    assert not is_alive(run.pid())


HOST = """
import os, sys
from wap_kernel.providers.process import run as running
running.run(
    running.build_shell_argv(sys.argv[1], "/bin"), cwd=os.open(sys.argv[2], os.O_RDONLY),
    environment={"PATH": "/usr/bin:/bin"}, timeout=1000, output_limit=1000, grace=0.1,
)
"""


@pytest.mark.parametrize("left", ["deaf to TERM, forked twice, in a session of its own", "stopped"])
def test_the_death_of_the_server_ends_its_commands(tmp_path: Path, left: str) -> None:
    command = f"{LEFT_BEHIND[left]}; echo $$ > shell; sleep 1000"
    host = subprocess.Popen([sys.executable, "-c", HOST, command, str(tmp_path)], cwd=Path(running.__file__).parents[3])
    shell = tmp_path / "shell"
    assert eventually(lambda: shell.exists() and shell.read_text().endswith("\n"))
    pids = [int(shell.read_text()), int((tmp_path / "pid").read_text())]
    assert all(map(is_alive, pids))
    host.kill()
    host.wait()
    assert eventually(lambda: not any(map(is_alive, pids)))
