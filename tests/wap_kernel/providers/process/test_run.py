"""Commands really run: what they answer, however much it is, and what cannot be started."""

from __future__ import annotations

import errno
import os
import re
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.processes import LONG, Runner, is_alive, program
from tests.support.time_limits import growing
from wap_kernel.model.command import CancelToken, Stream
from wap_kernel.model.errors import Code, ExecutionFailed, InvalidArgument, WapError
from wap_kernel.providers.process import run as running
from wap_kernel.providers.process import supervisor_handle

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks at processes through /proc")


@pytest.mark.parametrize(
    ("command", "stdout", "stderr", "code"),
    [
        ("true", "", "", 0),
        ("exit 3", "", "", 3),
        ("echo out; echo err >&2", "out\n", "err\n", 0),
        ("printf no-newline", "no-newline", "", 0),
        ("kill -9 $$", "", "", 137),
        ("kill -TERM $$", "", "", 143),
        ("kill -SEGV $$", "", "", 139),
        ("no-such-program-here 2>/dev/null", "", "", 127),
        ("cat; echo $?", "0\n", "", 0),
        ("echo 'grüße €😀'", "grüße €😀\n", "", 0),
        (r"printf 'a\xff\xc3(b'", "a\ufffd\ufffd(b", "", 0),
        (r"printf '\x00\x01'", "\0\x01", "", 0),
        ("echo one | tr a-z A-Z && echo two\necho three", "ONE\ntwo\nthree\n", "", 0),
        ("echo $0", "/bin/bash\n", "", 0),
        ("-x 2>/dev/null", "", "", 127),
        ("--version 2>/dev/null", "", "", 127),
        ("", "", "", 0),
        (
            "shopt -q login_shell || echo no login; [[ $- == *i* ]] || echo not interactive",
            "no login\nnot interactive\n",
            "",
            0,
        ),
        (
            "exec > >(cat); echo through a process that outlives the shell",
            "through a process that outlives the shell\n",
            "",
            0,
        ),
    ],
)
def test_answers(run: Runner, command: str, stdout: str, stderr: str, code: int) -> None:
    outcome = run(command)
    assert (outcome.stdout, outcome.stderr, outcome.exit_code) == (stdout, stderr, code)
    assert (outcome.stdout_truncated, outcome.stderr_truncated) == (False, False)
    assert (outcome.timed_out, outcome.cancelled) == (False, False)
    assert outcome.duration > 0


def test_it_runs_in_the_folder_that_was_opened_wherever_that_is_now(run: Runner, tmp_path: Path) -> None:
    (tmp_path / "before").mkdir()
    folder = os.open(tmp_path / "before", os.O_RDONLY)
    (tmp_path / "before").rename(tmp_path / "after")
    (tmp_path / "before").symlink_to("/")
    outcome = running.run(["/bin/pwd"], cwd=folder, environment={}, timeout=LONG, output_limit=1000)
    os.close(folder)
    assert outcome.stdout == f"{tmp_path}/after\n"


def test_the_environment_is_what_was_given_and_the_tag(run: Runner) -> None:
    outcome = run("exec /usr/bin/env", environment={"A": "x=y\nz", "B": "", "ü": "€"})
    added = {"PWD", "SHLVL", "_", supervisor_handle.TAG}
    lines = [line for line in outcome.stdout.splitlines() if line.partition("=")[0] not in added]
    assert sorted(lines) == ["A=x=y", "B=", "z", "ü=€"]


def test_every_command_has_a_tag_of_its_own_whatever_the_caller_says(run: Runner) -> None:
    tags = {run("echo $WAP_COMMAND_ID", environment={"WAP_COMMAND_ID": "mine"}).stdout for _ in range(2)}
    assert len(tags) == 2
    assert all(re.fullmatch(r"[0-9a-f]{32}\n", tag) for tag in tags)


def test_the_supervisor_shows_nothing_of_the_server_or_the_command(
    run: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JUPYTER_TOKEN", "s3cret")
    outcome = run("tr '\\0' '\\n' < /proc/$PPID/environ; tr '\\0' ' ' < /proc/$PPID/cmdline")
    assert "s3cret" not in outcome.stdout
    assert "environ" not in outcome.stdout
    assert outcome.stdout.strip().endswith("supervisor.py")


def test_the_command_inherits_descriptors_0_1_2_and_nothing_else(run: Runner) -> None:
    inherited, inherited_end = os.pipe()
    os.set_inheritable(inherited_end, True)
    outcome = run("for ((n = 0; n < 1000; n++)); do [ -e /proc/$$/fd/$n ] && echo $n; done")
    os.close(inherited)
    os.close(inherited_end)
    assert {int(fd) for fd in outcome.stdout.split()} - {255} == {0, 1, 2}  # 255: bash's own


def test_signals_priority_and_umask(run: Runner) -> None:
    """A command does not inherit the signals that the server ignores or blocks; it inherits the umask."""
    ignored = [signal.SIGPIPE, signal.SIGHUP, signal.SIGINT]
    before = {number: signal.signal(number, signal.SIG_IGN) for number in ignored}
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD, signal.SIGTERM, signal.SIGUSR1])
    umask = os.umask(0o027)
    try:
        outcome = run("grep -E 'Sig(Blk|Ign)' /proc/self/status; nice; umask; touch file")
    finally:
        os.umask(umask)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        for number, handler in before.items():
            signal.signal(number, handler)
    own = os.getpriority(os.PRIO_PROCESS, 0)
    _, blocked, _, ignored_there, nice, mode = outcome.stdout.split()
    kept_by_libc = 0b11 << 31  # 32 and 33: no program can set them, and make starts programs with 32 ignored
    assert (int(blocked, 16), int(ignored_there, 16) & ~kept_by_libc) == (0, 0)
    assert (nice, mode) == (str(min(19, own + supervisor_handle.NICE)), "0027")


def test_many_small_lines(run: Runner) -> None:
    outcome = run("for ((i = 0; i < 50000; i++)); do echo $i; done", limit=1 << 20)
    assert outcome.stdout == "".join(f"{i}\n" for i in range(50_000))


def test_big_output_is_counted_exactly_and_kept_within_the_limit(run: Runner) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    outcome = run("printf START; head -c 100000000 /dev/zero; printf END; head -c 3000000 /dev/zero >&2", limit=10_000)
    assert (outcome.stdout_bytes, outcome.stderr_bytes) == (100_000_008, 3_000_000)
    assert (outcome.stdout_truncated, outcome.stderr_truncated) == (True, True)
    assert len((outcome.stdout + outcome.stderr).encode()) <= 10_000
    assert outcome.stdout.startswith("START\0")
    assert outcome.stdout.endswith("\0END")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 30_000  # KiB


def test_a_character_cut_across_reads(run: Runner) -> None:
    reads: list[bytes] = []
    command = r"printf '\xf0\x9f'; until [ -e seen ]; do sleep 0.01; done; printf '\x98\x80'"

    def on_chunk(stream: Stream, chunk: bytes) -> None:
        reads.append(chunk)
        (run.folder / "seen").touch()

    assert run(command, on_chunk=on_chunk).stdout == "😀"
    assert reads == [b"\xf0\x9f", b"\x98\x80"]


def test_chunks_are_the_whole_output_by_stream(run: Runner) -> None:
    seen: dict[Stream, bytes] = {"stdout": b"", "stderr": b""}

    def on_chunk(stream: Stream, chunk: bytes) -> None:
        seen[stream] += chunk

    outcome = run("seq 100000; seq 7 >&2", limit=100, on_chunk=on_chunk)
    assert seen["stdout"] == b"".join(b"%d\n" % i for i in range(1, 100_001))
    assert seen["stderr"] == b"1\n2\n3\n4\n5\n6\n7\n"
    assert outcome.stdout_bytes == len(seen["stdout"])


@pytest.mark.parametrize(
    ("total", "elapsed", "expected"),
    [
        (0, 0.0, 0.0),
        (running.BUFFER_SIZE, 0.0, 0.0),
        (running.BUFFER_SIZE + 1, 0.0, running.READ_PAUSE_SECONDS),
        (running.UNTHROTTLED_BYTES, 0.0, running.READ_PAUSE_SECONDS),
        (running.UNTHROTTLED_BYTES + running.BYTES_PER_SECOND, 0.0, 1.0),
        (running.UNTHROTTLED_BYTES + running.BYTES_PER_SECOND, 0.25, 0.75),
        (running.UNTHROTTLED_BYTES + running.BYTES_PER_SECOND, 5.0, running.READ_PAUSE_SECONDS),
    ],
)
def test_a_flood_is_slowed_down(total: int, elapsed: float, expected: float) -> None:
    assert running.compute_pause(total, elapsed) == expected


def test_a_flood_without_end(run: Runner) -> None:
    for seconds in growing(1.0):
        outcome = run("echo $$ > pid; exec yes", timeout=seconds, limit=1000)
        assert outcome.timed_out
        if outcome.stdout_bytes > 1_000_000:
            break
    assert outcome.stdout_bytes > 1_000_000
    assert outcome.stdout.startswith("y\ny\n")
    assert len(outcome.stdout) <= 1000
    assert not is_alive(run.pid())


def test_no_shell(run: Runner) -> None:
    with pytest.raises(ExecutionFailed, match="No such file"):
        running.run(["/no/such/shell"], cwd=run.fd, environment={}, timeout=LONG, output_limit=100)


def test_no_interpreter(run: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/no/such/python")
    with pytest.raises(ExecutionFailed, match="No such file"):
        run("true")


def test_a_supervisor_that_dies_at_once(run: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor_handle, "_PROGRAM", program("\nsys.exit('no room for modules')\n"))
    with pytest.raises(ExecutionFailed, match="could not be started") as failure:
        run("true")
    assert failure.value.hint == "no room for modules"


def test_a_python_that_was_replaced_under_the_server(run: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    """The interpreter would run code that another version compiled."""
    monkeypatch.setattr(supervisor_handle, "_PYTHON", "cpython-39")
    with pytest.raises(ExecutionFailed, match="could not be started") as failure:
        run("true")
    assert "restart the server" in (failure.value.hint or "")


def test_a_command_line_longer_than_the_system_takes(run: Runner) -> None:
    with pytest.raises(WapError) as refusal:
        run("#" * 200_000)
    assert refusal.value.code is Code.SIZE_LIMIT_EXCEEDED


def test_no_process_can_be_forked(run: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    def popen(*_: object, **__: object) -> None:
        raise BlockingIOError(errno.EAGAIN, "fork")

    monkeypatch.setattr(subprocess, "Popen", popen)
    with pytest.raises(ExecutionFailed, match="temporarily unavailable") as failure:
        run("true")
    assert "limit on processes" in (failure.value.hint or "")


@pytest.mark.parametrize("command", ["echo \0", "echo \ud800"])
def test_a_malformed_command(command: str) -> None:
    with pytest.raises(InvalidArgument):
        running.build_shell_argv(command, "/bin")


def test_sh_serves_where_there_is_no_bash(run: Runner) -> None:
    argv = running.build_shell_argv("echo $0 -n", "/no/such/folder", candidates=())
    assert argv == ["/bin/sh", "-c", "--", "echo $0 -n"]
    outcome = running.run(argv, cwd=run.fd, environment={}, timeout=LONG, output_limit=100)
    assert (outcome.stdout, outcome.exit_code) == ("/bin/sh -n\n", 0)


def test_a_cancel_may_grant_less_time_than_the_provider(run: Runner) -> None:
    """Nothing but KILL ends this command, and its own grace is longer than any test may take."""
    cancel = CancelToken()

    def end(_: Stream, __: bytes) -> None:
        cancel.request(0.05)

    command = "trap '' TERM; echo $$ > pid; echo begun; while :; do sleep 0.05; done"
    outcome = run(command, grace=100_000.0, timeout=100_000.0, on_chunk=end, cancel=cancel)
    assert outcome.cancelled
    assert not is_alive(run.pid())
