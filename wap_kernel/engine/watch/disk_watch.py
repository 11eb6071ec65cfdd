"""End a command that fills the disk: its layer may hold so much and no more, and some of the free space stays free.

No limit of the kernel counts the files of a layer together, so a thread measures the layer from time to time, and at
once when the free space of the filesystem has fallen. A file that is removed and still open is not found there, nor one
in a folder that is closed to its owner; so a command also ends when little of the free space is left.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from wap_kernel.model.command import CancelToken
from wap_kernel.model.limits import MAX_LAYER_BYTES, MAX_LAYER_FILES

PERIOD_SECONDS = 0.25
SPARE_PART = 0.5
"""The part of the free space that a command may fill."""
LEAST_PART = 0.25
"""The part of the free space that is left at least, whatever fills the disk."""
MEASURE_SECONDS = 2.0
MEASURE_PART = 0.05
"""The part of the time that the measurements of one layer may take."""


class DiskWatch:
    """The watch over one command. `cancel` ends the command, for the caller's reasons or for the disk's."""

    def __init__(self, folder: str, max_bytes: int, max_files: int, *, is_measured: bool = True) -> None:
        """Compare only the free space of the filesystem unless `is_measured`."""
        self._folder = folder
        self._is_measured = is_measured
        space = os.statvfs(folder)
        self._free_bytes, self._free_files = _free(space)
        self._max_bytes = min(max_bytes, int(self._free_bytes * SPARE_PART))
        self._max_files = min(max_files, int(self._free_files * SPARE_PART)) if space.f_files else max_files
        self._ended = threading.Event()
        self.cancel = CancelToken()
        self.has_overflowed = False

    def watch(self) -> None:
        """Compare until the command has ended."""
        due = time.monotonic() + MEASURE_SECONDS
        while not self._ended.wait(PERIOD_SECONDS):
            free_bytes, free_files = _free(os.statvfs(self._folder))
            is_suspect = (
                self._free_bytes - free_bytes > self._max_bytes // 2
                or self._free_files - free_files > self._max_files // 2
            )
            began = time.monotonic()
            is_over = free_bytes < self._free_bytes * LEAST_PART or free_files < self._free_files * LEAST_PART
            if not is_over and self._is_measured and (is_suspect or began >= due):
                is_over = self._is_over()
                ended = time.monotonic()
                due = ended + max(MEASURE_SECONDS, (ended - began) / MEASURE_PART)
            if is_over:
                self.has_overflowed = True
                self.cancel.request()
                return

    def end(self) -> None:
        self._ended.set()

    def _is_over(self) -> bool:
        size = count = 0
        for folder, _, names in os.walk(self._folder):
            for name in names:
                try:
                    size += os.lstat(os.path.join(folder, name)).st_blocks * 512
                except OSError:
                    continue
                count += 1
            count += 1
            if size > self._max_bytes or count > self._max_files:
                return True
        return False


def _free(space: os.statvfs_result) -> tuple[int, int]:
    return space.f_bavail * space.f_frsize, space.f_favail


@contextmanager
def watch_disk(
    folder: str, cancel: CancelToken, *, max_bytes: int = MAX_LAYER_BYTES, max_files: int = MAX_LAYER_FILES
) -> Iterator[DiskWatch]:
    """Watch what a command writes into `folder` until the block ends; `cancel` is the caller's own request."""
    with _start(DiskWatch(folder, max_bytes, max_files), cancel) as watch:
        yield watch


@contextmanager
def watch_free_space(folder: str, cancel: CancelToken) -> Iterator[DiskWatch]:
    """Watch the filesystem of `folder`, in which a command writes among other files, until the block ends."""
    with _start(DiskWatch(folder, MAX_LAYER_BYTES, MAX_LAYER_FILES, is_measured=False), cancel) as watch:
        yield watch


@contextmanager
def _start(watch: DiskWatch, cancel: CancelToken) -> Iterator[DiskWatch]:
    thread = threading.Thread(target=watch.watch, name="wap-disk-watch", daemon=True)
    with cancel.on_request(lambda: watch.cancel.request(cancel.grace)):
        thread.start()
        try:
            yield watch
        finally:
            watch.end()


def measure_folder(folder: str) -> int:
    """Return the bytes that the files below a folder take."""
    size = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):
                size += os.lstat(os.path.join(parent, name)).st_blocks * 512
    return size
