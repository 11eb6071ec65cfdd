"""Start the supervisor process of one command, read its status messages, and end it.

`supervisor.py` runs in that process. Closing the control pipe is the one way to request the end of everything.

A command runs with the rights of the server, so it can also kill its supervisor, which knows the processes of the
command. The server then finds them (on Linux) by their session, by descent, and by a random word that every command
carries in its environment; where control groups can be created (by root, or by a user to whom one was delegated), also
by their group. Without a group, a process escapes that has left both the session and its parents and has cleared,
overwritten or closed its environment as well; with one, a process that root has moved out of it; and every process, if
the server is killed too.
With the supervisor alive, only a process that KILL does not end can stay: another user's (sudo), one on a hanging disk.
"""

from __future__ import annotations

import errno
import marshal
import math
import os
import secrets
import select
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from importlib.abc import InspectLoader
from typing import Protocol

from wap_kernel.model.errors import ExecutionFailed, PathClosed, TooLarge, WapError
from wap_kernel.providers.process import supervisor

NICE = 10
_MARGIN_SECONDS = 2.0
_LONGEST_LINE = 100
_EMPTY_SCANS = 10
"""So many scans in a row must find nothing: one scan can miss a process that only forks and ends."""
_INTERPRETER_NEEDS = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")
"""Variables without which some installations cannot start Python; the supervisor gets them, the command does not."""

TAG = "WAP_COMMAND_ID"
"""The variable that marks a command's processes. It replaces a caller's own value."""

# The supervisor gets its code from the server. The code is compiled already, whether or not a cache could be written,
# and it matches the server's version, also when an update has replaced the package on the disk since.
_BOOT = """\
import marshal, posix, sys
if sys.implementation.cache_tag != {python!r}: sys.exit("Python was replaced by another version: restart the server.")
data = b""
while len(data) < {size}: data += posix.read(0, {size} - len(data)) or posix._exit(1)
supervisor = {{"__name__": "supervisor"}}
exec(marshal.loads(data), supervisor)
supervisor["main"](data[{program}:].split(b"\\0")[:-1])
posix._exit(0)
"""

_HINTS = {
    errno.EAGAIN: "The limit on processes is reached: end some and try again.",
    errno.ENOMEM: "The machine is out of memory: end some processes and try again.",
    errno.EMFILE: "The server has too many open files: try again in a moment.",
    errno.ENFILE: "The machine has too many open files: try again in a moment.",
}


class CommandGroup(Protocol):
    """A control group of one command, which its processes cannot leave."""

    def enter(self) -> AbstractContextManager[None]:
        """Put every process that the calling thread starts in the block into the group, where that is possible."""

    def add_process(self, pid: int) -> None:
        """Put a process into the group, with all that it will start, where `enter` cannot."""

    def kill_all(self) -> None:
        """KILL every process of the group."""


class SupervisedCommand:
    """The supervisor process of a command and its pipes to the server. `stack` ends and closes all of it."""

    def __init__(
        self,
        stack: ExitStack,
        argv: Sequence[str],
        cwd: int,
        environment: Mapping[str, str],
        grace: float,
        group: CommandGroup | None = None,
    ) -> None:
        self._group = group
        self.end_timeout = grace + supervisor.KILL_SECONDS + _MARGIN_SECONDS
        """Seconds within which the supervisor ends everything."""
        self.leader: int | None = None
        self.exit_code: int | None = None
        self.due = math.inf
        self._partial = b""
        self._finished = False
        self._tag = secrets.token_hex(16)
        self._control = stack.enter_context(ExitStack())
        with ExitStack() as theirs:
            job, control = open_pipe(theirs, self._control)
            self.stdout, stdout = open_pipe(stack, theirs)
            self.stderr, stderr = open_pipe(stack, theirs)
            self.status, status = open_pipe(stack, theirs)
            for descriptor in (self.stdout, self.stderr, self.status):
                os.set_blocking(descriptor, False)
            variables = [f"{name}={value}" for name, value in {**environment, TAG: self._tag}.items()]
            fields = _pack([stdout, cwd, NICE, grace, len(argv), *argv, *variables])
            # Its environment is nearly empty because the command can read it in /proc. The file's name at the end is
            # for people who list the processes.
            with nullcontext() if group is None else group.enter():
                self._process = subprocess.Popen(
                    [sys.executable, "-I", "-S", "-c", _build_boot_code(fields), supervisor.__file__],
                    stdin=job,
                    stdout=status,
                    stderr=stderr,
                    pass_fds=(stdout, cwd),
                    env={name: os.environ[name] for name in _INTERPRETER_NEEDS if name in os.environ},
                    start_new_session=True,
                )
        stack.callback(self.finish)
        if group is not None:
            group.add_process(self._process.pid)  # it waits for its code, so the command has not started yet
        _write(control, _PROGRAM + fields)

    def tick(self) -> None:
        """Do nothing: the supervisor has its own timers."""

    def end(self) -> None:
        """Request the end of everything."""
        self._control.close()
        self._process.send_signal(signal.SIGCONT)  # the command may have stopped it

    def listen(self) -> bool:
        """Read the status messages; return False when everything has ended."""
        try:
            data = os.read(self.status, 4096)
        except BlockingIOError:
            return True
        *lines, partial = (self._partial + data).split(b"\n")
        self._partial = partial[:_LONGEST_LINE]  # an unconfined command can write here too, through /proc
        for line in lines:
            match line.split():
                case [b"started", pid] if pid.isdigit() and self.leader is None:
                    self.leader = int(pid)
                case [b"exit", code] if code.isdigit() and self.exit_code is None:
                    self.exit_code = int(code)
                case [b"failed", stage, number] if number.isdigit():
                    raise start_error(stage.decode("ascii", "replace"), int(number))
        return bool(data)

    def finish(self, timeout: float | None = None) -> None:
        """End everything, also when the command killed or stopped its supervisor."""
        if self._finished:
            return
        self._finished = True
        self.end()
        try:
            wait_for_exit(self._process, self.end_timeout if timeout is None else timeout)
        except subprocess.TimeoutExpired:
            self._kill_rest()
            self._process.kill()
            self._process.wait()
        if self._process.returncode != 0:  # whatever its messages say: the command may have forged an exit
            self._kill_rest()
        if self._group is not None:
            self._group.kill_all()

    def _kill_rest(self) -> None:
        """KILL every process with the tag or of the command's session, the supervisor's children, and descendants."""
        if sys.platform != "linux":
            if self.leader is not None:
                supervisor.send_group_signal(self.leader, signal.SIGKILL)
            return
        give_up = time.monotonic() + supervisor.KILL_SECONDS
        empty_scans = 0
        while empty_scans < _EMPTY_SCANS and time.monotonic() < give_up:
            empty_scans = 0 if self._kill_matches() else empty_scans + 1
            time.sleep(0.002)

    def _kill_matches(self) -> bool:
        """Scan the process table once and KILL matches immediately, newest first: a process may only fork and end."""
        table: list[supervisor.ProcessEntry] = []
        roots = {self._process.pid} if self._process.returncode is None else set()
        for pid in sorted(supervisor.list_process_numbers(), reverse=True):
            process = supervisor.read_process(pid)
            if process is None or process.state in "ZX":
                continue
            table.append(process)
            if process.session == self.leader or self._has_tag(pid):
                supervisor.send_signal(process, signal.SIGKILL)
                roots.add(pid)
        descendants = supervisor.find_descendants(roots, table)
        for process in descendants:
            supervisor.send_signal(process, signal.SIGKILL)
        return bool(descendants or roots - {self._process.pid})

    def _has_tag(self, pid: int) -> bool:
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:
                return f"{TAG}={self._tag}".encode() in file.read()
        except OSError:  # it has ended, or the server may not read it
            return False


def wait_for_exit(process: subprocess.Popen[bytes], seconds: float) -> None:
    """Wait like Popen.wait, which would poll and lose a millisecond at nearly every command."""
    deadline = time.monotonic() + seconds
    if process.poll() is None:
        try:
            pinned = os.pidfd_open(process.pid)
        except (AttributeError, OSError):  # not in every build of Python, nor in an old kernel
            pass
        else:
            with ExitStack() as stack:
                stack.callback(os.close, pinned)
                ended = select.poll()
                ended.register(pinned, select.POLLIN)
                ended.poll(seconds * 1000)
    process.wait(max(0.0, deadline - time.monotonic()))


def open_pipe(reader: ExitStack, writer: ExitStack) -> tuple[int, int]:
    """Open a pipe whose ends the two stacks close."""
    read, write = os.pipe()
    reader.callback(os.close, read)
    writer.callback(os.close, write)
    return read, write


def _load_program() -> bytes:
    loader = supervisor.__spec__.loader
    code = loader.get_code(supervisor.__name__) if isinstance(loader, InspectLoader) else None
    if code is None:
        raise ImportError("The code of the supervisor cannot be loaded.", name=supervisor.__name__)
    return marshal.dumps(code)


_PROGRAM = _load_program()
_PYTHON = sys.implementation.cache_tag


def _build_boot_code(fields: bytes) -> str:
    return _BOOT.format(python=_PYTHON, program=len(_PROGRAM), size=len(_PROGRAM) + len(fields))


def _pack(fields: Sequence[object]) -> bytes:
    return b"".join(os.fsencode(str(field)) + b"\0" for field in fields)


def _write(control: int, data: bytes) -> None:
    try:
        while data:
            data = data[os.write(control, data) :]
    except BrokenPipeError:
        pass  # the supervisor died; the end of the status pipe reports it


def start_error(stage: str, number: int) -> WapError:
    if number == errno.E2BIG:
        return TooLarge(
            "The command and its environment are too long for the operating system.",
            hint="Write a script and run that.",
        )
    if stage == "cwd":
        return PathClosed("The operating system refuses to enter the working directory.")
    return ExecutionFailed(f"The command could not be started: {os.strerror(number)}.", hint=_HINTS.get(number))
