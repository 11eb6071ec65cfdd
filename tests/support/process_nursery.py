"""Fork Python programs from a process that has imported their modules: imports take most of a start.

The process of the tests starts this module as a program, once for each kind of program, and sends it a message for each
process: its arguments, and descriptors for its standard streams and for its exit code.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import gc
import importlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NoReturn

PROJECT = Path(__file__).parents[2]
FAST_IMPORTS = str(PROJECT / "tests" / "support" / "fast_imports")
PYTHON_PATH = os.pathsep.join((FAST_IMPORTS, str(PROJECT)))

_SERVICES = "api config contents events kernels kernelspecs nbconvert security sessions"
PROGRAMS: Mapping[str, tuple[str, Sequence[str]]] = {
    "jupyter_server": (
        "jupyter_server.serverapp",
        (
            *("jupyter_ext.app", "wap_kernel.dialects.registry", "wap_kernel.engine.workspace"),
            *("jupyter_server.auth.login", "jupyter_server.view.handlers", "jupyter_server.files.handlers"),
            *(f"jupyter_server.services.{name}.handlers" for name in _SERVICES.split()),
            "jupyter_server.services.shutdown",
        ),
    ),
    "wap mcp": (
        "wap_kernel.cli.main",
        (
            *("wap_kernel.cli.mcp", "wap_kernel.dialects.mcp.stdio.serve", "wap_kernel.client.mcp.bridge"),
            *("wap_kernel.engine.jupyter_config", "wap_kernel.engine.workspace", "wap_kernel.dialects.registry"),
        ),
    ),
}
"""The module whose `main` is the program, and those that it imports when it starts: not what a request loads."""

_MAX_MESSAGE_BYTES = 128 * 1024
_NEW_MOUNTS = 0x00020000  # CLONE_NEWNS
_SET_DUMPABLE = 4  # PR_SET_DUMPABLE


class ForkedProcess:
    """A forked process, with the part of `subprocess.Popen` that the tests use."""

    def __init__(self, pid: int, exit_code: int) -> None:
        """Take the descriptor that the exit code comes from."""
        self.pid = pid
        self.returncode: int | None = None
        self._exit_code = exit_code

    def poll(self) -> int | None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            if not select.select([self._exit_code], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 0.0)
            self.returncode = int(os.read(self._exit_code, 16))
            os.close(self._exit_code)
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


class SpokenProcess(ForkedProcess):
    """A forked process with pipes of text for its standard streams."""

    def __init__(self, program: str, arguments: Sequence[str], environment: Mapping[str, str]) -> None:
        streams = [os.pipe() for _ in range(3)]
        ends = [streams[0][0], streams[1][1], streams[2][1]]
        forked = fork_program(program, arguments, environment=environment, cwd=PROJECT, streams=ends)
        super().__init__(forked.pid, forked._exit_code)
        for end in ends:
            os.close(end)
        self.stdin = os.fdopen(streams[0][1], "w", errors="surrogateescape")
        self.stdout = os.fdopen(streams[1][0], errors="surrogateescape")
        self.stderr = os.fdopen(streams[2][0], errors="surrogateescape")


def fork_program(
    program: str,
    arguments: Sequence[str],
    *,
    environment: Mapping[str, str],
    cwd: Path,
    streams: Sequence[int],
    user: int | None = None,
    mounts: str = "",
) -> ForkedProcess:
    """Start one of PROGRAMS on these standard streams; as another user, after a shell script has changed its mounts."""
    message = {
        **{"arguments": list(arguments), "environment": dict(environment), "cwd": str(cwd)},
        **{"user": user, "mounts": mounts},
    }
    nursery = _open_nursery(program)
    exit_code, written = os.pipe()
    socket.send_fds(nursery, [json.dumps(message).encode()], [*streams, written])
    os.close(written)
    return ForkedProcess(int(nursery.recv(16)), exit_code)


def fork_server(arguments: Sequence[str], *, log: Path, **options: Any) -> ForkedProcess:
    """Start a Jupyter server that appends its output to `log`."""
    with open(os.devnull, "rb") as nothing, log.open("ab") as file:
        streams = (nothing.fileno(), file.fileno(), file.fileno())
        return fork_program("jupyter_server", arguments, streams=streams, **options)


@lru_cache
def _open_nursery(program: str) -> socket.socket:
    """Start a nursery; it ends with the process that started it."""
    ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with its:
        nursery = subprocess.Popen(
            [sys.executable, "-m", "tests.support.process_nursery", program, str(its.fileno())],
            cwd=PROJECT,
            env={**os.environ, "PYTHONPATH": PYTHON_PATH},
            pass_fds=[its.fileno()],
        )
    atexit.register(nursery.wait)
    atexit.register(ours.close)
    return ours


# -- the program


def _serve(program: str, calls: socket.socket) -> None:
    """Fork a process for each message, answer its process id, and write its exit code when it ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    module, others = PROGRAMS[program]
    for name in (module, *others):
        importlib.import_module(name)
    gc.collect()
    gc.freeze()
    woken, wakes = os.pipe()
    os.set_blocking(wakes, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wakes, warn_on_full_buffer=False)
    exit_codes: dict[int, int] = {}
    while True:
        ready = select.select([calls, woken], [], [])[0]
        if woken in ready:
            os.read(woken, 4096)
            for pid, descriptor in list(exit_codes.items()):
                if (ended := os.waitpid(pid, os.WNOHANG))[0]:
                    with contextlib.suppress(BrokenPipeError):  # nothing waits for it
                        os.write(descriptor, str(os.waitstatus_to_exitcode(ended[1])).encode())
                    os.close(exit_codes.pop(pid))
        if calls in ready:
            data, descriptors, *_ = socket.recv_fds(calls, _MAX_MESSAGE_BYTES, 4)
            if not data:
                return
            *streams, exit_code = descriptors
            child = os.fork()
            if not child:
                for descriptor in (calls.fileno(), woken, wakes, exit_code, *exit_codes.values()):
                    os.close(descriptor)
                _become_program(module, streams, json.loads(data))
            exit_codes[child] = exit_code
            for descriptor in streams:
                os.close(descriptor)
            calls.send(str(child).encode())


def _become_program(module: str, streams: Sequence[int], message: Mapping[str, Any]) -> NoReturn:
    """Be the process that executing the program would have made."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    for number, descriptor in enumerate(streams):
        os.dup2(descriptor, number)
        os.close(descriptor)
    os.environ.clear()
    os.environ.update(message["environment"])
    sys.dont_write_bytecode = "PYTHONDONTWRITEBYTECODE" in os.environ
    if message["user"] is not None:
        _become_user(message["user"], message["mounts"])
    os.chdir(message["cwd"])
    sys.argv = [module, *message["arguments"]]
    sys.exit(sys.modules[module].main())


def _become_user(user: int, mounts: str) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_NEW_MOUNTS):
        raise OSError(ctypes.get_errno(), "unshare")
    subprocess.run(["sh", "-e", "-c", f"mount --make-rprivate /\n{mounts}"], check=True)
    os.setgroups([])
    os.setresgid(user, user, user)
    os.setresuid(user, user, user)
    libc.prctl(_SET_DUMPABLE, 1, 0, 0, 0)  # otherwise its files in /proc are root's, as long as it executes nothing


if __name__ == "__main__":
    _serve(sys.argv[1], socket.socket(fileno=int(sys.argv[2])))
