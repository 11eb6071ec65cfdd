"""Run one command to its end: start its process, read its output, stop it in time, and return its outcome.

One thread does it all with a selector. A `StartedCommand` starts the command and ends everything that it leaves: a
supervisor on the host (`supervisor_handle.py`), or a namespace that ends as a whole (`layers/pid_namespace.py`).
"""

from __future__ import annotations

import os
import selectors
import shutil
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import Literal, Protocol

from wap_kernel.model.command import CancelToken, CommandOutcome, OnChunk, Stream
from wap_kernel.model.errors import ExecutionFailed, InvalidArgument
from wap_kernel.providers.process.output_buffer import OutputCollector, render_streams
from wap_kernel.providers.process.supervisor_handle import CommandGroup, SupervisedCommand, open_pipe, start_error

GRACE = 5.0
"""Seconds between TERM and KILL."""
BUFFER_SIZE = 1024 * 1024
UNTHROTTLED_BYTES = 64 * 1024 * 1024
BYTES_PER_SECOND = 64 * 1024 * 1024
"""After UNTHROTTLED_BYTES a command may write so many bytes a second: a flood must not block the server."""
READ_PAUSE_SECONDS = 0.002
"""Seconds between two reads of a command that writes much: the pipe fills, and one read replaces a hundred."""
_FIRST_BUFFER_SIZE = 64 * 1024
MAX_PARTIAL_OUTPUT_BYTES = 64 * 1024
"""Bytes of output in the outcome of a command that was stopped: an error should not carry a megabyte."""


class StartedCommand(Protocol):
    """A command that was started, and the process that ends everything that it leaves."""

    stdout: int
    stderr: int
    status: int
    """The descriptor of status messages; like those of the output it does not block."""
    leader: int | None
    """The number of the command's first process; None until it has started."""
    exit_code: int | None
    end_timeout: float
    """Seconds between the request to end and the end of everything, at most."""
    due: float
    """The time at which `tick` is to be called, by the monotonic clock."""

    def listen(self) -> bool:
        """Read the messages from `status`; return False when everything has ended."""

    def tick(self) -> None: ...
    def end(self) -> None:
        """Request the end of everything, and do not wait for it."""

    def finish(self, timeout: float | None = None) -> None:
        """End everything within `timeout` seconds. The constructor's `stack` calls it too."""


def build_argv(command: str | Sequence[str], path: str) -> list[str]:
    """Return the argument vector for a command line, or for a program, looked up on `path`, and its arguments."""
    if isinstance(command, str):
        return build_shell_argv(command, path)
    for word in command:
        _check_text(word)
    program = command[0] if command else ""
    if not program:
        raise InvalidArgument("The command is empty.", hint="Name a program.")
    if "/" in program:
        return list(command)
    found = shutil.which(program, path=path)
    if found is None:
        raise ExecutionFailed(f"No such program: {program}", hint="Name one that is installed, or its whole path.")
    return [found, *command[1:]]


def build_shell_argv(command: str, path: str, candidates: Sequence[str] = ("/bin/bash", "/usr/bin/bash")) -> list[str]:
    """Return the argument vector for a command line: bash without start-up files, else sh.

    `--` is there because a command may begin with `-`, which the shell would read as an option.
    """
    _check_text(command)
    bash = next(filter(os.path.exists, candidates), None) or shutil.which("bash", path=path)
    if bash:
        return [bash, "--noprofile", "--norc", "-c", "--", command]
    return ["/bin/sh", "-c", "--", command]


def _check_text(text: str) -> None:
    if "\0" in text:
        raise InvalidArgument("The command contains a NUL character.")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InvalidArgument("The command is not valid Unicode (it contains a lone surrogate).") from None


def run(
    argv: Sequence[str],
    *,
    cwd: int,
    environment: Mapping[str, str],
    timeout: float,
    output_limit: int,
    grace: float = GRACE,
    on_chunk: OnChunk | None = None,
    cancel: CancelToken | None = None,
    make_group: Callable[[ExitStack], CommandGroup | None] = lambda _: None,
) -> CommandOutcome:
    """Run `argv` in the open folder `cwd` with this environment and the tag; nothing of it is left afterwards.

    `supervisor_handle.py` says which processes can escape in spite of everything.
    """
    return follow(
        lambda stack: SupervisedCommand(stack, argv, cwd, environment, grace, make_group(stack)),
        timeout=timeout,
        output_limit=output_limit,
        on_chunk=on_chunk,
        cancel=cancel,
    )


def follow(
    start: Callable[[ExitStack], StartedCommand],
    *,
    timeout: float,
    output_limit: int,
    on_chunk: OnChunk | None = None,
    cancel: CancelToken | None = None,
) -> CommandOutcome:
    """Start a process of any kind and follow it to its end."""
    if cancel is not None and cancel.requested:  # while it waited for a thread: it must not even start
        return CommandOutcome("", "", 0, 0, False, False, exit_code=128 + signal.SIGTERM, duration=0.0, cancelled=True)
    with ExitStack() as stack:
        try:
            execution = _Execution(stack, start(stack), output_limit, on_chunk)
        except OSError as error:
            raise start_error("fork", error.errno or 0) from error
        cancel = cancel or CancelToken()
        stack.enter_context(cancel.on_request(execution.wake))
        return execution.follow(timeout, cancel)


def compute_pause(total: int, elapsed: float) -> float:
    """Return the seconds to wait before the next read, after `total` bytes in `elapsed` seconds."""
    if total <= BUFFER_SIZE:
        return 0.0
    return max(READ_PAUSE_SECONDS, (total - UNTHROTTLED_BYTES) / BYTES_PER_SECOND - elapsed)


class _Execution:
    """The loop that follows a command: output, status, cancellation and time, on one thread."""

    def __init__(self, stack: ExitStack, process: StartedCommand, output_limit: int, on_chunk: OnChunk | None) -> None:
        self._process = process
        self._on_chunk = on_chunk
        self._began = time.monotonic()
        self._ended: float | None = None
        self._stopped: Literal["timeout", "cancel"] | None = None
        self._limit = output_limit
        self._output: dict[Stream, OutputCollector] = {
            "stdout": OutputCollector(output_limit),
            "stderr": OutputCollector(output_limit),
        }
        self._open: dict[Stream, int] = {"stdout": process.stdout, "stderr": process.stderr}
        self._buffer = bytearray(_FIRST_BUFFER_SIZE)
        woken, self._waker = open_pipe(stack, stack)
        os.set_blocking(self._waker, False)
        # A second selector without the output serves while a flood is slowed down.
        self._quiet = stack.enter_context(selectors.DefaultSelector())
        self._all = stack.enter_context(selectors.DefaultSelector())
        for selector in (self._quiet, self._all):
            selector.register(process.status, selectors.EVENT_READ, "status")
            selector.register(woken, selectors.EVENT_READ, "wake")
        for stream, descriptor in self._open.items():
            self._all.register(descriptor, selectors.EVENT_READ, stream)

    def wake(self) -> None:
        """Interrupt the loop from another thread, for a cancellation."""
        try:
            os.write(self._waker, b"!")
        except BlockingIOError:
            pass  # the pipe is full: the loop has been woken many times already

    def follow(self, timeout: float, cancel: CancelToken) -> CommandOutcome:
        deadline = self._began + timeout  # first the command's, then the supervisor's
        resume = 0.0
        over = False
        while not over:
            now = time.monotonic()
            if now >= deadline:
                if self._stopped or self._ended:
                    break  # the supervisor hangs, or a revocation grants the command no more time
                deadline = self._stop("timeout")
            if now >= self._process.due:
                self._process.tick()
            until = min(deadline, self._process.due)
            selector, until = (self._quiet, min(resume, until)) if now < resume else (self._all, until)
            for key, _ in selector.select(max(0.0, until - now)):
                if key.data == "status":
                    over = not self._process.listen()
                    if self._process.exit_code is not None and self._ended is None:
                        self._ended = time.monotonic()
                        deadline = self._ended + self._process.end_timeout
                elif key.data == "wake":
                    os.read(key.fd, 64)
                    if not (self._stopped or self._ended):
                        deadline = self._stop("cancel", cancel.grace)
                else:
                    self._read(key.data)
                    now = time.monotonic()
                    resume = now + compute_pause(self._total, now - self._began)
        self._process.finish(0.0 if not over else None)
        self._drain()
        return self._outcome()

    def _stop(self, reason: Literal["timeout", "cancel"], grace: float | None = None) -> float:
        """Request the end, and return when to stop waiting for it."""
        self._stopped = reason
        self._process.end()
        seconds = self._process.end_timeout
        return time.monotonic() + (seconds if grace is None else min(seconds, grace))

    @property
    def _total(self) -> int:
        return sum(collector.total for collector in self._output.values())

    def _read(self, stream: Stream) -> int:
        """Collect the output of one read, and return its size: 0 if there is none now, or the stream has ended."""
        try:
            count = os.readv(self._open[stream], [self._buffer])
        except BlockingIOError:
            return 0
        if count == 0:
            self._all.unregister(self._open.pop(stream))
            return 0
        collector = self._output[stream]
        was_small = collector.total <= BUFFER_SIZE
        with memoryview(self._buffer)[:count] as chunk:
            collector.feed(chunk)
            if self._on_chunk is not None:
                self._on_chunk(stream, bytes(chunk))
        if was_small and collector.total > BUFFER_SIZE:
            _enlarge_pipe(self._open[stream])
            self._buffer = bytearray(BUFFER_SIZE)
        return count

    def _drain(self) -> None:
        """Read the rest of the pipes, but no more than a pipe holds: a process that survived KILL may still write."""
        for stream in tuple(self._open):
            left = BUFFER_SIZE
            while left > 0 and (count := self._read(stream)):
                left -= count

    def _outcome(self) -> CommandOutcome:
        limit = min(self._limit, MAX_PARTIAL_OUTPUT_BYTES) if self._stopped else self._limit
        stdout, stderr = render_streams(self._output["stdout"], self._output["stderr"], limit)
        if self._process.leader is None:
            lines = stderr.text.splitlines()
            raise ExecutionFailed(
                "The command could not be started: its supervisor ended.", hint=lines[-1] if lines else None
            )
        exit_code = self._process.exit_code
        if exit_code is None:  # the command killed its supervisor, so the server killed the command
            exit_code = 128 + signal.SIGKILL
        return CommandOutcome(
            stdout=stdout.text,
            stderr=stderr.text,
            stdout_bytes=stdout.total,
            stderr_bytes=stderr.total,
            stdout_truncated=stdout.truncated,
            stderr_truncated=stderr.truncated,
            exit_code=exit_code,
            duration=(self._ended or time.monotonic()) - self._began,
            timed_out=self._stopped == "timeout",
            cancelled=self._stopped == "cancel",
        )


def _enlarge_pipe(descriptor: int) -> None:
    """Enlarge the pipe of a command that writes much. Not of every command: a user's memory for pipes is limited."""
    if sys.platform == "linux":
        import fcntl

        try:
            fcntl.fcntl(descriptor, fcntl.F_SETPIPE_SZ, BUFFER_SIZE)
        except OSError:
            pass  # over that limit; the pipe works as it is
