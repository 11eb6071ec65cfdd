"""End a command that fills the disk: its layer may hold so much and no more.

No limit of the kernel counts the files of a layer together, so a thread compares the free space of the filesystem from
time to time, and measures the layer itself when that has fallen.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from wap_kernel.model.command import CancelToken
from wap_kernel.model.limits import MAX_LAYER_BYTES, MAX_LAYER_FILES

PERIOD_SECONDS = 0.25
SPARE_PART = 0.5
"""The part of the free space that a command may fill."""


class DiskWatch:
    """The watch over one command. `cancel` ends the command, for the caller's reasons or for the disk's."""

    def __init__(self, folder: str, max_bytes: int, max_files: int) -> None:
        self._folder = folder
        space = os.statvfs(folder)
        self._free_bytes, self._free_files = _free(space)
        self._max_bytes = min(max_bytes, int(self._free_bytes * SPARE_PART))
        self._max_files = min(max_files, int(self._free_files * SPARE_PART)) if space.f_files else max_files
        self._ended = threading.Event()
        self.cancel = CancelToken()
        self.has_overflowed = False

    def watch(self) -> None:
        """Compare until the command has ended."""
        while not self._ended.wait(PERIOD_SECONDS):
            free_bytes, free_files = _free(os.statvfs(self._folder))
            is_suspect = self._free_bytes - free_bytes > self._max_bytes // 2
            if (is_suspect or self._free_files - free_files > self._max_files // 2) and self._is_over():
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
    watch = DiskWatch(folder, max_bytes, max_files)
    thread = threading.Thread(target=watch.watch, name="wap-disk-watch", daemon=True)
    with cancel.on_request(watch.cancel.request):
        thread.start()
        try:
            yield watch
        finally:
            watch.end()
