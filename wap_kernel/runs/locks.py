"""Locks on paths, between the threads of a process and between processes: of two writers with the same
`expectedHash` exactly one may win. They stand in the state folder, where no command can take one hostage."""

from __future__ import annotations

import fcntl
import os
import threading
import time
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from wap_kernel.errors import Conflict

BUCKETS = 64
PATIENCE = 10.0
"""Seconds to wait for a neighbour; a write takes milliseconds, so a longer wait means a stopped process."""
_POLL = 0.002


class PathLocks:
    def __init__(self, state_dir: str) -> None:
        self._folder = os.path.join(state_dir, "locks")
        self._threads = [threading.Lock() for _ in range(BUCKETS)]

    @contextmanager
    def hold(self, *paths: str) -> Iterator[None]:
        """Hold the locks of these resolved paths. Taken in one order, so two holders never wait for each other."""
        buckets = sorted({zlib.crc32(os.fsencode(path)) % BUCKETS for path in paths})
        with ExitStack() as stack:
            for bucket in buckets:
                stack.enter_context(self._bucket(bucket))
            yield

    @contextmanager
    def _bucket(self, bucket: int) -> Iterator[None]:
        deadline = time.monotonic() + PATIENCE
        if not self._threads[bucket].acquire(timeout=PATIENCE):
            raise _busy()
        try:
            descriptor = os.open(os.path.join(self._folder, f"{bucket:02x}"), os.O_RDWR | os.O_CREAT, 0o600)
            try:
                while True:
                    try:
                        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                        break
                    except BlockingIOError:
                        if time.monotonic() > deadline:
                            raise _busy() from None
                        time.sleep(_POLL)
                yield
            finally:
                os.close(descriptor)
        finally:
            self._threads[bucket].release()


def _busy() -> Conflict:
    return Conflict("Another process holds the file for too long.", hint="Try again in a moment.")
