"""Commands really run: what they answer, how they are stopped, and that nothing of them is left."""

from __future__ import annotations

import errno
import marshal
import os
import re
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from wap_kernel.commands import running, supervised, supervisor
from wap_kernel.commands.outcome import Cancel, OnChunk, Outcome, Stream
from wap_kernel.errors import Code, ExecutionFailed, InvalidArgument, WapError

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks at processes through /proc")

LONG = 60.0
"""Seconds that no test reaches unless something hangs."""
ENVIRONMENT = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LC_ALL": "C.UTF-8"}


class Runner:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.fd = os.open(folder, os.O_RDONLY)

    def __call__(
        self,
        command: str,
        *,
        timeout: float = LONG,
        limit: int = 1 << 20,
        grace: float = 0.1,
        environment: dict[str, str] | None = None,
        on_chunk: OnChunk | None = None,
        cancel: Cancel | None = None,
    ) -> Outcome:
        return running.run(
            running.shell(command, ENVIRONMENT["PATH"]),
            cwd=self.fd,
            environment=ENVIRONMENT if environment is None else environment,
            timeout=timeout,
            output_limit=limit,
            grace=grace,
            on_chunk=on_chunk,
            cancel=cancel,
        )

    def pid(self) -> int:
        return int((self.folder / "pid").read_text())


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Runner]:
    before = sorted(os.listdir("/proc/self/fd"))
    runner = Runner(tmp_path)
    yield runner
    os.close(runner.fd)
    assert sorted(os.listdir("/proc/self/fd")) == before


def program(extra: str = "") -> bytes:
    """The supervisor's code as it is sent, with something changed at its end."""
    source = Path(supervisor.__file__).read_text() + extra
    return marshal.dumps(compile(source, supervisor.__file__, "exec"))


def is_alive(pid: int) -> bool:
    process = supervisor.read_process(pid)
    return process is not None and process.state not in "ZX"


def eventually(condition: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + LONG
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.01)
    return condition()


# -- what a command answers


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
    added = {"PWD", "SHLVL", "_", supervised.TAG}
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
    """What the server ignores or blocks is not passed on; its umask is."""
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
    assert (nice, mode) == (str(min(19, own + supervised.NICE)), "0027")


# -- much output


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
        (running.BUFFER_SIZE + 1, 0.0, running.BREATH),
        (running.FREE, 0.0, running.BREATH),
        (running.FREE + running.RATE, 0.0, 1.0),
        (running.FREE + running.RATE, 0.25, 0.75),
        (running.FREE + running.RATE, 5.0, running.BREATH),
    ],
)
def test_a_flood_is_slowed_down(total: int, elapsed: float, expected: float) -> None:
    assert running.pause(total, elapsed) == expected


def test_a_flood_without_end(run: Runner) -> None:
    outcome = run("echo $$ > pid; exec yes", timeout=2.0, limit=1000)
    assert outcome.timed_out
    assert outcome.stdout_bytes > 1_000_000
    assert outcome.stdout.startswith("y\ny\n")
    assert len(outcome.stdout) <= 1000
    assert not is_alive(run.pid())


# -- nothing is left

READY = "until [ -s pid ]; do sleep 0.01; done; echo ready"
SLEEPER = "sh -c 'echo $$ > pid; exec sleep 1000'"
LEFT_BEHIND = {
    "in the background": f"{SLEEPER} & {READY}",
    "with the pipes closed": f"{SLEEPER} >&- 2>&- & {READY}",
    "in a session of its own": f"setsid {SLEEPER} & {READY}",
    "forked twice": f"( ( {SLEEPER} & ) & ); {READY}",
    "forked twice, in a session of its own": f"( ( setsid {SLEEPER} & ) & ); {READY}",
    "deaf to HUP": f"nohup {SLEEPER} & {READY}",
    "deaf to TERM": f"(trap '' TERM; exec {SLEEPER}) & {READY}",
    "deaf to TERM, forked twice, in a session of its own": f"(trap '' TERM; ( setsid {SLEEPER} & ) & ); {READY}",
    "stopped": f"{SLEEPER} & until [ -s pid ]; do sleep 0.01; done; kill -STOP $(cat pid); echo ready",
    "stopped, in a session of its own": (
        f"setsid {SLEEPER} & until [ -s pid ]; do sleep 0.01; done; kill -STOP $(cat pid); echo ready"
    ),
    "answering TERM with another": (
        """(trap 'sh -c "trap \\"\\" TERM; sleep 1000" &' TERM; echo $BASHPID > pid; while :; do sleep 0.01; done) & """
        + READY
    ),
}


@pytest.mark.parametrize("command", LEFT_BEHIND.values(), ids=LEFT_BEHIND)
def test_what_a_command_leaves_behind_is_ended(run: Runner, command: str) -> None:
    outcome = run(f"{command}; exit 7")
    assert (outcome.stdout, outcome.exit_code, outcome.timed_out) == ("ready\n", 7, False)
    assert not is_alive(run.pid())


@pytest.mark.parametrize("command", LEFT_BEHIND.values(), ids=LEFT_BEHIND)
def test_cancelling_ends_everything(run: Runner, command: str) -> None:
    cancel = Cancel()

    def on_chunk(stream: Stream, chunk: bytes) -> None:
        threading.Thread(target=cancel.request).start()

    outcome = run(f"{command}; sleep 1000", on_chunk=on_chunk, cancel=cancel)
    assert (outcome.stdout, outcome.cancelled, outcome.timed_out) == ("ready\n", True, False)
    assert outcome.exit_code == 143
    assert not is_alive(run.pid())


def test_timeout_asks_first_and_keeps_what_was_said(run: Runner) -> None:
    outcome = run("trap 'echo bye; exit 5' TERM; echo hello; while :; do sleep 0.01; done", timeout=2.0, grace=LONG)
    assert (outcome.stdout, outcome.exit_code, outcome.timed_out) == ("hello\nbye\n", 5, True)


def test_timeout_kills_what_does_not_listen(run: Runner) -> None:
    outcome = run("trap '' TERM; echo $$ > pid; echo hello; while :; do sleep 0.01; done", timeout=2.0)
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
    cancel = Cancel()
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


# -- the supervisor under attack, and the server's death


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
    other = subprocess.Popen(["sleep", "1000"], env={supervised.TAG: "0" * 32}, start_new_session=True)
    run(f"{LEFT_BEHIND['forked twice, in a session of its own']}; kill -9 $PPID; sleep 1000")
    assert eventually(lambda: not is_alive(run.pid()))
    assert other.poll() is None
    other.kill()
    other.wait()


@pytest.mark.parametrize("stop", ["kill -STOP $PPID", "trap '' TERM; while :; do kill -STOP $PPID; done"])
def test_a_command_that_stops_its_supervisor(run: Runner, monkeypatch: pytest.MonkeyPatch, stop: str) -> None:
    monkeypatch.setattr(supervised, "_MARGIN", -supervisor.PATIENCE)  # do not wait so long for one that hangs
    cancel = Cancel()
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
    monkeypatch.setattr(supervised, "_PROGRAM", program("\nbecome_subreaper = lambda: False\n"))
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
    assert child.pid in [found.pid for found in supervisor.below({os.getpid()}, supervisor.process_table())]
    other = supervisor.Process(child.pid, "S", process.parent, process.session, process.start + 1)
    supervisor.send(other, signal.SIGTERM)  # the number was reused since
    supervisor.send(process, signal.SIGKILL)
    assert child.wait() == -signal.SIGKILL
    supervisor.send(process, signal.SIGKILL)  # gone: nothing happens


HOST = """
import os, sys
from wap_kernel.commands import running
running.run(
    running.shell(sys.argv[1], "/bin"), cwd=os.open(sys.argv[2], os.O_RDONLY), environment={"PATH": "/usr/bin:/bin"},
    timeout=1000, output_limit=1000, grace=0.1,
)
"""


@pytest.mark.parametrize("left", ["deaf to TERM, forked twice, in a session of its own", "stopped"])
def test_the_death_of_the_server_ends_its_commands(tmp_path: Path, left: str) -> None:
    command = f"{LEFT_BEHIND[left]}; echo $$ > shell; sleep 1000"
    host = subprocess.Popen([sys.executable, "-c", HOST, command, str(tmp_path)], cwd=Path(running.__file__).parents[2])
    shell = tmp_path / "shell"
    assert eventually(lambda: shell.exists() and shell.read_text().endswith("\n"))
    pids = [int(shell.read_text()), int((tmp_path / "pid").read_text())]
    assert all(map(is_alive, pids))
    host.kill()
    host.wait()
    assert eventually(lambda: not any(map(is_alive, pids)))


# -- what cannot be started


def test_no_shell(run: Runner) -> None:
    with pytest.raises(ExecutionFailed, match="No such file"):
        running.run(["/no/such/shell"], cwd=run.fd, environment={}, timeout=LONG, output_limit=100)


def test_no_interpreter(run: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/no/such/python")
    with pytest.raises(ExecutionFailed, match="No such file"):
        run("true")


def test_a_supervisor_that_dies_at_once(run: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervised, "_PROGRAM", program("\nsys.exit('no room for modules')\n"))
    with pytest.raises(ExecutionFailed, match="could not be started") as failure:
        run("true")
    assert failure.value.hint == "no room for modules"


def test_a_python_that_was_replaced_under_the_server(run: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would take the code of another version for its own."""
    monkeypatch.setattr(supervised, "_PYTHON", "cpython-39")
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
        running.shell(command, "/bin")


def test_sh_serves_where_there_is_no_bash(run: Runner) -> None:
    argv = running.shell("echo $0 -n", "/no/such/folder", candidates=())
    assert argv == ["/bin/sh", "-c", "--", "echo $0 -n"]
    outcome = running.run(argv, cwd=run.fd, environment={}, timeout=LONG, output_limit=100)
    assert (outcome.stdout, outcome.exit_code) == ("/bin/sh -n\n", 0)
