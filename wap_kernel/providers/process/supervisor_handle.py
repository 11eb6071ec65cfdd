"""The supervisor process of one command as the server sees it: starting it, hearing from it, and its end.

`supervisor.py` is what runs in that process. Closing the control pipe is the one way to say "end everything".

A command runs with the rights of the server, so it can also kill its supervisor, and with it goes the knowledge of what
belongs to the command. What is left is then found (on Linux) by its session, by descent, and by a random word that
every command carries in its environment; where control groups can be made (root, or a user to whom one was delegated),
also by its group. Without one, out of reach remains a process that has left both the session and its parents and has
cleared, overwritten or closed its environment as well; with one, a process that root has moved out of it; and
everything, if the server is killed too.
With the supervisor alive, only what KILL does not end can stay: another user's process (sudo), one on a hanging disk.
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
_MARGIN = 2.0
_LONGEST_LINE = 100
_CERTAIN = 10
"""So many looks in a row must find nothing: one look can miss what forks and ends all the time."""
_INTERPRETER_NEEDS = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")
"""Some installations cannot start Python without; the supervisor gets them, the command does not."""

TAG = "WAP_COMMAND_ID"
"""The variable by which a command's processes are known. A caller's own value for it is replaced."""

# The supervisor gets its code from us. It is compiled already, whether or not a cache could be written, and it is what
# we speak with, also when the package on the disk has been replaced by another version since.
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


class Group(Protocol):
    """What the kernel keeps together, whatever its processes do: a control group."""

    def inside(self) -> AbstractContextManager[None]:
        """Within the block, what the calling thread starts is in the group, where that is possible."""

    def put(self, pid: int) -> None:
        """Where it is not, this puts a process in the group, with all that it will start."""

    def kill_all(self) -> None:
        """KILL whatever is in the group."""


class Supervised:
    """The supervisor process, its three pipes to us, and what it has told. `stack` ends and closes all of it."""

    def __init__(
        self,
        stack: ExitStack,
        argv: Sequence[str],
        cwd: int,
        environment: Mapping[str, str],
        grace: float,
        group: Group | None = None,
    ) -> None:
        self._group = group
        self.patience = grace + supervisor.PATIENCE + _MARGIN
        """Seconds after which the supervisor must have ended everything."""
        self.leader: int | None = None
        self.exit_code: int | None = None
        self.due = math.inf
        self._partial = b""
        self._finished = False
        self._tag = secrets.token_hex(16)
        self._control = stack.enter_context(ExitStack())
        with ExitStack() as theirs:
            job, control = pipe(theirs, self._control)
            self.stdout, stdout = pipe(stack, theirs)
            self.stderr, stderr = pipe(stack, theirs)
            self.status, status = pipe(stack, theirs)
            for descriptor in (self.stdout, self.stderr, self.status):
                os.set_blocking(descriptor, False)
            variables = [f"{name}={value}" for name, value in {**environment, TAG: self._tag}.items()]
            fields = _pack([stdout, cwd, NICE, grace, len(argv), *argv, *variables])
            # Its environment is nearly empty because the command can read it in /proc. The file's name at the end is
            # for people who list the processes.
            with nullcontext() if group is None else group.inside():
                self._process = subprocess.Popen(
                    [sys.executable, "-I", "-S", "-c", _boot(fields), supervisor.__file__],
                    stdin=job,
                    stdout=status,
                    stderr=stderr,
                    pass_fds=(stdout, cwd),
                    env={name: os.environ[name] for name in _INTERPRETER_NEEDS if name in os.environ},
                    start_new_session=True,
                )
        stack.callback(self.finish)
        if group is not None:
            group.put(self._process.pid)  # it waits for its code, so there is nothing of the command yet
        _write(control, _PROGRAM + fields)

    def tick(self) -> None:
        """Never due: the supervisor has clocks of its own."""

    def end(self) -> None:
        """Ask for the end of everything."""
        self._control.close()
        self._process.send_signal(signal.SIGCONT)  # the command may have stopped it

    def listen(self) -> bool:
        """Take in what was told; False when everything is over."""
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
                    raise cannot_start(stage.decode("ascii", "replace"), int(number))
        return bool(data)

    def finish(self, patience: float | None = None) -> None:
        """Leave nothing: also when the supervisor was killed or stopped by its own command."""
        if self._finished:
            return
        self._finished = True
        self.end()
        try:
            wait_for(self._process, self.patience if patience is None else patience)
        except subprocess.TimeoutExpired:
            self._kill_rest()
            self._process.kill()
            self._process.wait()
        if self._process.returncode != 0:  # whatever was told: an exit that was announced may have been forged
            self._kill_rest()
        if self._group is not None:
            self._group.kill_all()

    def _kill_rest(self) -> None:
        """KILL what carries the tag, the command's session, what the supervisor still holds, and all below these."""
        if sys.platform != "linux":
            if self.leader is not None:
                supervisor.send_group(self.leader, signal.SIGKILL)
            return
        give_up = time.monotonic() + supervisor.PATIENCE
        rounds_without = 0
        while rounds_without < _CERTAIN and time.monotonic() < give_up:
            rounds_without = 0 if self._kill_seen() else rounds_without + 1
            time.sleep(0.002)

    def _kill_seen(self) -> bool:
        """One look at the process table. The newest first, and at once: a process may do nothing but fork and end."""
        table: list[supervisor.Process] = []
        roots = {self._process.pid} if self._process.returncode is None else set()
        for pid in sorted(supervisor.process_numbers(), reverse=True):
            process = supervisor.read_process(pid)
            if process is None or process.state in "ZX":
                continue
            table.append(process)
            if process.session == self.leader or self._has_tag(pid):
                supervisor.send(process, signal.SIGKILL)
                roots.add(pid)
        descendants = supervisor.below(roots, table)
        for process in descendants:
            supervisor.send(process, signal.SIGKILL)
        return bool(descendants or roots - {self._process.pid})

    def _has_tag(self, pid: int) -> bool:
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:
                return f"{TAG}={self._tag}".encode() in file.read()
        except OSError:  # it has ended, or it is not ours to read
            return False


def wait_for(process: subprocess.Popen[bytes], seconds: float) -> None:
    """As Popen.wait, which sleeps a millisecond between its looks: at nearly every command, for nothing."""
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


def pipe(reader: ExitStack, writer: ExitStack) -> tuple[int, int]:
    """A pipe whose ends are closed by these."""
    read, write = os.pipe()
    reader.callback(os.close, read)
    writer.callback(os.close, write)
    return read, write


def _load_program() -> bytes:
    loader = supervisor.__spec__.loader
    code = loader.get_code(supervisor.__name__) if isinstance(loader, InspectLoader) else None
    if code is None:
        raise ImportError("The code of the supervisor cannot be had.", name=supervisor.__name__)
    return marshal.dumps(code)


_PROGRAM = _load_program()
_PYTHON = sys.implementation.cache_tag


def _boot(fields: bytes) -> str:
    return _BOOT.format(python=_PYTHON, program=len(_PROGRAM), size=len(_PROGRAM) + len(fields))


def _pack(fields: Sequence[object]) -> bytes:
    return b"".join(os.fsencode(str(field)) + b"\0" for field in fields)


def _write(control: int, data: bytes) -> None:
    try:
        while data:
            data = data[os.write(control, data) :]
    except BrokenPipeError:
        pass  # it died at once; the end of the status pipe tells


def cannot_start(stage: str, number: int) -> WapError:
    if number == errno.E2BIG:
        return TooLarge(
            "The command and its environment are too long for the operating system.",
            hint="Write a script and run that.",
        )
    if stage == "cwd":
        return PathClosed("The operating system refuses to enter the working directory.")
    return ExecutionFailed(f"The command could not be started: {os.strerror(number)}.", hint=_HINTS.get(number))
