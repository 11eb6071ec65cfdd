"""Start one gVisor sandbox, send requests to its process 1, signal its processes, and end it.

`runsc run` starts in a namespace in which the workspace is a Layer, or the workspace itself, with its guards mounted,
see `layers/`. It stays the server's child, with a pipe to process 1 inside. Closing that pipe ends the sandbox, so the
death of the server does too, however it dies. Only the folder with its files is left then; `pool_folder.py` removes it
at the next start.
"""

from __future__ import annotations

import json
import os
import secrets
import select
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from functools import cache
from typing import Any

from wap_kernel.model.errors import InvalidArgument, ProviderUnavailable, WapError
from wap_kernel.model.hints import tell_user
from wap_kernel.model.paths import render_path
from wap_kernel.providers.base import ResourceLimits
from wap_kernel.providers.gvisor.bundle import Bundle, build_bundle
from wap_kernel.providers.layers.launcher import CommandLine, NamespaceProcess
from wap_kernel.providers.mounts import Mount
from wap_kernel.providers.process import supervisor
from wap_kernel.providers.process.supervisor_handle import NICE, open_pipe, wait_for_exit

START_SECONDS = 20.0
"""Seconds for a sandbox to start. On an idle machine it takes a fifth of a second."""
CALL_SECONDS = 5.0
"""Seconds for process 1 to answer, for a call of runsc, and for the end."""
_LONGEST_ANSWER = 64 * 1024
_SHELLS = ("/bin/bash", "/usr/bin/bash", "/bin/sh")
_HINT = tell_user("Run `wap doctor` to see what works on this machine.")


def build_runsc_argv(program: str, state: str, *, network: bool = False) -> list[str]:
    """Return runsc and its flags, for a sub-command. No overlay, no caching: both sides see a change immediately.

    The host's kernel holds the guards where the gofer opens the files. Without it ("directfs") a command can move and
    remove guarded files, and `: >` empties a file that is read-only.
    """
    return [
        program,
        f"--root={state}",
        f"--network={'host' if network else 'none'}",
        "--ignore-cgroups",
        "--file-access=shared",
        "--overlay2=none",
        *(["--directfs=false"] if "-directfs" in read_flags(program) else []),
        *(["--rootless"] if os.geteuid() != 0 else []),
    ]


@cache
def read_flags(program: str) -> str:
    """Return what a build of runsc says about its flags."""
    return run_runsc([program, "flags"]).stdout.decode("utf-8", "replace")


def run_runsc(argv: Sequence[str], seconds: float = CALL_SECONDS) -> subprocess.CompletedProcess[bytes]:
    """Run a short call of runsc, with all of its output in `stdout`."""
    return subprocess.run(
        argv,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={},
        timeout=seconds,
        check=False,
    )


class GvisorSandbox:
    """A running sandbox, for one command at a time. `folder` is empty and private, and is removed at the end.

    `launch` starts runsc in the namespace that is prepared for it.
    """

    def __init__(
        self,
        launch: Callable[[CommandLine], NamespaceProcess],
        program: str,
        folder: str,
        mounts: Sequence[Mount],
        *,
        network: bool,
        limits: ResourceLimits,
    ) -> None:
        self._folder = folder
        self._id = f"wap-{secrets.token_hex(8)}"
        self._runsc = build_runsc_argv(program, os.path.join(folder, "state"), network=network)
        self._is_reliable = True
        self._commands = 0
        shell = next(filter(os.path.exists, _SHELLS), _SHELLS[-1])
        spec = build_bundle(mounts, shell=shell, folder=folder, limits=limits, network=network)
        with ExitStack() as undo:
            undo.callback(shutil.rmtree, folder, ignore_errors=True)
            _create_files(folder, spec)
            self._pipes = undo.enter_context(ExitStack())
            with ExitStack() as theirs:
                requests, self._requests = open_pipe(theirs, self._pipes)
                self._answers, answers = open_pipe(self._pipes, theirs)
                argv = [*_lower_priority(), *self._runsc, "run", f"--bundle={folder}", self._id]
                self._launched = launch(CommandLine(argv, {}, {0: requests, 1: answers, 2: answers}))
                self._process = self._launched.process
            undo.callback(self.end)
            watched = "".join(f"watch {path}\n" for path in spec.watched)
            self._processes = self._request(watched + "processes", START_SECONDS)
            if not self._processes.startswith(b"/proc/"):
                raise self._explain_failure()
            self._limit()
            self._prepare(spec.preparation)
            self._files = self._request("files", CALL_SECONDS)
            undo.pop_all()

    # -- state

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def is_quiet(self) -> bool:
        """Return whether no process but process 1 runs, or the sandbox has ended."""
        return not self.is_alive or self._request("processes", CALL_SECONDS) == self._processes

    def is_clean(self) -> bool:
        """Return whether a quiet sandbox has the same files for the next command as for the first."""
        return self.is_alive and self._request("files", CALL_SECONDS) == self._files and self._is_reliable

    def _request(self, request: str, seconds: float) -> bytes:
        """Return the line that process 1 answers.

        A line without an end means that the sandbox has ended, or that it takes too long and is not reliable any more.
        """
        answer = b""
        deadline = time.monotonic() + seconds
        ready = select.poll()
        ready.register(self._answers, select.POLLIN)
        try:
            os.write(self._requests, os.fsencode(request) + b"\n")
        except BrokenPipeError:
            pass  # the reason can still be read
        while not answer.endswith(b"\n") and len(answer) < _LONGEST_ANSWER:
            if not ready.poll(max(0.0, deadline - time.monotonic()) * 1000):
                break
            data = os.read(self._answers, _LONGEST_ANSWER)
            if not data:
                break
            answer += data
        self._is_reliable = self._is_reliable and answer.endswith(b"\n")
        return answer if self._is_reliable else answer.rstrip(b"\n")

    # -- starting

    def _explain_failure(self) -> WapError:
        failure = self._launched.find_failure()
        if failure is None:
            return _start_error(self._processes)
        return failure.to_error() or _start_error(failure.text.encode())

    def _limit(self) -> None:
        """Limit the memory where the namespace program was not started within its group already."""
        for pid in (self._process.pid, *(process.pid for process in self._descendants())):
            with suppress(ProcessLookupError):
                self._launched.limits.add_process(pid)

    def _descendants(self) -> list[supervisor.ProcessEntry]:
        return supervisor.find_descendants({self._process.pid}, supervisor.read_process_table())

    def _prepare(self, process: Mapping[str, Any]) -> None:
        call = self.prepare_call(process)
        done = run_runsc(call.argv, START_SECONDS)
        call.remove_files()
        if done.returncode != 0:
            raise _start_error(done.stdout)

    # -- commands

    def prepare_call(self, process: Mapping[str, Any]) -> ExecCall:
        """Return the call that runs this process in the sandbox."""
        self._commands += 1
        name = os.path.join(self._folder, f"command-{self._commands}")
        _write_json(f"{name}.json", process)
        options = [f"--process={name}.json", f"--internal-pid-file={name}.pid"]
        return ExecCall([self._runsc[0], f"--log={name}.log", *self._runsc[1:], "exec", *options, self._id], name)

    def signal_all(self, number: signal.Signals) -> None:
        """Send a signal to every process; process 1 ignores it."""
        self._call("kill", "--all", self._id, str(int(number)))

    def _call(self, *arguments: str) -> None:
        try:
            run_runsc([*self._runsc, *arguments])  # a failure is ignored: most often the sandbox has just ended
        except subprocess.TimeoutExpired:
            pass  # the caller goes on to stronger means

    # -- end

    def kill(self) -> None:
        """Kill everything from outside; the caller still calls `end`."""
        for process in self._descendants():
            supervisor.send_signal(process, signal.SIGKILL)
        self._process.kill()

    def end(self) -> None:
        """End the sandbox with everything that runs in it, and remove its files. May be called again."""
        self._pipes.close()
        try:
            wait_for_exit(self._process, CALL_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
            self._process.wait()
        self._launched.end()
        if os.path.isdir(self._folder):
            if os.listdir(os.path.join(self._folder, "state")):
                self._call("delete", "--force", self._id)
            shutil.rmtree(self._folder, ignore_errors=True)


class ExecCall:
    """A call of `runsc exec`, with the files that it writes about its process."""

    def __init__(self, argv: list[str], name: str) -> None:
        self.argv = argv
        self._name = name
        self._has_started = False

    def has_started(self) -> bool:
        """Return whether there was a process, so that the exit status is that process's own.

        The answer is remembered, because the end of the sandbox removes the file that says so.
        """
        self._has_started = self._has_started or os.path.exists(f"{self._name}.pid")
        return self._has_started

    def read_error(self) -> str:
        """Return the reason why there was no process."""
        try:
            with open(f"{self._name}.log", encoding="utf-8", errors="replace") as file:
                message = json.JSONDecoder().raw_decode(file.read())[0]["msg"]
        except (OSError, ValueError, LookupError, TypeError):
            return "runsc does not say why"
        return str(message)

    def remove_files(self) -> None:
        """Remove the files of the call: they hold the variables of the command."""
        for ending in ("json", "pid", "log"):
            with suppress(FileNotFoundError):
                os.unlink(f"{self._name}.{ending}")


def _lower_priority() -> list[str]:
    nice = shutil.which("nice")
    return [nice, "-n", str(NICE)] if nice else []


def _create_files(folder: str, spec: Bundle) -> None:
    for path in (f"{folder}/root", f"{folder}/state", *(stand_in for stand_in, _ in spec.stand_ins)):
        os.mkdir(path, 0o755)
    for stand_in, points in spec.stand_ins:
        for point in points:
            os.makedirs(f"{stand_in}/{point}", exist_ok=True)
    for path, text in spec.links:
        os.makedirs(os.path.dirname(f"{folder}/root{path}"), exist_ok=True)
        os.symlink(text, f"{folder}/root{path}")
    os.close(os.open(f"{folder}/empty", os.O_WRONLY | os.O_CREAT, 0o444))
    _write_json(f"{folder}/config.json", spec.config)


def _write_json(path: str, data: Mapping[str, Any]) -> None:
    try:
        text = json.dumps(data, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        # runsc would silently take another name, and create it on the host where it is a mount point.
        name = render_path(error.object[: error.end].rpartition('"')[2])
        raise InvalidArgument(
            f"gVisor cannot take a name that is not UTF-8: {name}", hint="Rename it, or use another provider."
        ) from None
    with open(path, "xb") as file:
        file.write(text)


def _start_error(output: bytes) -> ProviderUnavailable:
    lines = output.decode("utf-8", "replace").strip().splitlines()
    reason = lines[-1] if lines else "runsc does not answer"
    return ProviderUnavailable(f"The sandbox could not be started: {reason}", hint=_HINT)
