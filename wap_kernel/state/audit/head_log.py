"""Log the head of the audit's chain: an attacker who cuts the chain's tail off seldom controls the log as well."""

from __future__ import annotations

import logging
import threading

from wap_kernel.state.audit.hash_chain import START, ChainHead

EVERY = 1000
"""Records after which the head is logged."""
SECONDS = 300.0
"""Seconds after a record until the head is logged."""


class HeadLog:
    """Writes the newest head to the log after some records or some time."""

    def __init__(self, log: logging.Logger) -> None:
        self._log = log
        self._lock = threading.Lock()
        self._newest = START
        self._unlogged = 0
        self._timer: threading.Timer | None = None

    def note_commit(self, head: ChainHead, count: int) -> None:
        """Count records that were stored, the last of them `head`. Threads may call this late and in any order."""
        with self._lock:
            if head.id > self._newest.id:
                self._newest = head
            self._unlogged += count
            if self._unlogged >= EVERY:
                self._write()
            elif self._unlogged and self._timer is None:
                self._timer = threading.Timer(SECONDS, self.write)
                self._timer.daemon = True
                self._timer.start()

    def write(self) -> None:
        with self._lock:
            self._write()

    def _write(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._unlogged:
            self._log.info("wap audit head %s", self._newest)
            self._unlogged = 0
