"""The state database in use: one connection that writes, on a thread of its own, and one that reads.

Whoever must not go on before something is stored waits for the commit; those who hand in work at the same time share
one. What can wait (`later`) is committed with the next of them, or after a moment.
"""

from __future__ import annotations

import logging
import sqlite3
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, TypeVar

from wap_kernel.errors import NoSpace, ProviderUnavailable, WapError
from wap_kernel.runs import store

GROUP_SECONDS = 0.05
"""How long what can wait may wait for company."""

T = TypeVar("T")
Work = Callable[[sqlite3.Connection], T]
_Item = tuple[Work[Any], "Future[Any]"]


class Database:
    def __init__(self, state_dir: str, log: logging.Logger) -> None:
        self._log = log
        self._writing = store.connect(state_dir)
        self._reading = store.connect(state_dir)
        self._reader = threading.Lock()
        self._pending: deque[_Item] = deque()
        self._something = threading.Event()
        self._urgent = threading.Event()
        self._is_closing = False
        self._is_closed = False
        self._thread = threading.Thread(target=self._write, name="wap-state", daemon=True)
        self._thread.start()

    def write(self, work: Work[T]) -> T:
        """Do it in a transaction; it is stored when this returns, and not stored at all when this raises."""
        return _settled(self._put(work, urgent=True))

    def later(self, work: Work[T]) -> Future[T]:
        """Do it in order with everything else, soon."""
        return self._put(work, urgent=False)

    def read(self, work: Work[T]) -> T:
        with self._reader:
            if self._is_closed:
                raise ProviderUnavailable("The workspace is closed.")
            try:
                return work(self._reading)
            except sqlite3.Error as error:
                raise _unusable(error) from error

    def close(self) -> None:
        """Finish what was handed in. What comes later is refused."""
        self._is_closing = True
        self._urgent.set()
        self._something.set()
        self._thread.join()
        self._is_closed = True
        self._refuse_pending()
        self._writing.close()
        with self._reader:
            self._reading.close()

    def _put(self, work: Work[T], *, urgent: bool) -> Future[T]:
        done: Future[T] = Future()
        self._pending.append((work, done))
        if urgent:
            self._urgent.set()
        # Set from the first item of a group until the group is taken, so that further ones wake nobody.
        if not self._something.is_set():
            self._something.set()
        if self._is_closed:
            self._refuse_pending()
        return done

    def _refuse_pending(self) -> None:
        """Called after the thread has ended and by whoever comes after that, so that nobody waits for ever."""
        while self._pending:
            with suppress(IndexError):
                self._pending.popleft()[1].set_exception(ProviderUnavailable("The workspace is closed."))

    # -- the writing thread

    def _write(self) -> None:
        while not (self._is_closing and not self._pending):
            self._something.wait()
            self._urgent.wait(GROUP_SECONDS)
            if not self._is_closing:
                self._urgent.clear()
                self._something.clear()
            group = [self._pending.popleft() for _ in range(len(self._pending))]
            if group:
                self._commit(group)

    def _commit(self, group: list[_Item]) -> None:
        done: list[tuple[Future[Any], Any, Exception | None]] = []
        try:
            self._writing.execute("BEGIN IMMEDIATE")
            for work, future in group:
                done.append((future, *self._attempt(work)))
            self._writing.execute("COMMIT")
        except Exception as error:  # noqa: BLE001 - handed to those who wait; this thread must never die
            with suppress(sqlite3.Error):
                self._writing.rollback()
            self._log.error("wap: the state could not be written: %s", error)
            done = [(future, None, error) for _, future in group]
        for future, result, failure in done:
            if failure is None:
                future.set_result(result)
            else:
                future.set_exception(failure)

    def _attempt(self, work: Work[Any]) -> tuple[Any, Exception | None]:
        """One piece of work, which takes back what it did when it fails, and nothing of its neighbours'."""
        self._writing.execute("SAVEPOINT one")
        try:
            return work(self._writing), None
        except Exception as error:  # noqa: BLE001 - it belongs to whoever handed it in
            if _is_unusable(error):
                self._log.error("wap: the state could not be written: %s", error)
            self._writing.execute("ROLLBACK TO one")
            return None, error
        finally:
            self._writing.execute("RELEASE one")


def _settled(future: Future[T]) -> T:
    """What the work itself raises is between it and who handed it in."""
    try:
        return future.result()
    except sqlite3.Error as error:
        if _is_unusable(error):
            raise _unusable(error) from error
        raise


def _is_unusable(error: Exception) -> bool:
    return isinstance(error, sqlite3.Error) and not isinstance(error, sqlite3.IntegrityError)


def _unusable(error: Exception) -> WapError:
    if "full" in str(error):
        return NoSpace("No space left for the workspace's state, so nothing was changed.", hint="Free some space.")
    return ProviderUnavailable(
        "The workspace's state cannot be written or read, so nothing was changed.", hint="The server's log says why."
    )
