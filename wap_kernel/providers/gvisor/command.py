"""One command in a gVisor sandbox, with what `commands/running.py` wants of a process.

`runsc exec` runs the command, and its exit status is the command's. A thread follows it: what takes time (signalling,
the grace, the end of the sandbox) must not keep the output from being read. Killing is ending the whole sandbox.
"""

from __future__ import annotations

import math
import os
import select
import signal
import subprocess
import threading
import time
from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any

from wap_kernel.model.errors import ExecutionFailed, PermissionDenied, ProviderUnavailable, WapError
from wap_kernel.providers.gvisor.sandbox import PATIENCE, Sandbox
from wap_kernel.providers.process.supervisor import LEFTOVER_GRACE, SETTLE
from wap_kernel.providers.process.supervisor_handle import pipe

_POLL = 0.02


class SandboxedCommand:
    """`stack` ends and closes all of it, but not the sandbox, unless the command has to be killed."""

    def __init__(self, stack: ExitStack, sandbox: Sandbox, process: Mapping[str, Any], grace: float) -> None:
        self.patience = grace + 3 * PATIENCE
        """Seconds after which everything must have been ended."""
        self.due = math.inf
        self.leader: int | None = None
        self.exit_code: int | None = None
        self._sandbox = sandbox
        self._grace = grace
        self._error: WapError | None = None
        self._call = sandbox.command(process)
        stack.callback(self._call.forget)
        self._control = stack.enter_context(ExitStack())
        self._told = stack.enter_context(ExitStack())
        with ExitStack() as theirs:
            self.stdout, stdout = pipe(stack, theirs)
            self.stderr, stderr = pipe(stack, theirs)
            self.status, self._tell = pipe(stack, self._told)
            self._asked_to_end, _ = pipe(stack, self._control)
            self._ended, running = pipe(stack, theirs)  # not a pidfd: not every build of Python has these
            for descriptor in (self.stdout, self.stderr, self.status):
                os.set_blocking(descriptor, False)
            self._exec = subprocess.Popen(
                self._call.argv,
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
                pass_fds=(running,),
                env={},
                start_new_session=True,
            )
        self._thread = threading.Thread(target=self._follow, name="wap-gvisor-command", daemon=True)
        self._thread.start()
        stack.callback(self.finish)

    def tick(self) -> None:
        """Never due: what is to be done in time is done on the thread."""

    def end(self) -> None:
        """Ask for the end of everything."""
        self._control.close()

    def listen(self) -> bool:
        """Take in what was told; False when everything is over."""
        try:
            is_open = bool(os.read(self.status, 64))
        except BlockingIOError:
            return True
        if self._error is not None:
            raise self._error
        return is_open

    def finish(self, patience: float | None = None) -> None:
        """Leave nothing but the sandbox, and that only if nothing runs in it."""
        self.end()
        self._thread.join(self.patience if patience is None else patience)
        if self._thread.is_alive():
            self._sandbox.kill()  # whatever the thread waits for, it now gets
            self._thread.join()

    # -- on the thread

    def _follow(self) -> None:
        with self._told:
            if self._has_ended_within(None):
                if not self._is_over_within(SETTLE):
                    self._stop(min(self._grace, LEFTOVER_GRACE))
            else:
                self._stop(self._grace)

    def _stop(self, grace: float) -> None:
        self._sandbox.signal_all(signal.SIGTERM)
        self._sandbox.signal_all(signal.SIGCONT)  # a stopped process sees TERM only when it goes on
        if self._is_over_within(grace):
            return
        self._call.has_started()
        self._sandbox.end()
        if not self._has_ended_within(PATIENCE):
            self._exec.kill()
            self._note_end(self._exec.wait())

    def _is_over_within(self, seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        while True:
            if self._has_ended_within(_POLL) and self._sandbox.is_quiet():
                return True
            if time.monotonic() >= deadline:
                return False
            time.sleep(_POLL)

    def _has_ended_within(self, seconds: float | None) -> bool:
        """Whether the command itself has. Without a limit: or whether we were asked to end it."""
        if self.exit_code is not None or self._error is not None:
            return True
        events = select.poll()
        events.register(self._ended, select.POLLIN)
        if seconds is None:
            events.register(self._asked_to_end, select.POLLIN)
        ready = [descriptor for descriptor, _ in events.poll(None if seconds is None else seconds * 1000)]
        if self._ended not in ready:
            return False
        self._note_end(self._exec.wait())
        return True

    def _note_end(self, code: int) -> None:
        if not self._call.has_started():
            self._error = _not_started(self._call.complaint())
        else:
            self.leader = self._exec.pid
            killed = code < 0 or not self._sandbox.is_alive
            self.exit_code = 128 + signal.SIGKILL if killed else code
        os.write(self._tell, b"!")


def _not_started(complaint: str) -> WapError:
    if "working directory" in complaint:
        return PermissionDenied("The command may not enter the working directory.")
    if "executing command" in complaint:
        return ExecutionFailed(f"The command could not be started: {complaint.rpartition(': ')[2]}.")
    return ProviderUnavailable(f"The sandbox does not take the command: {complaint}", hint="Try again.")
