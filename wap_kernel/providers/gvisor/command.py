"""Run one command in a gVisor sandbox, as a `StartedCommand` of `process/run.py`.

`runsc exec` runs the command, and its exit status is the command's. A thread follows it: slow steps (signalling, the
grace, the end of the sandbox) must not keep the output from being read. Killing ends the whole sandbox.
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
from wap_kernel.providers.gvisor.sandbox import CALL_SECONDS, GvisorSandbox
from wap_kernel.providers.process.supervisor import LEFTOVER_GRACE_SECONDS, LINGER_SECONDS
from wap_kernel.providers.process.supervisor_handle import open_pipe

_POLL = 0.02


class GvisorCommand:
    """A command in a sandbox. `stack` ends and closes it, and ends the sandbox only if the command has to be killed."""

    def __init__(self, stack: ExitStack, sandbox: GvisorSandbox, process: Mapping[str, Any], grace: float) -> None:
        self.end_timeout = grace + 3 * CALL_SECONDS
        """Seconds within which everything ends."""
        self.due = math.inf
        self.leader: int | None = None
        self.exit_code: int | None = None
        self._sandbox = sandbox
        self._grace = grace
        self._error: WapError | None = None
        self._call = sandbox.prepare_call(process)
        stack.callback(self._call.remove_files)
        self._control = stack.enter_context(ExitStack())
        self._status_end = stack.enter_context(ExitStack())
        with ExitStack() as theirs:
            self.stdout, stdout = open_pipe(stack, theirs)
            self.stderr, stderr = open_pipe(stack, theirs)
            self.status, self._status_write = open_pipe(stack, self._status_end)
            self._end_request, _ = open_pipe(stack, self._control)
            self._ended, running = open_pipe(stack, theirs)  # not a pidfd: not every build of Python has these
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
        """Do nothing: the thread has its own timers."""

    def end(self) -> None:
        """Request the end of everything."""
        self._control.close()

    def listen(self) -> bool:
        """Read the status; raise the command's error, and return False when everything has ended."""
        try:
            is_open = bool(os.read(self.status, 64))
        except BlockingIOError:
            return True
        if self._error is not None:
            raise self._error
        return is_open

    def finish(self, timeout: float | None = None) -> None:
        """End everything but the sandbox, and also the sandbox if a process still runs in it."""
        self.end()
        self._thread.join(self.end_timeout if timeout is None else timeout)
        if self._thread.is_alive():
            self._sandbox.kill()  # this ends whatever the thread waits for
            self._thread.join()

    # -- on the thread

    def _follow(self) -> None:
        with self._status_end:
            if self._has_ended_within(None):
                if not self._is_over_within(LINGER_SECONDS):
                    self._stop(min(self._grace, LEFTOVER_GRACE_SECONDS))
            else:
                self._stop(self._grace)

    def _stop(self, grace: float) -> None:
        self._sandbox.signal_all(signal.SIGTERM)
        self._sandbox.signal_all(signal.SIGCONT)  # a stopped process sees TERM only when it goes on
        if self._is_over_within(grace):
            return
        self._call.has_started()
        self._sandbox.end()
        if not self._has_ended_within(CALL_SECONDS):
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
        """Return whether the command itself ends within `seconds`; None waits for the end or for a request to end."""
        if self.exit_code is not None or self._error is not None:
            return True
        events = select.poll()
        events.register(self._ended, select.POLLIN)
        if seconds is None:
            events.register(self._end_request, select.POLLIN)
        ready = [descriptor for descriptor, _ in events.poll(None if seconds is None else seconds * 1000)]
        if self._ended not in ready:
            return False
        self._note_end(self._exec.wait())
        return True

    def _note_end(self, code: int) -> None:
        if not self._call.has_started():
            self._error = _start_error(self._call.read_error())
        else:
            self.leader = self._exec.pid
            killed = code < 0 or not self._sandbox.is_alive
            self.exit_code = 128 + signal.SIGKILL if killed else code
        os.write(self._status_write, b"!")


def _start_error(reason: str) -> WapError:
    if "working directory" in reason:
        return PermissionDenied("The command may not enter the working directory.")
    if "executing command" in reason:
        return ExecutionFailed(f"The command could not be started: {reason.rpartition(': ')[2]}.")
    return ProviderUnavailable(f"The sandbox does not take the command: {reason}", hint="Try again.")
