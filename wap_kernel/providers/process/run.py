"""Run one command to its end: start its process, read its output, stop it in time, answer what became of it.

One thread does it all with a selector. Who starts the command and ends everything that it leaves is a `Process`: a
supervisor on the host (`supervised.py`), or a namespace that ends as a whole (`namespaced.py`).
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
"""A command may write FREE bytes at nearly any speed, then RATE bytes a second: a flood must not hold the server."""
READ_PAUSE_SECONDS = 0.002
"""Seconds between two reads of a talkative command: the pipe fills, and one read brings what a hundred would."""
_FIRST_BUFFER_SIZE = 64 * 1024
MAX_PARTIAL_OUTPUT_BYTES = 64 * 1024
"""What is answered of the output of a command that was ended: an error is no place for a megabyte."""


class StartedCommand(Protocol):
    """A command that was started, with whoever watches over it."""

    stdout: int
    stderr: int
    status: int
    """Descriptors, none of which blocks."""
    leader: int | None
    """None as long as it has not begun."""
    exit_code: int | None
    end_timeout: float
    """Seconds after which everything must have ended, from when that was asked for."""
    due: float
    """When `tick` wants to be called, by the monotonic clock."""

    def listen(self) -> bool:
        """Take in what can be read from `status`; False when everything is over."""

    def tick(self) -> None: ...
    def end(self) -> None:
        """Ask for the end of everything, and do not wait for it."""

    def finish(self, timeout: float | None = None) -> None:
        """Leave nothing, after so many seconds at the latest. `stack` calls it too."""


def build_argv(command: str | Sequence[str], path: str) -> list[str]:
    """The argument vector for a command line, or for a program and its arguments, which is looked up on `path`."""
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
    """The argument vector for a command line: bash without start-up files, else sh.

    `--` because a command may begin with `-`, which would be read as an option.
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

    What can escape in spite of everything is said in `supervised.py`.
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
    if cancel is not None and cancel.requested:  # while it waited for a thread: it must not even begin
        return CommandOutcome("", "", 0, 0, False, False, exit_code=128 + signal.SIGTERM, duration=0.0, cancelled=True)
    with ExitStack() as stack:
        try:
            execution = _Execution(stack, start(stack), output_limit, on_chunk)
        except OSError as error:
            raise start_error("fork", error.errno or 0) from error
        stack.enter_context((cancel or CancelToken()).on_request(execution.wake))
        return execution.follow(timeout)


def compute_pause(total: int, elapsed: float) -> float:
    """Seconds to wait before the next read, after `total` bytes in `elapsed` seconds."""
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
        """Called from another thread: a cancellation."""
        try:
            os.write(self._waker, b"!")
        except BlockingIOError:
            pass  # it has been woken already, many times

    def follow(self, timeout: float) -> CommandOutcome:
        deadline = self._began + timeout  # first the command's, then the supervisor's
        resume = 0.0
        over = False
        while not over:
            now = time.monotonic()
            if now >= deadline:
                if self._stopped or self._ended:
                    break  # the supervisor hangs
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
                        deadline = self._stop("cancel")
                else:
                    self._read(key.data)
                    now = time.monotonic()
                    resume = now + compute_pause(self._total, now - self._began)
        self._process.finish(0.0 if not over else None)
        self._drain()
        return self._outcome()

    def _stop(self, reason: Literal["timeout", "cancel"]) -> float:
        """Ask for the end; returns when to stop waiting for it."""
        self._stopped = reason
        self._process.end()
        return time.monotonic() + self._process.end_timeout

    @property
    def _total(self) -> int:
        return sum(collector.total for collector in self._output.values())

    def _read(self, stream: Stream) -> int:
        """Take in what one read brings; 0 when there is nothing now or will be nothing any more."""
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
        """What is still in the pipes. No more than a pipe holds: someone who could not be ended may still write."""
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
        if exit_code is None:  # it killed its supervisor, so we killed it
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
    """A larger pipe, for a command that writes much. Not for all: what one user may hold in pipes is limited."""
    if sys.platform == "linux":
        import fcntl

        try:
            fcntl.fcntl(descriptor, fcntl.F_SETPIPE_SZ, BUFFER_SIZE)
        except OSError:
            pass  # over that limit; it works as it is
