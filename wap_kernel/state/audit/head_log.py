"""The head of the audit's chain, told to the server's log: who cuts the tail off the one seldom holds the other."""

from __future__ import annotations

import logging
import threading

from wap_kernel.state.audit.hash_chain import START, Head

EVERY = 1000
"""Records after which the head is told,"""
SECONDS = 300.0
"""or after this time, if there was any."""


class Heads:
    def __init__(self, log: logging.Logger) -> None:
        self._log = log
        self._lock = threading.Lock()
        self._newest = START
        self._untold = 0
        self._timer: threading.Timer | None = None

    def committed(self, head: Head, count: int) -> None:
        """Records were stored, the last of them this one. Any thread may say so, also late."""
        with self._lock:
            if head.id > self._newest.id:
                self._newest = head
            self._untold += count
            if self._untold >= EVERY:
                self._tell()
            elif self._untold and self._timer is None:
                self._timer = threading.Timer(SECONDS, self.tell)
                self._timer.daemon = True
                self._timer.start()

    def tell(self) -> None:
        with self._lock:
            self._tell()

    def _tell(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._untold:
            self._log.info("wap audit head %s", self._newest)
            self._untold = 0
