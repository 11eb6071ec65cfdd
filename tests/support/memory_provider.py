"""A provider that shares nothing with the host: files in a dictionary, and commands of a handful of words.

It stands for those that live elsewhere (e2b, firecracker): it must be started, goes to sleep when nobody keeps it
awake, and can disappear, after which everything answers ProviderUnavailable.
"""

from __future__ import annotations

import shlex
import threading
import time
from collections.abc import Mapping
from dataclasses import replace

from tests.support.memory_files import MemoryFiles
from wap_kernel.files.interface import Files, Guard
from wap_kernel.model.command import CancelToken, Command, CommandOutcome, OnChunk, Stream
from wap_kernel.model.errors import ProviderUnavailable, translate_os_error
from wap_kernel.model.paths import join_path
from wap_kernel.providers.process import environment
from wap_kernel.providers.process.output_buffer import OutputCollector, render_streams


class MemoryProvider:
    name = "memory"
    confines = True
    checks_while_starting = False
    layers = None

    def __init__(self, guard: Guard, server_environment: Mapping[str, str]) -> None:
        self._state = "stopped"
        self._awake_until = 0.0
        self._environment = server_environment
        self._memory = MemoryFiles(guard, self._ask)
        self.files: Files = self._memory

    # -- what a place elsewhere has besides

    def start(self) -> None:
        self._state = "running"
        self.keep_alive()

    def keep_alive(self, seconds: float = 60.0) -> None:
        self._awake_until = time.monotonic() + seconds

    def vanish(self) -> None:
        self._state = "gone"

    def close(self) -> None:
        self._state = "stopped"

    def _ask(self) -> None:
        if self._state == "running" and time.monotonic() > self._awake_until:
            self._state = "asleep"
        if self._state != "running":
            raise ProviderUnavailable(f"The sandbox is {self._state}.", hint="Start it again.")

    # -- commands: `echo WORDS [> FILE]`, `cat FILE ...`, `wait`, `exit CODE` last, separated by `;`

    def run(
        self, command: Command, *, on_chunk: OnChunk | None = None, cancel: CancelToken | None = None
    ) -> CommandOutcome:
        self._ask()
        variables = environment.build_environment(self._environment, command.environment, command.env_allowlist)
        cancel = cancel or CancelToken()
        began = time.monotonic()
        limit = command.output_limit
        streams: dict[Stream, OutputCollector] = {"stdout": OutputCollector(limit), "stderr": OutputCollector(limit)}
        try:
            self._memory.open_folder(command.cwd)
        except OSError as error:
            raise translate_os_error(error, command.cwd) from error
        code = 0
        stopped = False
        given = command.command
        parts = [list(given)] if isinstance(given, tuple) else [shlex.split(part) for part in given.split(";")]
        for part in parts:
            words = [variables.get(word[1:], "") if word.startswith("$") else word for word in part]
            if words == ["wait"]:
                stopped = True
                _wait(cancel, command.timeout)
                break
            code, stream, out = self._do(words, command.cwd)
            streams[stream].feed(out)
            if on_chunk is not None and out:
                on_chunk(stream, out)
        stdout, stderr = render_streams(streams["stdout"], streams["stderr"], command.output_limit)
        outcome = CommandOutcome(
            *(stdout.text, stderr.text, stdout.total, stderr.total, stdout.truncated, stderr.truncated),
            exit_code=code,
            duration=time.monotonic() - began,
        )
        if not stopped:
            return outcome
        return replace(outcome, exit_code=143, cancelled=cancel.requested, timed_out=not cancel.requested)

    def _do(self, words: list[str], cwd: str) -> tuple[int, Stream, bytes]:
        self._ask()
        try:
            match words:
                case ["echo", *text, ">", file]:
                    self._memory.replace(join_path(cwd, file), " ".join(text).encode() + b"\n")
                    return 0, "stdout", b""
                case ["echo", *text]:
                    return 0, "stdout", " ".join(text).encode() + b"\n"
                case ["cat", *files]:
                    return 0, "stdout", b"".join(self._memory.open(join_path(cwd, file)).read() for file in files)
                case ["exit", number]:
                    return int(number), "stdout", b""
        except OSError as error:
            return 1, "stderr", f"{error.strerror}\n".encode()
        return 127, "stderr", b"no such program\n"


def _wait(cancel: CancelToken, timeout: float) -> None:
    asked = threading.Event()
    with cancel.on_request(asked.set):
        asked.wait(timeout)
