"""Lock paths between the threads of a process and between processes.

Of two writers with the same `expectedHash` exactly one may win. The lock files are in the state folder, out of reach of
every tool.
"""

from __future__ import annotations

import os
import threading
import time
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from wap_kernel.model.errors import Conflict
from wap_kernel.state.directory import open_lock
from wap_kernel.state.file_lock import lock_within

BUCKETS = 1024
"""Number of lock files. Paths share them, and two writers seldom meet in one by chance."""
LOCK_TIMEOUT_SECONDS = 15.0
"""Seconds to wait for another writer: longer than any edit may take."""


class PathLocks:
    """The locks on the paths of one workspace."""

    def __init__(self, state_dir: str) -> None:
        self._folder = os.path.join(state_dir, "locks")
        self._threads = [threading.Lock() for _ in range(BUCKETS)]
        self._mine = threading.local()

    @contextmanager
    def hold(self, *paths: str) -> Iterator[None]:
        """Hold the locks of these resolved paths until the block ends.

        The locks are taken in one order, so two holders never wait for each other. A thread may hold a lock twice.
        """
        deadline = time.monotonic() + LOCK_TIMEOUT_SECONDS
        own_buckets: set[int] = self._mine.__dict__.setdefault("own_buckets", set())
        buckets = {zlib.crc32(os.fsencode(path)) % BUCKETS for path in paths} - own_buckets
        with ExitStack() as stack:
            for bucket in sorted(buckets):
                stack.enter_context(self._bucket(bucket, deadline))
            own_buckets |= buckets
            try:
                yield
            finally:
                own_buckets -= buckets

    @contextmanager
    def _bucket(self, bucket: int, deadline: float) -> Iterator[None]:
        if not self._threads[bucket].acquire(timeout=max(0.0, deadline - time.monotonic())):
            raise _busy()
        try:
            descriptor = open_lock(os.path.join(self._folder, f"{bucket:03x}"))
            try:
                if not lock_within(descriptor, deadline - time.monotonic()):
                    raise _busy()
                yield
            finally:
                os.close(descriptor)
        finally:
            self._threads[bucket].release()


def _busy() -> Conflict:
    return Conflict("Another call has been changing the same file for too long.", hint="Try again in a moment.")
