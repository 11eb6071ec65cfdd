"""Start the programs that prepare namespaces, one of them ahead of time, and give each its task.

Starting Python takes longer than everything else that a command needs, so the next program is started while the present
command runs; it waits for its task. `namespace_program.py` is what runs in the process.
"""

from __future__ import annotations

import array
import binascii
import errno
import marshal
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

from wap_kernel.files.contained.root import Root
from wap_kernel.model.command import MountedLayer
from wap_kernel.model.errors import Conflict, ProviderUnavailable, WapError
from wap_kernel.providers.base import ResourceLimits
from wap_kernel.providers.mounts import Guards
from wap_kernel.providers.process.inheritance import create_memory_file, leave_keyring
from wap_kernel.providers.process.supervisor_handle import start_error
from wap_kernel.providers.resource_limits import CommandLimits, ControlGroups

_NEEDED = ("LD_LIBRARY_PATH",)
"""Variables without which some installations cannot start Python; the command does not get them."""
_ANSWER_BYTES = 64 * 1024
READY_SECONDS = 30.0
"""Seconds after which a namespace that is not ready is given up."""


_CAN_MOUNT = 1 << 21
"""The bit of CAP_SYS_ADMIN."""


def needs_user_namespace() -> bool:
    """Return whether this process may not mount by itself: it is not root, or root in a container."""
    with suppress(OSError, ValueError), open("/proc/self/status", encoding="ascii", errors="replace") as file:
        line = next(line for line in file if line.startswith("CapEff:"))
        return not int(line.split()[1], 16) & _CAN_MOUNT
    return True


class CommandLine(NamedTuple):
    """The program that a namespace program becomes."""

    argv: Sequence[str]
    environment: Mapping[str, str]
    descriptors: Mapping[int, int]
    """Descriptors of the server by the numbers that they have in the program."""


@dataclass(frozen=True)
class NamespaceTask:
    """The namespace that a program prepares."""

    root: str
    identity: tuple[int, int]
    """Device and inode of the root, as the server has it open."""
    guards: Sequence[tuple[str, str]] = ()
    """The kind of mount and the path below the root of each guard, upper ones first."""
    read_only: bool = False
    layer: Mapping[str, str] | None = None
    """The `upperdir` and `workdir` of the overlay. None: commands write into the workspace."""
    joined: tuple[int, int] | None = None
    """Descriptors of the user and mount namespaces that hold the overlay already."""


def build_task(files: Root, guards: Guards, layer: MountedLayer | None) -> NamespaceTask:
    """Return the task of the program that prepares the namespace of a sandbox."""
    found = os.fstat(files.fd)
    return NamespaceTask(
        files.path,
        (found.st_dev, found.st_ino),
        guards.mounts,
        guards.read_only,
        None if layer is None else layer.mount_options,
        None if layer is None else layer.namespaces,
    )


@dataclass(frozen=True)
class TaskFailure:
    """The reason why a namespace could not be prepared."""

    kind: str
    """`race`: a path of the workspace has changed since the guards were found. `moved`: the root has. `too long`: the
    command and its environment are."""
    text: str

    def to_error(self) -> WapError | None:
        """Return the error of the workspace or the command; None for a failure of the sandbox."""
        if self.kind == "race":
            return Conflict(
                "Protected files of the workspace were changed while the command was being started.",
                hint="Nothing was run. Try again.",
            )
        if self.kind == "too long":
            return start_error("exec", errno.E2BIG)
        if self.kind == "moved":
            return ProviderUnavailable(
                "The workspace was moved, or another folder has its path: no command runs.",
                hint="Move it back, or start the server in the new folder.",
            )
        return None


class NamespaceProcess:
    """A program that waits for its task, or does it."""

    def __init__(
        self,
        limits: ResourceLimits,
        groups: ControlGroups,
        do_later: Callable[[Callable[[], None]], None] = lambda work: work(),
    ) -> None:
        self.stack = ExitStack()
        """The resources of the process, to be closed after it has ended."""
        self._do_later = do_later
        self._namespaces = ExitStack()
        with ExitStack() as theirs, ExitStack() as failing:
            failing.callback(self.stack.close)
            ours, task = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            self.stack.callback(ours.close)
            theirs.callback(task.close)
            self._connection = ours
            self.limits = CommandLimits(self.stack, limits, groups)
            leave_keyring()
            with self.limits.enter():
                self.process = subprocess.Popen(
                    [sys.executable, "-I", "-S", "-c", _BOOT, _compile_program()],
                    stdin=task.fileno(),
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    env={name: os.environ[name] for name in _NEEDED if name in os.environ},
                    start_new_session=True,  # what signals the server's or kernel's group must not end it halfway
                )
            failing.pop_all()

    def send(self, task: NamespaceTask, command: CommandLine | None, *, user_namespace: bool) -> None:
        """Give the program its task; with a command it becomes that command."""
        described: dict[str, Any] = {
            "root": task.root,
            "identity": list(task.identity),
            "guards": [list(guard) for guard in task.guards],
            "readOnly": task.read_only,
            "layer": None if task.layer is None else dict(task.layer),
            "joins": task.joined is not None,
            "userNamespace": user_namespace,
            "empty": EMPTY_FILE,
            "command": None,
        }
        descriptors: list[int] = []
        if command is not None:
            descriptors += command.descriptors.values()
            described["command"] = {
                "argv": list(command.argv),
                "environment": dict(command.environment),
                "descriptors": list(command.descriptors),
            }
        descriptors += task.joined or ()
        with ExitStack() as sent:
            # Not in the message itself: its size is limited, to 200 KB on many machines.
            file = create_memory_file(sent, marshal.dumps(described))
            rights = array.array("i", [file, *descriptors]).tobytes()
            try:
                self._connection.sendmsg([b"!"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])
            except OSError as error:
                raise ProviderUnavailable(f"The namespace could not be prepared: {error.strerror}.") from error

    def receive(self, timeout: float = READY_SECONDS) -> tuple[TaskFailure | None, list[int]]:
        """Wait for the answer of a program that holds its namespace, and return a failure or its descriptors."""
        self._connection.settimeout(timeout)
        numbers = array.array("i")
        try:
            size = socket.CMSG_SPACE(8 * numbers.itemsize)
            data, ancillary, _, _ = self._connection.recvmsg(_ANSWER_BYTES, size)
        except OSError as error:
            return TaskFailure("failed", f"no answer ({error})"), []
        for _, _, raw in ancillary:
            numbers.frombytes(raw[: len(raw) - len(raw) % numbers.itemsize])
        answer = marshal.loads(data) if data else {"error": "failed", "text": "the program ended"}
        failure = TaskFailure(answer["error"], answer["text"]) if "error" in answer else None
        return failure, list(numbers)

    def find_failure(self) -> TaskFailure | None:
        """Return the failure of a program that ended before it became its command, if it told one."""
        self._connection.setblocking(False)
        with suppress(OSError, EOFError, ValueError):
            answer = marshal.loads(self._connection.recv(_ANSWER_BYTES))
            return TaskFailure(answer["error"], answer["text"])
        return None

    def hold_namespace(self, pid: int) -> None:
        """Hold the mount namespace of a process beyond its end: the process would unmount everything before it ends."""
        with suppress(OSError):  # the namespace is gone, or closed to us; then it ends with its last process
            descriptor = os.open(f"/proc/{pid}/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)
            self._namespaces.callback(os.close, descriptor)

    def end(self) -> None:
        """End a program that holds a namespace or was not needed. What it has mounted is unmounted later."""
        self._connection.close()
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(READY_SECONDS)
        self.process.kill()
        self.process.wait()
        self.stack.close()
        self._do_later(self._namespaces.close)


EMPTY_FILE = str(files("wap_kernel.providers") / "empty")


# The program is compiled already, whether or not a cache could be written.
_BOOT = "import binascii, marshal, sys; exec(marshal.loads(binascii.a2b_base64(sys.argv[1])), {'__name__': '__main__'})"


@cache
def _compile_program() -> str:
    """Return the code of the program, as text for an argument."""
    path = files(__package__) / "namespace_program.py"
    code = compile(path.read_text(encoding="utf-8"), "namespace_program.py", "exec", dont_inherit=True, optimize=2)
    return binascii.b2a_base64(marshal.dumps(code), newline=False).decode("ascii")


class Launcher:
    """The namespace programs of one provider. `user_namespace`: the server may not mount, so each has a user namespace.

    Every program starts within the control groups of its command. With `is_ahead`, the next one starts while the
    present one works.
    """

    def __init__(
        self,
        *,
        user_namespace: bool,
        limits: ResourceLimits | None = None,
        groups: ControlGroups | None = None,
        is_ahead: bool = False,
    ) -> None:
        self.user_namespace = user_namespace
        self._limits = limits or ResourceLimits(None, None, None)
        self._groups = groups or ControlGroups()
        self._lock = threading.Lock()
        self._prepared: NamespaceProcess | None = None
        self._is_ahead = is_ahead
        self._is_closed = False
        # Its one thread lives as long as the launcher: bubblewrap ends with the thread that started it.
        self._worker = ThreadPoolExecutor(1, "wap-layers")

    def launch(self, task: NamespaceTask, command: CommandLine | None = None) -> NamespaceProcess:
        """Start a namespace, whose process the caller owns."""
        with self._lock:
            program, self._prepared = self._prepared, None
        if program is not None and program.process.poll() is not None:  # somebody has killed it
            program.end()
            program = None
        if program is None:
            program = self._start()
        try:
            program.send(task, command, user_namespace=self.user_namespace)
        except BaseException:
            program.end()
            raise
        if self._is_ahead:
            self.do_later(self._prepare)
        return program

    def do_later(self, work: Callable[[], None]) -> None:
        """Do work that no command needs to wait for, now if the launcher is closed."""
        try:
            self._worker.submit(work)
        except RuntimeError:
            work()

    def _prepare(self) -> None:
        """Start the next program, which waits for its task."""
        with self._lock:
            is_needed = self._prepared is None and not self._is_closed
            if is_needed:
                self._prepared = self._start()

    def _start(self) -> NamespaceProcess:
        return NamespaceProcess(self._limits, self._groups, self.do_later)

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
            program, self._prepared = self._prepared, None
        if program is not None:
            program.end()
        self._worker.shutdown()
