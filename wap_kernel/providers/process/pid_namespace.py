"""A command in a PID namespace of its own that bubblewrap makes, as the server sees it.

The end is simple here: killing the namespace's first process kills everything in it, and bubblewrap waits for that.
Only the way there needs care, since bubblewrap itself would end the namespace together with the command: what the
command left behind may first finish (`exec > >(tee log)`), then gets TERM and a grace, as everywhere.

So a small shell script stays in the namespace beside the command. It says `ready` when all mounts are made, waits for
`go` (meanwhile the server looks at the mounts and sets limits), runs the command, and tells its exit code. What it
tells comes from within the sandbox and could be forged, but only by the command about itself. It speaks through a
socket, because there the kernel says which process wrote, by its number on our side.
"""

from __future__ import annotations

import ctypes
import errno
import math
import os
import platform
import re
import select
import signal
import socket
import struct
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass
from functools import cache
from secrets import token_hex

from wap_kernel.model.errors import ProviderUnavailable, WapError
from wap_kernel.providers.process import supervisor
from wap_kernel.providers.process.supervisor_handle import NICE, TAG, cannot_start, pipe, wait_for

START_SECONDS = 30.0
"""A sandbox that is not ready after so long never will be."""
_MARGIN = 2.0
_POLL = 0.01
_LONGEST_LINE = 100
_LONGEST_REASON = 1000
_CREDENTIALS = struct.Struct("3i")
_KEYCTL = {"x86_64": 250, "aarch64": 219, "riscv64": 219}
_JOIN_SESSION_KEYRING = 1
_SIGNALS = re.compile(rb"^(Sig\w+):\s*([0-9a-f]+)$", re.MULTILINE)
_UNDONE = sum(1 << number - 1 for number in (signal.SIGPIPE, getattr(signal, "SIGXFSZ", signal.SIGPIPE)))
"""What Popen undoes of what Python ignores."""
_NOT_THE_COMMANDS = 2
"""Processes in every namespace: its first one, and the script."""

# A signal that is ignored would be ignored by the command as well, one that is caught is not; hence `trap :`. What the
# shell itself remarks ("Killed") is nobody's output: the command's stderr is set in a subshell only. When the command
# has ended, the script must stay, else the namespace would end at once.
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


@dataclass(frozen=True)
class Sandbox:
    """A sandbox that has been made and waits: the numbers of its processes on our side."""

    init: int
    leader: int
    """Whatever is set for it (limits, a cgroup), the command inherits."""


class Namespaced:
    """The command, its sandbox and our descriptors. `stack` ends and closes all of it.

    bubblewrap is started within `inside`. `meanwhile` is called while the sandbox is being made, `before` when it is
    ready, before the command runs; what they raise, the constructor raises.
    """

    def __init__(
        self,
        stack: ExitStack,
        program: str,
        options: Sequence[str],
        argv: Sequence[str],
        environment: Mapping[str, str],
        grace: float,
        before: Callable[[Sandbox], None],
        meanwhile: Callable[[], None] = lambda: None,
        inside: Callable[[], AbstractContextManager[None]] = nullcontext,
        seccomp: bytes | None = None,
    ) -> None:
        self.patience = grace + supervisor.PATIENCE + _MARGIN
        self.leader: int | None = None
        self.exit_code: int | None = None
        self.due = math.inf
        self._grace = grace
        self._ending: Iterator[float] | None = None
        self._partial = b""
        self._finished = False
        self._init: supervisor.Process | None = None
        self._processes = -1
        with ExitStack() as theirs:
            ours, job = socket.socketpair()
            stack.callback(ours.close)
            theirs.callback(job.close)
            ours.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
            self._socket = ours
            self.status = ours.fileno()
            self.stdout, stdout = pipe(stack, theirs)
            self.stderr, stderr = pipe(stack, theirs)
            for descriptor in (self.stdout, self.stderr, self.status):
                os.set_blocking(descriptor, False)
            files = []
            if seccomp is not None:
                files.append(_file_of(theirs, seccomp))
                options = (*options, "--seccomp", str(files[0]))
            # Not in its argument vector: the command can read that, and what is hidden would be listed in it.
            described = _file_of(theirs, os.fsencode("\0".join((*options, ""))))
            _leave_keyring()
            with inside():
                self._process = subprocess.Popen(
                    [program, "--args", str(described), "--", "/bin/sh", "-c", _SCRIPT, "sh", *argv],
                    stdin=job.fileno(),
                    stdout=stdout,
                    stderr=stderr,
                    pass_fds=(described, *files),
                    env={**environment, TAG: token_hex(16)},
                    start_new_session=True,  # what signals the server's or kernel's group must not end it halfway
                    preexec_fn=supervisor.reset_signals
                    if _inherits_signals()
                    else None,  # costs a slower fork, so only if needed
                )
        stack.callback(self.finish)
        meanwhile()
        sandbox = self._wait_until_ready(stack)
        before(sandbox)
        _lower_priority(sandbox.init)
        self.leader = sandbox.leader
        self._socket.send(b"go\n")

    def _wait_until_ready(self, stack: ExitStack) -> Sandbox:
        told = b""
        ready = select.poll()
        ready.register(self.status, select.POLLIN)
        deadline = time.monotonic() + START_SECONDS
        while not told.endswith(b"\n"):
            if not ready.poll(max(0.0, deadline - time.monotonic()) * 1000):
                raise ProviderUnavailable(f"The sandbox was not ready after {START_SECONDS:g} seconds.")
            data, ancillary, _, _ = self._socket.recvmsg(64, socket.CMSG_SPACE(_CREDENTIALS.size))
            if not data:
                wait_for(self._process, self.patience)
                raise sandbox_failure(self._complaint())
            told += data
        credentials = next(data for _, kind, data in ancillary if kind == socket.SCM_CREDENTIALS)
        leader = supervisor.read_process(_CREDENTIALS.unpack(credentials)[0])
        self._init = supervisor.read_process(leader.parent) if leader else None
        if leader is None or self._init is None:
            raise ProviderUnavailable("The sandbox ended while it was being started.", hint="Try again.")
        try:
            self._processes = os.open(f"/proc/{self._init.pid}/root/proc", os.O_RDONLY | os.O_DIRECTORY)
        except OSError as error:
            raise ProviderUnavailable(
                f"The sandbox cannot be looked into: {error.strerror}.",
                hint="bwrap must not be installed setuid: chmod u-s $(command -v bwrap)",
            ) from error
        stack.callback(os.close, self._processes)
        return Sandbox(self._init.pid, leader.pid)

    def _complaint(self) -> str:
        try:
            return os.read(self.stderr, _LONGEST_REASON).decode("utf-8", "replace").strip()
        except BlockingIOError:
            return ""

    def listen(self) -> bool:
        try:
            data = os.read(self.status, 4096)
        except BlockingIOError:
            return True
        except ConnectionResetError:  # killed before it had read all that we said
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
                    raise cannot_start("exec", int(number))
        return bool(data)

    def tick(self) -> None:
        self.due = next(self._ending, math.inf) if self._ending else math.inf

    def end(self) -> None:
        if self._ending is None:
            self._ending = self._terminate(self._grace)
            self.tick()

    def finish(self, patience: float | None = None) -> None:
        if self._finished:
            return
        self._finished = True
        self._kill()
        try:
            wait_for(self._process, self.patience if patience is None else patience)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    # -- the way to the end: generators of when to look again

    def _wind_down(self) -> Iterator[float]:
        yield from self._while_something_is_left(supervisor.SETTLE)
        if self._is_something_left():
            yield from self._terminate(min(self._grace, supervisor.LEFTOVER_GRACE))
        self._kill()

    def _terminate(self, grace: float) -> Iterator[float]:
        told: set[tuple[int, int]] = set()
        self._signal_all(told)
        for moment in self._while_something_is_left(grace):
            yield moment
            self._signal_all(told)  # what has only been started since, such as the command itself
        self._kill()

    def _while_something_is_left(self, seconds: float) -> Iterator[float]:
        deadline = time.monotonic() + seconds
        while self._is_something_left() and (now := time.monotonic()) < deadline:
            yield min(now + _POLL, deadline)

    def _is_something_left(self) -> bool:
        if self.exit_code is None:
            return True
        try:
            return sum(name.isdigit() for name in os.listdir(self._processes)) > _NOT_THE_COMMANDS
        except OSError:  # the namespace is gone
            return False

    def _signal_all(self, told: set[tuple[int, int]]) -> None:
        """Each once: a command may take its time over it."""
        if self._init is None:
            return
        for process in supervisor.below({self._init.pid}, supervisor.process_table()):
            if (process.pid, process.start) in told:
                continue
            told.add((process.pid, process.start))
            if process.pid != self.leader:
                supervisor.send(process, signal.SIGTERM)
            supervisor.send(process, signal.SIGCONT)  # a stopped process sees TERM only when it goes on

    def _kill(self) -> None:
        if self._process.returncode is None:
            if self._init is not None:
                supervisor.send(self._init, signal.SIGKILL)  # bubblewrap then reaps it and ends
            else:
                self._process.kill()


def _file_of(stack: ExitStack, data: bytes) -> int:
    """A nameless file that holds `data`, at its beginning: a pipe might be too small for it."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("options")
    else:  # not in every build of Python
        with tempfile.TemporaryFile() as file:
            descriptor = os.dup(file.fileno())
    stack.callback(os.close, descriptor)
    os.pwrite(descriptor, data, 0)
    return descriptor


def sandbox_failure(reason: str) -> WapError:
    """bubblewrap could not make the sandbox, and said `reason`."""
    if "chdir" in reason:  # the folder is hidden, or was moved since it was looked up
        return cannot_start("cwd", errno.EACCES)
    return ProviderUnavailable(
        f"The sandbox could not be started: {reason.removeprefix('bwrap: ') or 'it ended'}",
        hint="Nothing was run. `wap doctor` tells what this machine lacks.",
    )


def _lower_priority(init: int) -> None:
    """As `supervisor.lower_priority`, from outside; the namespace's first process leads the session and the group."""
    try:
        os.setpriority(os.PRIO_PGRP, init, min(19, os.getpriority(os.PRIO_PROCESS, 0) + NICE))
        with open(f"/proc/{init}/autogroup", "wb", buffering=0) as group:
            group.write(b"%d" % NICE)
    except OSError:
        pass  # without autogroups, or set too often: it goes without


@cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None)


def _leave_keyring() -> None:
    """Give this thread, and so what it starts, an empty session keyring: the kernel keeps a login's keys by session,
    not by namespace. The server's other threads keep theirs."""
    number = _KEYCTL.get(platform.machine())
    if number is not None:
        _libc().syscall(number, _JOIN_SESSION_KEYRING, None)  # refused where there are no keyrings: fine


def _inherits_signals() -> bool:
    """Whether something is ignored or blocked here that a new program would inherit and Popen does not undo; or nobody
    knows, as in a sandbox whose /proc is not Linux's."""
    try:
        with open("/proc/thread-self/status", "rb") as file:
            masks = dict(_SIGNALS.findall(file.read()))
        return bool(int(masks[b"SigBlk"], 16) or int(masks[b"SigIgn"], 16) & ~_UNDONE)
    except (OSError, KeyError):
        return True
