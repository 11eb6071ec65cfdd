"""Read and write the state database: one connection writes, and some read.

A thread that must not go on before its work is stored commits it itself, together with all work enqueued before; so no
thread waits for another to get its turn, and threads that come together share one commit. Work that can wait
(`enqueue`) is committed by the next of these threads, or after a moment by a thread of the database.

That thread also moves committed pages from SQLite's log into the database and syncs them (a checkpoint); otherwise a
commit would do it now and then, and take much longer.
"""

from __future__ import annotations

import logging
import os
import sqlite3
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, TypeVar

from wap_kernel.model.errors import NoSpace, ProviderUnavailable, WapError
from wap_kernel.state import schema

GROUP_SECONDS = 0.05
"""Seconds that enqueued work waits for more work to share its commit."""
CHECKPOINT_PAGES = 1000
"""Pages in the log, about, after which the thread makes a checkpoint: each row counts as a page."""
_PAGES_PER_COMMIT = 4
_FORCED_CHECKPOINT_PAGES = 16 * CHECKPOINT_PAGES
"""Pages in the log after which a commit makes a checkpoint itself, should the thread not keep up."""

T = TypeVar("T")
Work = Callable[[sqlite3.Connection], T]
_Item = tuple[Work[Any], "Future[Any]"]


class Database:
    """The state database of one process, for all its threads."""

    def __init__(self, state_dir: str, log: logging.Logger) -> None:
        self._log = log
        self._writer = schema.connect(state_dir)
        self._writer.execute(f"PRAGMA wal_autocheckpoint = {_FORCED_CHECKPOINT_PAGES}")
        self._log_pages = 0
        """Pages in the log since the last checkpoint, about."""
        self._state_dir = state_dir
        self._path = os.path.join(state_dir, schema.NAME)
        self._idle_readers: deque[sqlite3.Connection] = deque()
        """Connections for reading that are idle."""
        self._pending: deque[_Item] = deque()
        self._committing = threading.Lock()
        self._has_work = threading.Event()
        self._closing = threading.Event()
        self._is_closed = False
        self._thread = threading.Thread(target=self._run_thread, name="wap-state", daemon=True)
        self._thread.start()

    def write(self, work: Work[T]) -> T:
        """Do `work` in a transaction: it is stored when this returns, and not stored at all when this raises."""
        done: Future[T] = Future()
        self._pending.append((work, done))
        if not done.done():
            self._commit_pending()
        return wait_for(done)

    def enqueue(self, work: Work[T]) -> Future[T]:
        """Do `work` soon, in order with all other work."""
        done: Future[T] = Future()
        self._pending.append((work, done))
        # Set from the first item of a group until the group is taken, so that further items do not wake the thread.
        if not self._has_work.is_set():
            self._has_work.set()
        if self._is_closed:
            self._commit_pending()
        return done

    def read(self, work: Work[T]) -> T:
        """Do `work` on a connection of its own: a long query holds no other thread up."""
        if self._is_closed:
            raise ProviderUnavailable("The workspace is closed.")
        try:
            connection = self._idle_readers.pop()
        except IndexError:
            connection = schema.connect(self._state_dir)
        try:
            return work(connection)
        except sqlite3.Error as error:
            raise _make_error(error) from error
        finally:
            self._release_reader(connection)

    def close(self) -> None:
        """Commit all enqueued work. Later work is refused."""
        self._closing.set()
        self._has_work.set()
        self._thread.join()
        self._commit_pending()
        with self._committing:
            self._is_closed = True
            self._writer.close()
        self._commit_pending()
        self._close_readers()

    def _release_reader(self, connection: sqlite3.Connection) -> None:
        self._idle_readers.append(connection)
        if self._is_closed:
            self._close_readers()

    def _close_readers(self) -> None:
        while self._idle_readers:
            with suppress(IndexError):
                self._idle_readers.pop().close()

    def _run_thread(self) -> None:
        """Commit the work that no thread waits for, and make checkpoints; on the database's thread."""
        while not self._closing.is_set():
            self._has_work.wait()
            self._closing.wait(GROUP_SECONDS)
            self._commit_pending()
            if self._log_pages >= CHECKPOINT_PAGES:
                self._checkpoint()

    def _checkpoint(self) -> None:
        """Move the log into the database, except for pages that a connection still reads."""
        self._log_pages = 0
        with suppress(WapError, sqlite3.Error):  # the next commit meets the same failure, and reports it
            self.read(lambda connection: connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone())

    def _commit_pending(self) -> None:
        """Commit all work enqueued before; when this returns, this thread or another one has done it."""
        with self._committing:
            self._has_work.clear()
            group = [self._pending.popleft() for _ in range(len(self._pending))]
            if not group:
                return
            if not self._is_closed:
                self._commit(group)
                return
            for _, future in group:
                future.set_exception(ProviderUnavailable("The workspace is closed."))

    def _commit(self, group: list[_Item]) -> None:
        done: list[tuple[Future[Any], Any, Exception | None]] = []
        try:
            if not os.path.exists(self._path):  # SQLite would go on writing to a file that has no name any more
                raise sqlite3.OperationalError(
                    "state.db was moved or removed; put it back, or start the server again to begin anew"
                )
            before = self._writer.total_changes
            self._writer.execute("BEGIN IMMEDIATE")
            for work, future in group:
                done.append((future, *self._attempt(work)))
            self._writer.execute("COMMIT")
            self._log_pages += _PAGES_PER_COMMIT + self._writer.total_changes - before
            if self._log_pages >= CHECKPOINT_PAGES:
                self._has_work.set()
        except Exception as error:  # noqa: BLE001 - handed to the threads that wait; none must wait for ever
            with suppress(sqlite3.Error):
                self._writer.rollback()
            self._log.error("wap: the state could not be written: %s", error)
            done = [(future, None, error) for _, future in group]
        for future, result, failure in done:
            if failure is None:
                future.set_result(result)
            else:
                future.set_exception(failure)

    def _attempt(self, work: Work[Any]) -> tuple[Any, Exception | None]:
        """Do one piece of work, and roll back only this piece if it fails."""
        self._writer.execute("SAVEPOINT one")
        try:
            return work(self._writer), None
        except Exception as error:  # noqa: BLE001 - handed to the thread that enqueued the work
            if _is_unusable(error):
                self._log.error("wap: the state could not be written: %s", error)
            self._writer.execute("ROLLBACK TO one")
            return None, error
        finally:
            self._writer.execute("RELEASE one")


def wait_for(future: Future[T]) -> T:
    """Return the result of enqueued work, or raise what it raised; an unusable database is a WapError."""
    try:
        return future.result()
    except sqlite3.Error as error:
        if _is_unusable(error):
            raise _make_error(error) from error
        raise


def _is_unusable(error: Exception) -> bool:
    return isinstance(error, sqlite3.Error) and not isinstance(error, sqlite3.IntegrityError)


def _make_error(error: Exception) -> WapError:
    if "full" in str(error):
        return NoSpace("No space left for the workspace's state, so nothing was changed.", hint="Free some space.")
    return ProviderUnavailable(
        "The workspace's state cannot be written or read, so nothing was changed.", hint="The server's log says why."
    )
