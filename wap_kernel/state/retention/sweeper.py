"""Sweep the state folder: take an inventory, and remove what retention does not keep.

Safe while servers run. The transaction that removes a run checks it again; every transaction is short; rows go before
the files they refer to, so an interrupted sweep leaves files that nothing refers to, and the next sweep removes them.
"""

from __future__ import annotations

import logging
import os
import shutil
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TypeVar

from wap_kernel.files.contained.copies import remove_entry
from wap_kernel.model.errors import ProviderUnavailable
from wap_kernel.model.text import format_epoch
from wap_kernel.state.audit import hash_chain
from wap_kernel.state.changes import image_store
from wap_kernel.state.retention.inventory import (
    BATCH,
    FINAL_STATUSES,
    measure_database,
    measure_tree,
    read_pragma,
    take_inventory,
)
from wap_kernel.state.retention.policy import RetentionLimits, StateInventory, compute_cutoff, plan_sweep

VACUUM_PAGES = 256
"""Free pages that are given back together."""
SPARE_PAGES = 4096
"""Free pages that stay, for the next runs need some."""
_LAST = 2**63 - 1
_AUDIT_SIZE = " + ".join(
    f"coalesce(length(CAST({name} AS BLOB)), 0)" for name in (*hash_chain.COLUMNS, hash_chain.HASH)
)
_OF_RUNS = ("positions", "problems", "run_log", "approvals", "change_log", "images", "applies")

T = TypeVar("T")
Progress = Callable[[str, int, int], None]
"""A function that gets the kind of work, the number of pieces done, and their total."""


@dataclass(frozen=True)
class SweepResult:
    """The numbers of things that a sweep removed."""

    runs: int = 0
    outputs: int = 0
    images: int = 0
    tokens: int = 0
    audit_records: int = 0
    size: int = 0
    """Bytes of files. The database reuses the space of removed rows, and gives back what exceeds its spare."""
    anchor: hash_chain.ChainHead | None = None
    """The last audit record that was cut, None if none was."""


def remove_tree(path: str) -> None:
    """Remove a stored entry, also where a folder in it is closed to its owner."""
    folder, name = os.path.split(path)
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        remove_entry(descriptor, name)
    finally:
        os.close(descriptor)


def _silent(what: str, done: int, total: int) -> None: ...


def _go_on() -> bool:
    return False


class Sweeper:
    """Removes old state on one connection."""

    def __init__(
        self,
        state_dir: str,
        connection: sqlite3.Connection,
        limits: RetentionLimits | None = None,
        *,
        user: str = "local",
        now: float | None = None,
        progress: Progress = _silent,
        rest: Callable[[], bool] = _go_on,
        log: logging.Logger | None = None,
    ) -> None:
        """Prepare a sweep.

        `rest` is called before each piece of work, and may sleep to let other processes in; if it returns True, the
        sweep ends.
        """
        self._outputs = os.path.join(state_dir, "outputs")
        self._images = os.path.join(state_dir, image_store.FOLDER)
        self._connection = connection
        self._limits = limits or RetentionLimits()
        self._user = user
        self._now = time.time() if now is None else now
        self._progress = progress
        self._rest = rest
        self._log = log or logging.getLogger("wap_kernel")

    def preview(self) -> SweepResult:
        """Return what `sweep` would free."""
        found = plan_sweep(self.take_inventory(), self._limits, self._now)
        first, last = self._find_audit_range()
        (tokens,) = self._connection.execute(
            f"SELECT count(*) FROM tokens WHERE {self._dead_tokens_clause()}"
        ).fetchone()
        return SweepResult(len(found.runs), len(found.outputs), len(found.images), tokens, last - first, found.size)

    def sweep(self) -> SweepResult:
        """Remove what the plan names, and return what was freed."""
        found = plan_sweep(self.take_inventory(), self._limits, self._now)
        removed = {run for run in self._iterate("runs", found.runs) if self._remove_run(run)}
        stayed = {run for run in found.runs if run not in removed}
        freed = SweepResult(runs=len(removed))
        for name in self._iterate("outputs", [name for name in found.outputs if name not in stayed]):
            size = measure_tree(os.path.join(self._outputs, name)).size
            shutil.rmtree(os.path.join(self._outputs, name), ignore_errors=True)
            freed = replace(freed, outputs=freed.outputs + 1, size=freed.size + size)
        # A run that stayed, or that stored one of them since the plan was made, keeps its before-images.
        for image in self._iterate("before-images", [image for image in found.images if image.run not in stayed]):
            if self._is_referred(image.name):
                continue
            remove_tree(os.path.join(self._images, image.name))
            freed = replace(freed, images=freed.images + 1, size=freed.size + image.size)
        count, anchor = self._cut_audit()
        freed = replace(freed, tokens=self._remove_tokens(), audit_records=count, anchor=anchor)
        self._give_back()
        return freed

    def take_inventory(self) -> StateInventory:
        return take_inventory(self._connection, self._outputs, self._images, self._limits)

    # -- rows

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._connection.execute("COMMIT")
            except BaseException:
                self._connection.rollback()
                raise
        except sqlite3.Error as error:
            raise ProviderUnavailable(f"The state cannot be swept: {error}.", hint="Try again in a while.") from error

    def _remove_run(self, run: str) -> bool:
        """Remove a run and its rows; return False if it has not ended or a revert of it runs."""
        with self._transaction():
            removed = self._connection.execute(
                f"DELETE FROM runs WHERE id = :run AND status IN ({FINAL_STATUSES})"
                f" AND NOT EXISTS (SELECT 1 FROM runs r WHERE r.reverts = :run AND r.status NOT IN ({FINAL_STATUSES}))",
                {"run": run},
            ).rowcount
            for table in _OF_RUNS if removed else ():
                self._connection.execute(f"DELETE FROM {table} WHERE run = ?", (run,))
        return bool(removed)

    def _is_referred(self, name: str) -> bool:
        return self._connection.execute("SELECT 1 FROM images WHERE name = ? LIMIT 1", (name,)).fetchone() is not None

    def _dead_tokens_clause(self) -> str:
        limit = compute_cutoff(self._now, self._limits.token_days)
        return f"revoked_at < '{limit}' OR expires_at < '{limit}'"

    def _remove_tokens(self) -> int:
        with self._transaction():
            removed = self._connection.execute(f"DELETE FROM tokens WHERE {self._dead_tokens_clause()}").rowcount
            self._connection.execute("DELETE FROM bytes_written WHERE token NOT IN (SELECT id FROM tokens)")
        return removed

    def _find_audit_range(self) -> tuple[int, int]:
        """Return the id before the oldest record, and the id of the last record that is too old or too much.

        The newest record stays, whatever its age and size: the chain goes on from it.
        """
        query = "SELECT coalesce(min(id), 1) - 1, coalesce(max(id), 1) - 1 FROM audit"
        first, last = self._connection.execute(query).fetchone()
        limit = compute_cutoff(self._now, self._limits.audit_days)
        young = self._connection.execute("SELECT id FROM audit WHERE at >= ? ORDER BY id LIMIT 1", (limit,)).fetchone()
        old = last if young is None else young[0] - 1
        return first, max(first, min(last, max(old, self._find_size_cut())))

    def _find_size_cut(self) -> int:
        """Return the last record to remove so that the audit fits its size, 0 if it fits."""
        if measure_database(self._connection) <= self._limits.audit_size:
            return 0
        size, oldest_to_stay, next_id = 0, _LAST, _LAST
        query = f"SELECT id, {_AUDIT_SIZE} FROM audit WHERE id < ? ORDER BY id DESC LIMIT {BATCH}"
        while rows := self._connection.execute(query, (next_id,)).fetchall():
            for next_id, record in rows:
                size += record
                if size <= self._limits.audit_size * self._limits.audit_rest:
                    oldest_to_stay = next_id
                elif size > self._limits.audit_size:
                    return oldest_to_stay - 1
        return 0

    def _cut_audit(self) -> tuple[int, hash_chain.ChainHead | None]:
        """Cut the audit, and return the number of records and the last of them.

        Each piece leaves a record of its own, so an interrupted cut is recorded too.
        """
        start, last = self._find_audit_range()
        at, total = format_epoch(self._now), last - start
        count, anchor = 0, None
        while start < last and not self._rest():
            self._progress("audit", count, total)
            end = min(start + BATCH, last)
            with self._transaction():
                cut = hash_chain.cut_records(self._connection, end, at, self._user)
            if cut is not None:  # another process may have cut it meanwhile
                self._log.info("wap audit cut %d to %d, anchor %s", start + 1, end, cut)
                count, anchor = count + end - start, cut
            start = end
        return count, anchor

    def _give_back(self) -> None:
        """Give free pages back to the file system."""
        for _ in range((read_pragma(self._connection, "freelist_count") - SPARE_PAGES) // VACUUM_PAGES):
            if self._rest():
                return
            # Each step frees a page, and `execute` takes a single step where there are no rows.
            self._connection.executescript(f"PRAGMA incremental_vacuum({VACUUM_PAGES})")

    def _iterate(self, what: str, things: Sequence[T]) -> Iterator[T]:
        for done, thing in enumerate(things):
            if self._rest():
                return
            self._progress(what, done, len(things))
            yield thing
