"""Run one command and end what it leaves behind, in a process of its own that `supervisor_handle.py` starts.

A process group is not enough: `setsid` and a double fork leave it. So this process makes itself the reaper of every
orphan below it (PR_SET_CHILD_SUBREAPER): every process that the command starts stays its descendant, and when it has no
child left, nothing of the command is left. When the command has ended, or the control pipe is closed (a timeout, a
cancellation, the server's death even by SIGKILL), every descendant gets TERM, a grace, and KILL until it is gone or
KILL has no effect. Elsewhere than on Linux there is no such reaper, and only the command's process group is ended.

Every command waits for the start of this process, so it imports nothing of the package and no module that is itself
written in Python: `signal`, `ctypes` and `os` cost more than all the rest, and serve only where their C halves do not.
Descriptors: 0 control (the job, then only its end), 1 status, 2 the command's stderr. Status lines: `started PID`,
`failed STAGE ERRNO`, `exit CODE`. If this process ends with another status than 0, the server has to clean up.
"""

import select
import sys
import time

TYPE_CHECKING = False  # `typing` is written in Python too, and so is `__future__`: hence the quotes below
if TYPE_CHECKING:
    import os
    import signal
    from typing import NoReturn
else:
    try:
        import _signal as signal
        import posix as os
    except ImportError:  # another Python than CPython, or Windows, which imports this and never runs it
        import os
        import signal

LINGER_SECONDS = 0.2
"""Seconds in which leftover processes may end by themselves: the `tee` of `exec > >(tee log)` is still writing."""
LEFTOVER_GRACE_SECONDS = 1.0
"""Seconds between TERM and KILL for leftover processes, at most: the caller waits for the outcome."""
KILL_SECONDS = 2.0
"""Seconds without an effect of KILL after which it is given up (another user's process, a hanging disk)."""
_POLL = 0.02
_PINS = hasattr(os, "pidfd_open") and hasattr(signal, "pidfd_send_signal")
"""Process descriptors are available; not every build of Python has them, conda's for one."""
_PR_SET_CHILD_SUBREAPER = 36


class ProcessEntry:
    """An entry of the process table. A number alone may be reused; number and start time together are not."""

    __slots__ = ("parent", "pid", "session", "start", "state")

    def __init__(self, pid: int, state: str, parent: int, session: int, start: int) -> None:
        self.pid = pid
        self.state = state
        self.parent = parent
        self.session = session
        self.start = start


def read_process(pid: int) -> ProcessEntry | None:
    try:
        with open(f"/proc/{pid}/stat", "rb", buffering=0) as file:
            text = file.read(4096)
    except OSError:
        return None
    fields = text[text.rindex(b")") + 2 :].split()  # the name before it may hold anything, spaces and ")" too
    return ProcessEntry(pid, fields[0].decode(), int(fields[1]), int(fields[3]), int(fields[19]))


def list_process_numbers() -> list[int]:
    try:
        return [int(name) for name in os.listdir("/proc") if name.isdigit()]
    except OSError:
        return []


def read_process_table() -> list[ProcessEntry]:
    return [process for process in map(read_process, list_process_numbers()) if process is not None]


def find_descendants(roots: set[int], table: list[ProcessEntry]) -> list[ProcessEntry]:
    """Return every process of `table` that descends from one of `roots`, without the roots."""
    children: dict[int, list[ProcessEntry]] = {}
    for process in table:
        children.setdefault(process.parent, []).append(process)
    found: list[ProcessEntry] = []
    pending = list(roots)
    while pending:
        for child in children.pop(pending.pop(), ()):
            if child.pid not in roots:
                found.append(child)
            pending.append(child.pid)
    return found


def send_signal(process: ProcessEntry, number: int) -> None:
    """Signal exactly this process: pin its number first, where that is possible, then compare its start time."""
    try:
        pinned = os.pidfd_open(process.pid) if _PINS else None
    except ProcessLookupError:
        return
    except OSError:  # an old kernel, or a seccomp filter
        pinned = None
    try:
        now = read_process(process.pid)
        if now is None or now.start != process.start:
            return
        if pinned is None:
            os.kill(process.pid, number)
        else:
            signal.pidfd_send_signal(pinned, number)
    except (ProcessLookupError, PermissionError):
        pass  # gone, or another user's (sudo), which this process may not end
    finally:
        if pinned is not None:
            os.close(pinned)


def send_group_signal(group: int, number: int) -> None:
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        pass  # macOS answers EPERM for a group of zombies


class Supervisor:
    """The life of one command: running, lingering, terminating, killing."""

    def __init__(self, leader: int, grace: float, status: int, wake: int, *, reaps_orphans: bool) -> None:
        self._leader = leader
        self._grace = grace
        self._status = status
        self._wake = wake
        self._reaps_orphans = reaps_orphans
        self._leader_ended = False

    def supervise(self) -> None:
        while not self._leader_ended:
            if self._wait(None, control=True):
                return self._end(self._grace)
            self._reap()
        if not self._gone_within(LINGER_SECONDS):
            self._end(min(self._grace, LEFTOVER_GRACE_SECONDS))

    def _end(self, grace: float) -> None:
        self._signal(signal.SIGTERM)
        self._signal(signal.SIGCONT)  # a stopped process sees TERM only when it goes on
        if self._gone_within(grace):
            return
        known: set[tuple[int, int]] = set()
        give_up = time.monotonic() + KILL_SECONDS
        while time.monotonic() < give_up:
            targets = {(process.pid, process.start) for process in self._signal(signal.SIGKILL)}
            if not targets <= known:  # it forks faster than it is killed: that is no reason to stop
                known |= targets
                give_up = time.monotonic() + KILL_SECONDS
            if self._gone_within(_POLL):
                return

    def _signal(self, number: int) -> list[ProcessEntry]:
        if not self._reaps_orphans:
            send_group_signal(self._leader, number)
            return []
        targets = find_descendants({os.getpid()}, read_process_table())
        for process in targets:
            send_signal(process, number)
        return targets

    def _gone_within(self, seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        while not self._reap():
            left = deadline - time.monotonic()
            if left <= 0:
                return False
            # Without a reaper there is no SIGCHLD for the rest of the group, so poll.
            self._wait(left if self._reaps_orphans else min(left, _POLL), control=False)
        return True

    def _reap(self) -> bool:
        """Reap the processes that have ended; return True when none is left."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return self._reaps_orphans or not self._group_exists()
            if pid == 0:
                return False
            if pid == self._leader:
                self._leader_ended = True
                code = os.waitstatus_to_exitcode(status)
                report(self._status, f"exit {code if code >= 0 else 128 - code}")

    def _group_exists(self) -> bool:
        try:
            os.killpg(self._leader, 0)
        except (ProcessLookupError, PermissionError):
            return False
        return True

    def _wait(self, seconds: float | None, *, control: bool) -> bool:
        """Sleep until a child ends; return True when the control pipe was closed."""
        ready, _, _ = select.select([self._wake, 0] if control else [self._wake], [], [], seconds)
        if self._wake in ready:
            os.read(self._wake, 4096)
        return 0 in ready


def report(status: int, line: str) -> None:
    try:
        os.write(status, line.encode() + b"\n")
    except BrokenPipeError:
        pass  # the server is gone; this process still ends the command


def become_subreaper() -> bool:
    if sys.platform != "linux":
        return False
    arguments = (_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    try:
        import _ctypes

        program = _ctypes.dlopen(None, 0)  # type: ignore[arg-type]  # dlopen(3): "if NULL, the main program"
        result = _ctypes.call_function(_ctypes.dlsym(program, "prctl"), arguments)
    except (ImportError, AttributeError):  # another Python than CPython, or a later one
        import ctypes

        result = ctypes.CDLL(None).prctl(*arguments)
    return bool(result == 0 and read_process(os.getpid()))


def reset_signals(*, ignore: bool = False) -> None:
    """Set every signal to its default action, or ignore it: exec inherits what the server ignores or blocks."""
    action = signal.SIG_IGN if ignore else signal.SIG_DFL  # of the module imported here: `_signal` knows no enum
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        try:
            signal.signal(number, action)
        except OSError:
            pass  # reserved by the C library
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def lower_priority(nice: int) -> None:
    """Lower the priority below the server's, also that of the session, by which Linux groups processes."""
    os.nice(nice)
    try:
        with open("/proc/self/autogroup", "wb", buffering=0) as group:
            group.write(b"%d" % nice)
    except OSError:
        pass  # only root may set it more often than ten times a second: this command goes without


def execute(
    status: int, stdout: int, cwd: int, nice: int, argv: list[bytes], environment: dict[bytes, bytes]
) -> "NoReturn":
    """Become the command, in the forked child. Every descriptor but 0, 1 and 2 closes by itself on exec."""
    stage = "session"
    try:
        os.setsid()
        reset_signals()
        lower_priority(nice)
        stage = "cwd"
        os.fchdir(cwd)
        stage = "exec"
        os.dup2(os.open("/dev/null", os.O_RDONLY), 0)
        os.dup2(stdout, 1)
        report(status, f"started {os.getpid()}")
        os.execve(argv[0], argv, environment)
    except OSError as error:
        report(status, f"failed {stage} {error.errno}")
    finally:
        os._exit(127)


def main(job: list[bytes]) -> None:
    """Run the command of `job`, which holds the fields that `supervisor_handle.py` sends."""
    reset_signals(ignore=True)  # `kill $PPID` or `killall python` must not stop the process that cleans up
    stdout, cwd, nice, grace, count, *rest = job
    argv, variables = rest[: int(count)], rest[int(count) :]
    environment = dict(variable.split(b"=", 1) for variable in variables)
    status = os.dup(1)
    os.dup2(2, 1)
    for inherited in (int(stdout), int(cwd)):
        os.set_inheritable(inherited, False)
    wake, wake_end = os.pipe()
    os.set_blocking(wake_end, False)
    signal.set_wakeup_fd(wake_end, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    reaps_orphans = become_subreaper()
    executed, executed_end = os.pipe()
    try:
        leader = os.fork()
    except OSError as error:
        report(status, f"failed fork {error.errno}")
        return
    if leader == 0:
        execute(status, int(stdout), int(cwd), int(nice), argv, environment)
    for theirs in (int(stdout), int(cwd), executed_end):
        os.close(theirs)
    os.read(executed, 1)  # ends when the child's exec closes its copy; until then it would ignore our TERM
    null = os.open("/dev/null", os.O_RDWR)
    for descriptor in (1, 2):  # the end of the command's output must not wait for this process
        os.dup2(null, descriptor)
    Supervisor(leader, float(grace), status, wake, reaps_orphans=reaps_orphans).supervise()
