"""The supervisor under attack by its own command."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from tests.support.processes import LEFT_BEHIND, LONG, READY, Runner, eventually, is_alive, program
from wap_kernel.model.command import CancelToken
from wap_kernel.providers.process import supervisor, supervisor_handle

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks at processes through /proc")


def test_a_command_cannot_talk_its_supervisor_into_leaving(run: Runner) -> None:
    signals = "for name in TERM INT HUP QUIT USR1 USR2 TSTP ALRM PIPE CHLD CONT; do kill -$name $PPID; done"
    outcome = run(f"{signals}; {LEFT_BEHIND['in a session of its own']}; {signals}")
    assert (outcome.stdout, outcome.exit_code) == ("ready\n", 0)
    assert not is_alive(run.pid())


@pytest.mark.parametrize("left", LEFT_BEHIND)
def test_a_command_that_kills_its_supervisor(run: Runner, left: str) -> None:
    outcome = run(f"{LEFT_BEHIND[left]}; kill -9 $PPID; while :; do sleep 0.01; done")
    assert (outcome.stdout, outcome.exit_code) == ("ready\n", 137)
    assert eventually(lambda: not is_alive(run.pid()))


def test_a_command_that_announces_its_end_and_kills_its_supervisor(run: Runner) -> None:
    forge = "for fd in /proc/$PPID/fd/[3-9]; do [ -p $fd ] && printf 'exit 0\\n' > $fd; done"
    run(f"{LEFT_BEHIND['forked twice, in a session of its own']}; {forge}; kill -9 $PPID; sleep 1000")
    assert eventually(lambda: not is_alive(run.pid()))


def test_a_supervisor_that_is_killed_after_the_end_of_its_command(run: Runner) -> None:
    (run.folder / "left").write_text(
        "trap '' TERM\necho $$ > pid\nwhile kill -0 $1; do sleep 0.01; done\nkill -9 $2\nexec sleep 1000\n"
    )
    outcome = run(f"setsid sh left $$ $PPID 2>/dev/null & {READY}; exit 7", grace=LONG)
    assert (outcome.stdout, outcome.exit_code) == ("ready\n", 7)
    assert eventually(lambda: not is_alive(run.pid()))


def test_the_tag_of_another_command_is_not_taken_for_ours(run: Runner) -> None:
    other = subprocess.Popen(["sleep", "1000"], env={supervisor_handle.TAG: "0" * 32}, start_new_session=True)
    run(f"{LEFT_BEHIND['forked twice, in a session of its own']}; kill -9 $PPID; sleep 1000")
    assert eventually(lambda: not is_alive(run.pid()))
    assert other.poll() is None
    other.kill()
    other.wait()


@pytest.mark.parametrize("stop", ["kill -STOP $PPID", "trap '' TERM; while :; do kill -STOP $PPID; done"])
def test_a_command_that_stops_its_supervisor(run: Runner, monkeypatch: pytest.MonkeyPatch, stop: str) -> None:
    monkeypatch.setattr(
        supervisor_handle, "_MARGIN_SECONDS", -supervisor.KILL_SECONDS
    )  # do not wait so long for one that hangs
    cancel = CancelToken()
    command = f"{LEFT_BEHIND['in a session of its own']}; {stop}; sleep 1000"
    outcome = run(command, on_chunk=lambda *_: cancel.request(), cancel=cancel)
    assert (outcome.stdout, outcome.cancelled) == ("ready\n", True)
    assert not is_alive(run.pid())


def test_a_command_that_writes_to_the_status_pipe(run: Runner) -> None:
    forged = r"\xff\xfe\nexit\nexit x\nexit -1\nstarted 1\nfailed\nfailed exec x\n"
    outcome = run(f"for fd in /proc/$PPID/fd/[3-9]; do [ -p $fd ] && printf '{forged}' > $fd; done; exit 4")
    assert outcome.exit_code == 4


@pytest.mark.parametrize("left", ["deaf to TERM", "stopped"])
def test_the_process_group_is_ended_where_orphans_cannot_be_kept(
    run: Runner, monkeypatch: pytest.MonkeyPatch, left: str
) -> None:
    monkeypatch.setattr(supervisor_handle, "_PROGRAM", program("\nbecome_subreaper = lambda: False\n"))
    outcome = run(f"{LEFT_BEHIND[left]}; exit 7")
    assert (outcome.stdout, outcome.exit_code) == ("ready\n", 7)
    assert eventually(lambda: not is_alive(run.pid()))  # whoever inherits it reaps it


@pytest.mark.parametrize("pins", [True, False])
def test_a_signal_reaches_that_process_only(monkeypatch: pytest.MonkeyPatch, pins: bool) -> None:
    monkeypatch.setattr(supervisor, "_PINS", pins and supervisor._PINS)
    child = subprocess.Popen(["sleep", "1000"])
    process = supervisor.read_process(child.pid)
    assert process is not None
    assert process.parent == os.getpid()
    assert child.pid in [
        found.pid for found in supervisor.find_descendants({os.getpid()}, supervisor.read_process_table())
    ]
    other = supervisor.ProcessEntry(child.pid, "S", process.parent, process.session, process.start + 1)
    supervisor.send_signal(other, signal.SIGTERM)  # the number was reused since
    supervisor.send_signal(process, signal.SIGKILL)
    assert child.wait() == -signal.SIGKILL
    supervisor.send_signal(process, signal.SIGKILL)  # gone: nothing happens
