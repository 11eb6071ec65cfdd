"""The supervisor process of one command as the server sees it: starting it, hearing from it, and its end.

`supervisor.py` is what runs in that process. Closing the control pipe is the one way to say "end everything".
"""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack

from wap_kernel.commands import supervisor
from wap_kernel.errors import ExecutionFailed, PermissionDenied, TooLarge, WapError

NICE = 10
_MARGIN = 2.0
_LONGEST_LINE = 100
_INTERPRETER_NEEDS = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")
"""Some installations cannot start Python without; the supervisor gets them, the command does not."""

_HINTS = {
    errno.EAGAIN: "The limit on processes is reached: end some and try again.",
    errno.ENOMEM: "The machine is out of memory: end some processes and try again.",
    errno.EMFILE: "The server has too many open files: try again in a moment.",
    errno.ENFILE: "The machine has too many open files: try again in a moment.",
}


class Supervised:
    """The supervisor process, its three pipes to us, and what it has told. `stack` ends and closes all of it."""

    def __init__(
        self, stack: ExitStack, argv: Sequence[str], cwd: int, environment: Mapping[str, str], grace: float
    ) -> None:
        self.patience = grace + supervisor.PATIENCE + _MARGIN
        """Seconds after which the supervisor must have ended everything."""
        self.leader: int | None = None
        self.exit_code: int | None = None
        self._partial = b""
        self._finished = False
        self._control = stack.enter_context(ExitStack())
        with ExitStack() as theirs:
            job, control = pipe(theirs, self._control)
            self.stdout, stdout = pipe(stack, theirs)
            self.stderr, stderr = pipe(stack, theirs)
            self.status, status = pipe(stack, theirs)
            for descriptor in (self.stdout, self.stderr, self.status):
                os.set_blocking(descriptor, False)
            # Its environment is nearly empty because the command can read it in /proc.
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", supervisor.__file__],
                stdin=job,
                stdout=status,
                stderr=stderr,
                pass_fds=(stdout, cwd),
                env={name: os.environ[name] for name in _INTERPRETER_NEEDS if name in os.environ},
                start_new_session=True,
            )
        stack.callback(self.finish)
        _send_job(control, [stdout, cwd, NICE, grace, len(argv), *argv, *(f"{k}={v}" for k, v in environment.items())])

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
            self._process.wait(self.patience if patience is None else patience)
        except subprocess.TimeoutExpired:
            self._kill_rest()
            self._process.kill()
            self._process.wait()
        if self.exit_code is None:
            self._kill_rest()

    def _kill_rest(self) -> None:
        """KILL the command's session and what descends from it, and what the supervisor still holds."""
        if self.leader is None:
            return
        if sys.platform != "linux":
            return supervisor.send_group(self.leader, signal.SIGKILL)
        give_up = time.monotonic() + supervisor.PATIENCE
        while time.monotonic() < give_up:  # the table is read before anyone dies: it shows who descends from whom
            table = [process for process in supervisor.process_table() if process.state not in "ZX"]
            session = [process for process in table if process.session == self.leader]
            roots = {process.pid for process in session}
            if self._process.returncode is None:
                roots.add(self._process.pid)
            targets = session + supervisor.below(roots, table)
            if not targets:
                return
            for process in targets:
                supervisor.send(process, signal.SIGKILL)
            time.sleep(0.01)


def pipe(reader: ExitStack, writer: ExitStack) -> tuple[int, int]:
    """A pipe whose ends are closed by these."""
    read, write = os.pipe()
    reader.callback(os.close, read)
    writer.callback(os.close, write)
    return read, write


def _send_job(control: int, fields: Sequence[object]) -> None:
    data = b"".join(os.fsencode(str(field)) + b"\0" for field in fields)
    data = b"%d\n%b" % (len(data), data)
    try:
        while data:
            data = data[os.write(control, data) :]
    except BrokenPipeError:
        pass  # it died at once; the end of the status pipe tells


def cannot_start(stage: str, number: int) -> WapError:
    if number == errno.E2BIG:
        return TooLarge(
            "The command and its environment are too long for the operating system.",
            hint="Write a script with writeFile and run that.",
        )
    if stage == "cwd":
        return PermissionDenied("The operating system refuses to enter the working directory.")
    return ExecutionFailed(f"The command could not be started: {os.strerror(number)}.", hint=_HINTS.get(number))
