"""The state database in use: one connection that writes, and some that read.

Whoever must not go on before something is stored commits it, together with all that was handed in before; so nobody
waits for another thread to get its turn, and those who come at the same time share one commit. What can wait (`later`)
is committed by the next of them, or after a moment by a thread of its own.

That thread also moves what was committed from SQLite's log into the database and syncs it (a checkpoint), which is most
of what a commit would otherwise wait for now and then.
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
"""How long what can wait may wait for company."""
CHECKPOINT = 1000
"""Pages, about, after which there is a checkpoint: a commit takes a few, and every row at least a part of one."""
_PAGES_OF_A_COMMIT = 4
_CHECKPOINT_AT_ONCE = 16 * CHECKPOINT
"""Pages after which a commit makes a checkpoint itself, should the thread not keep up."""

T = TypeVar("T")
Work = Callable[[sqlite3.Connection], T]
_Item = tuple[Work[Any], "Future[Any]"]


class Database:
    def __init__(self, state_dir: str, log: logging.Logger) -> None:
        self._log = log
        self._writing = schema.connect(state_dir)
        self._writing.execute(f"PRAGMA wal_autocheckpoint = {_CHECKPOINT_AT_ONCE}")
        self._in_log = 0
        """Pages, about, since the last checkpoint."""
        self._state_dir = state_dir
        self._path = os.path.join(state_dir, schema.NAME)
        self._readers: deque[sqlite3.Connection] = deque()
        """Those that nobody uses now."""
        self._pending: deque[_Item] = deque()
        self._committing = threading.Lock()
        self._something = threading.Event()
        self._closing = threading.Event()
        self._is_closed = False
        self._thread = threading.Thread(target=self._commit_leftovers, name="wap-state", daemon=True)
        self._thread.start()

    def write(self, work: Work[T]) -> T:
        """Do it in a transaction; it is stored when this returns, and not stored at all when this raises."""
        done: Future[T] = Future()
        self._pending.append((work, done))
        if not done.done():
            self._commit_pending()
        return settled(done)

    def later(self, work: Work[T]) -> Future[T]:
        """Do it in order with everything else, soon."""
        done: Future[T] = Future()
        self._pending.append((work, done))
        # Set from the first item of a group until the group is taken, so that further ones wake nobody.
        if not self._something.is_set():
            self._something.set()
        if self._is_closed:
            self._commit_pending()
        return done

    def read(self, work: Work[T]) -> T:
        """On a connection that nobody else uses: a long look holds nobody up."""
        if self._is_closed:
            raise ProviderUnavailable("The workspace is closed.")
        try:
            connection = self._readers.pop()
        except IndexError:
            connection = schema.connect(self._state_dir)
        try:
            return work(connection)
        except sqlite3.Error as error:
            raise _unusable(error) from error
        finally:
            self._put_back(connection)

    def close(self) -> None:
        """Finish what was handed in. What comes later is refused."""
        self._closing.set()
        self._something.set()
        self._thread.join()
        self._commit_pending()
        with self._committing:
            self._is_closed = True
            self._writing.close()
        self._commit_pending()
        self._close_readers()

    def _put_back(self, connection: sqlite3.Connection) -> None:
        self._readers.append(connection)
        if self._is_closed:
            self._close_readers()

    def _close_readers(self) -> None:
        while self._readers:
            with suppress(IndexError):
                self._readers.pop().close()

    def _commit_leftovers(self) -> None:
        """What nobody has waited for; on a thread of its own."""
        while not self._closing.is_set():
            self._something.wait()
            self._closing.wait(GROUP_SECONDS)
            self._commit_pending()
            if self._in_log >= CHECKPOINT:
                self._checkpoint()

    def _checkpoint(self) -> None:
        """Waits for nobody and holds up nobody: what somebody still reads is left for the next time."""
        self._in_log = 0
        with suppress(WapError, sqlite3.Error):  # a commit will meet the same, and tell
            self.read(lambda connection: connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone())

    def _commit_pending(self) -> None:
        """Everything that was handed in before; when this returns, it is settled, by us or by somebody else."""
        with self._committing:
            self._something.clear()
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
            if not os.path.exists(self._path):  # SQLite would go on writing to a file that nobody finds any more
                raise sqlite3.OperationalError(
                    "state.db was moved or removed; put it back, or start the server again to begin anew"
                )
            before = self._writing.total_changes
            self._writing.execute("BEGIN IMMEDIATE")
            for work, future in group:
                done.append((future, *self._attempt(work)))
            self._writing.execute("COMMIT")
            self._in_log += _PAGES_OF_A_COMMIT + self._writing.total_changes - before
            if self._in_log >= CHECKPOINT:
                self._something.set()
        except Exception as error:  # noqa: BLE001 - handed to those who wait; nobody must wait for ever
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


def settled(future: Future[T]) -> T:
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
