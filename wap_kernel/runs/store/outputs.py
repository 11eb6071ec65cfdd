"""Store the whole output of commands in files of the state folder: written while a command runs, read by page.

The files are `outputs/<run>/<position>.stdout` and `.stderr`. The event of a command holds the beginning and the end
of its output; the rest, and the output of a command that still runs, is read here.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from typing import IO, get_args

from wap_kernel.model.command import Stream
from wap_kernel.model.limits import MAX_SPILLED_BYTES

STREAMS: tuple[Stream, ...] = get_args(Stream)
_LONGEST_CHARACTER = 4


class OutputSpill:
    """The output files of one command, written on the thread that runs it; `notify` is called after each chunk."""

    def __init__(self, folder: str, position: int, notify: Callable[[], None]) -> None:
        self._folder = folder
        self._position = position
        self._notify = notify
        self._files: dict[Stream, IO[bytes]] = {}
        self._room = dict.fromkeys(STREAMS, MAX_SPILLED_BYTES)

    def __call__(self, stream: Stream, chunk: bytes) -> None:
        stored = chunk[: self._room[stream]]
        if not stored:
            return
        self._room[stream] -= len(stored)
        # A full disk must not end the command: its result still has the beginning and the end.
        with suppress(OSError):
            self._open(stream).write(stored)
        self._notify()

    def close(self) -> None:
        for file in self._files.values():
            with suppress(OSError):
                file.close()

    def _open(self, stream: Stream) -> IO[bytes]:
        if stream not in self._files:
            os.makedirs(self._folder, mode=0o700, exist_ok=True)
            descriptor = os.open(
                os.path.join(self._folder, f"{self._position}.{stream}"),
                os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC,
                0o600,
            )
            self._files[stream] = os.fdopen(descriptor, "wb", buffering=0)
        return self._files[stream]


class OutputStore:
    """The output of the commands of all runs."""

    def __init__(self, state_dir: str) -> None:
        self._folder = os.path.join(state_dir, "outputs")

    def spill(self, run: str, position: int, notify: Callable[[], None]) -> OutputSpill:
        """Return the output files of the command at `position`, created when there is output."""
        return OutputSpill(os.path.join(self._folder, run), position, notify)

    def size(self, run: str, position: int, stream: Stream) -> int:
        try:
            return os.stat(self._path(run, position, stream)).st_size
        except FileNotFoundError:
            return 0

    def read(self, run: str, position: int, stream: Stream, offset: int, limit: int, *, ended: bool) -> tuple[str, int]:
        """Return text from the byte `offset` on, and the offset after it.

        The text ends between two characters. A character whose bytes are not all there yet is left for the next page,
        unless the command has ended.
        """
        if offset >= self.size(run, position, stream):
            return "", offset
        try:
            with open(self._path(run, position, stream), "rb") as file:
                file.seek(offset)
                data = file.read(max(limit, _LONGEST_CHARACTER))
                is_last = not file.read(1)
        except FileNotFoundError:
            return "", offset
        whole = data if ended and is_last else data[: len(data) - _count_incomplete_bytes(data)]
        return whole.decode("utf-8", "replace"), offset + len(whole)

    def remove(self, run: str) -> None:
        shutil.rmtree(os.path.join(self._folder, run), ignore_errors=True)

    def _path(self, run: str, position: int, stream: Stream) -> str:
        return os.path.join(self._folder, run, f"{position}.{stream}")


def _count_incomplete_bytes(data: bytes) -> int:
    """Return how many bytes at the end begin a character that is not complete."""
    for length in range(1, min(_LONGEST_CHARACTER, len(data) + 1)):
        byte = data[-length]
        if byte >= 0xC0:
            needed = 4 if byte >= 0xF0 else 3 if byte >= 0xE0 else 2
            return length if needed > length else 0
        if byte < 0x80:
            return 0
    return 0
