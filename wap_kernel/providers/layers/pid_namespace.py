"""Run a command in a PID namespace of its own, which bubblewrap creates.

The end is simple here: killing the namespace's first process kills everything in it, and bubblewrap waits for that.
Only the way there needs care, since bubblewrap itself would end the namespace together with the command: leftover
processes may first finish (`exec > >(tee log)`), then get TERM and a grace, as with every provider.

So a small shell script stays in the namespace with the command. It sends `ready` when all mounts are made, waits for
`go` (meanwhile the server verifies the mounts and sets limits), runs the command, and sends its exit code. A message
comes from within the sandbox and could be forged, but only by the command about itself. The messages go through a
socket, because there the kernel names the process that wrote, by its number outside of the namespace.
"""

from __future__ import annotations

import errno
import math
import os
import select
import signal
import socket
import struct
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from secrets import token_hex
from types import MappingProxyType

from wap_kernel.model.errors import ProviderUnavailable, WapError
from wap_kernel.model.hints import tell_user
from wap_kernel.providers.layers.launcher import CommandLine, NamespaceProcess
from wap_kernel.providers.process import supervisor
from wap_kernel.providers.process.inheritance import create_memory_file, lower_session_priority
from wap_kernel.providers.process.supervisor_handle import TAG, open_pipe, start_error, wait_for_exit

START_SECONDS = 30.0
"""Seconds after which a sandbox that is not ready is given up."""
_MARGIN_SECONDS = 2.0
_POLL = 0.01
_END_POLL = 0.0005
_LONGEST_LINE = 100
_LONGEST_REASON = 1000
_CREDENTIALS = struct.Struct("3i")
_OPTIONS_NUMBER = 10
"""The number of a descriptor in the sandbox's program."""
_OWN_PROCESSES = 2
"""Processes in every namespace that are not the command's: the first one, and the script."""

# A signal that is ignored would be ignored by the command as well, one that is caught is not; hence `trap :`. The
# shell's own remarks ("Killed") are not the command's output: only a subshell sets the command's stderr. When the
# command has ended, the script must stay, else the namespace would end immediately.
_SCRIPT = """\
trap : HUP INT QUIT USR1 USR2 PIPE ALRM TERM TSTP TTIN TTOU XCPU XFSZ VTALRM PROF WINCH IO
unset PWD OLDPWD SHLVL
exec 3>&2 2>/dev/null
echo ready >&0
read -r go || exit
if ! { [ -f "$1" ] && [ -x "$1" ]; }; then
    [ -e "$1" ] && echo failed exec 13 >&0 || echo failed exec 2 >&0
    read -r go
fi
(exec "$@" </dev/null 2>&3 3>&-)
echo exit $? >&0
read -r go
"""


class NamespacedCommand:
    """The command, its sandbox and the server's descriptors. `stack` ends and closes all of it.

    `launch` starts bubblewrap in a namespace that is prepared for it. `files` are files that its options name by the
    numbers of their descriptors, from 11 on. The constructor calls `while_starting` when the sandbox has been launched,
    and `on_ready` when it is ready, before the command runs, and raises what they raise.
    """

    def __init__(
        self,
        stack: ExitStack,
        launch: Callable[[CommandLine], NamespaceProcess],
        program: str,
        options: Sequence[str],
        argv: Sequence[str],
        environment: Mapping[str, str],
        grace: float,
        while_starting: Callable[[], None] = lambda: None,
        on_ready: Callable[[], None] = lambda: None,
        files: Mapping[int, bytes] = MappingProxyType({}),
    ) -> None:
        self.end_timeout = grace + supervisor.KILL_SECONDS + _MARGIN_SECONDS
        self.leader: int | None = None
        self.exit_code: int | None = None
        self.due = math.inf
        self._grace = grace
        self._ending: Iterator[float] | None = None
        self._partial = b""
        self._finished = False
        self._init: supervisor.ProcessEntry | None = None
        self._processes = -1
        with ExitStack() as theirs:
            ours, job = socket.socketpair()
            stack.callback(ours.close)
            theirs.callback(job.close)
            ours.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
            self._socket = ours
            self.status = ours.fileno()
            self.stdout, stdout = open_pipe(stack, theirs)
            self.stderr, stderr = open_pipe(stack, theirs)
            for descriptor in (self.stdout, self.stderr, self.status):
                os.set_blocking(descriptor, False)
            descriptors = {0: job.fileno(), 1: stdout, 2: stderr}
            descriptors |= {number: create_memory_file(theirs, data) for number, data in files.items()}
            # Not in its argument vector: the command can read that, and what is hidden would be listed in it.
            descriptors[_OPTIONS_NUMBER] = create_memory_file(theirs, os.fsencode("\0".join((*options, ""))))
            self._launched = launch(
                CommandLine(
                    [program, "--args", str(_OPTIONS_NUMBER), "--", "/bin/sh", "-c", _SCRIPT, "sh", *argv],
                    {**environment, TAG: token_hex(16)},
                    descriptors,
                )
            )
            self._process = self._launched.process
        stack.callback(self.finish)
        while_starting()
        leader = self._wait_until_ready(stack)
        self._launched.limits.add_process(leader)
        on_ready()
        assert self._init is not None
        lower_session_priority(self._init.pid)
        for pid in (self._init.pid, self._process.pid):
            self._launched.hold_namespace(pid)
        self.leader = leader
        self._socket.send(b"go\n")

    def _wait_until_ready(self, stack: ExitStack) -> int:
        """Return the number of the process whose limits and control group the command inherits."""
        received = b""
        ready = select.poll()
        ready.register(self.status, select.POLLIN)
        deadline = time.monotonic() + START_SECONDS
        while not received.endswith(b"\n"):
            if not ready.poll(max(0.0, deadline - time.monotonic()) * 1000):
                raise ProviderUnavailable(f"The sandbox was not ready after {START_SECONDS:g} seconds.")
            data, ancillary, _, _ = self._socket.recvmsg(64, socket.CMSG_SPACE(_CREDENTIALS.size))
            if not data:
                wait_for_exit(self._process, self.end_timeout)
                raise self._explain_failure()
            received += data
        credentials = next(data for _, kind, data in ancillary if kind == socket.SCM_CREDENTIALS)
        leader = supervisor.read_process(_CREDENTIALS.unpack(credentials)[0])
        self._init = supervisor.read_process(leader.parent) if leader else None
        if leader is None or self._init is None:
            raise ProviderUnavailable("The sandbox ended while it was being started.", hint="Try again.")
        try:
            self._processes = os.open(f"/proc/{self._init.pid}/root/proc", os.O_RDONLY | os.O_DIRECTORY)
        except OSError as error:
            raise ProviderUnavailable(
                f"The sandbox cannot be inspected: {error.strerror}.",
                hint="bwrap must not be installed setuid: chmod u-s $(command -v bwrap)",
            ) from error
        stack.callback(os.close, self._processes)
        return leader.pid

    def _explain_failure(self) -> WapError:
        failure = self._launched.find_failure()
        if failure is None:
            return sandbox_error(self._read_error())
        return failure.to_error() or sandbox_error(failure.text)

    def _read_error(self) -> str:
        try:
            return os.read(self.stderr, _LONGEST_REASON).decode("utf-8", "replace").strip()
        except BlockingIOError:
            return ""

    def listen(self) -> bool:
        try:
            data = os.read(self.status, 4096)
        except BlockingIOError:
            return True
        except ConnectionResetError:  # killed before it had read all messages
            return False
        *lines, partial = (self._partial + data).split(b"\n")
        self._partial = partial[:_LONGEST_LINE]
        for line in lines:
            match line.split():
                case [b"exit", code] if code.isdigit() and self.exit_code is None:
                    self.exit_code = min(int(code), 255)
                    self._ending = self._ending or self._wind_down()
                    self.tick()
                case [b"failed", b"exec", number] if number.isdigit():
                    raise start_error("exec", int(number))
        return bool(data)

    def tick(self) -> None:
        self.due = next(self._ending, math.inf) if self._ending else math.inf

    def end(self) -> None:
        if self._ending is None:
            self._ending = self._terminate(self._grace)
            self.tick()

    def finish(self, timeout: float | None = None) -> None:
        if self._finished:
            return
        self._finished = True
        self._kill()
        try:
            wait_for_exit(self._process, self.end_timeout if timeout is None else timeout)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._await_init()
        self._launched.end()

    def _await_init(self) -> None:
        """Wait until the namespace has ended: bubblewrap may end first, and others would still write into a layer."""
        deadline = time.monotonic() + supervisor.KILL_SECONDS
        while self._init is not None and time.monotonic() < deadline:
            found = supervisor.read_process(self._init.pid)
            if found is None or found.start != self._init.start or found.state in "ZX":
                break
            time.sleep(_END_POLL)

    # -- the way to the end: generators that yield when to check again

    def _wind_down(self) -> Iterator[float]:
        yield from self._while_something_is_left(supervisor.LINGER_SECONDS)
        if self._is_something_left():
            yield from self._terminate(min(self._grace, supervisor.LEFTOVER_GRACE_SECONDS))
        self._kill()

    def _terminate(self, grace: float) -> Iterator[float]:
        signalled: set[tuple[int, int]] = set()
        self._signal_all(signalled)
        for moment in self._while_something_is_left(grace):
            yield moment
            self._signal_all(signalled)  # processes that were started since, such as the command itself
        self._kill()

    def _while_something_is_left(self, seconds: float) -> Iterator[float]:
        deadline = time.monotonic() + seconds
        while self._is_something_left() and (now := time.monotonic()) < deadline:
            yield min(now + _POLL, deadline)

    def _is_something_left(self) -> bool:
        if self.exit_code is None:
            return True
        try:
            return sum(name.isdigit() for name in os.listdir(self._processes)) > _OWN_PROCESSES
        except OSError:  # the namespace is gone
            return False

    def _signal_all(self, signalled: set[tuple[int, int]]) -> None:
        """Send TERM to each process once: a command may take its time over it."""
        if self._init is None:
            return
        for process in supervisor.find_descendants({self._init.pid}, supervisor.read_process_table()):
            if (process.pid, process.start) in signalled:
                continue
            signalled.add((process.pid, process.start))
            if process.pid != self.leader:
                supervisor.send_signal(process, signal.SIGTERM)
            supervisor.send_signal(process, signal.SIGCONT)  # a stopped process sees TERM only when it goes on

    def _kill(self) -> None:
        if self._process.returncode is None:
            if self._init is not None:
                supervisor.send_signal(self._init, signal.SIGKILL)  # bubblewrap then reaps it and ends
            else:
                self._process.kill()


def sandbox_error(reason: str) -> WapError:
    """Return the error for a sandbox that bubblewrap could not create for `reason`."""
    if "chdir" in reason:  # the folder is hidden, or was moved since it was looked up
        return start_error("cwd", errno.EACCES)
    return ProviderUnavailable(
        f"The sandbox could not be started: {reason.removeprefix('bwrap: ') or 'bubblewrap ended'}",
        hint=tell_user("Nothing was run. Run `wap doctor` to see what this machine lacks."),
    )
