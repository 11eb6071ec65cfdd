"""Locks on paths, between the threads of a process and between processes: of two writers with the same
`expectedHash` exactly one may win. They stand in the state folder, out of reach of every tool."""

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
"""Paths share locks, so that the number of lock files is bounded; seldom do two writers meet in one by chance."""
PATIENCE = 15.0
"""Seconds to wait for a neighbour: longer than any edit may take."""


class PathLocks:
    def __init__(self, state_dir: str) -> None:
        self._folder = os.path.join(state_dir, "locks")
        self._threads = [threading.Lock() for _ in range(BUCKETS)]
        self._mine = threading.local()

    @contextmanager
    def hold(self, *paths: str) -> Iterator[None]:
        """Hold the locks of these resolved paths. Taken in one order, so two holders never wait for each other. What
        the thread holds already it may hold once more."""
        deadline = time.monotonic() + PATIENCE
        held: set[int] = self._mine.__dict__.setdefault("held", set())
        wanted = {zlib.crc32(os.fsencode(path)) % BUCKETS for path in paths} - held
        with ExitStack() as stack:
            for bucket in sorted(wanted):
                stack.enter_context(self._bucket(bucket, deadline))
            held |= wanted
            try:
                yield
            finally:
                held -= wanted

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
    return Conflict("Somebody else has been changing the same file for too long.", hint="Try again in a moment.")
