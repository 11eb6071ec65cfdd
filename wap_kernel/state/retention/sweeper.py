"""Retention at work: looks at what the state folder holds and takes away what is not to be kept.

Safe beside living servers. What the plan says of a run is asked again in the transaction that removes it; every
transaction is short; rows go before the files they refer to, so who stops in between leaves files that nothing refers
to, and the next sweep finds them.
"""

from __future__ import annotations

import logging
import os
import re
import shutil
import sqlite3
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import TypeVar

from wap_kernel.model.errors import ProviderUnavailable
from wap_kernel.model.run import RunStatus
from wap_kernel.model.timestamps import format_epoch
from wap_kernel.state.audit import hash_chain
from wap_kernel.state.retention.policy import StorageUsage, StoredRun, StateInventory, RetentionLimits, compute_cutoff, plan_sweep
from wap_kernel.state.undo.blob_store import Blobs
from wap_kernel.state.undo.change_store import NO_RUN
from wap_kernel.state.undo.concurrent_calls import Beside

BATCH = 5000
"""Rows that are read or removed at once, so that nobody waits long;"""
FEW = 100
"""and of those that may be long."""
VACUUMED = 256
"""Pages that are given back at once;"""
SPARE = 4096
"""and those that are not, for the next runs need some."""
_DIGEST = re.compile(r"[0-9a-f]{64}")
_FINAL = ", ".join(f"'{status.value}'" for status in RunStatus if status.is_final)
_INCREMENTAL = 2
_LAST = 2**63 - 1
_AUDIT_SIZE = " + ".join(
    f"coalesce(length(CAST({name} AS BLOB)), 0)" for name in (*hash_chain.COLUMNS, hash_chain.HASH)
)
_OF_RUNS = ("positions", "problems", "run_log", "approvals", "changes", "notes")

T = TypeVar("T")
Progress = Callable[[str, int, int], None]
"""What is done, how many of them, of how many."""


@dataclass(frozen=True)
class SweepResult:
    runs: int = 0
    outputs: int = 0
    blobs: int = 0
    tokens: int = 0
    audit_records: int = 0
    size: int = 0
    """Bytes of files. The database uses again what rows leave free, and gives back what is much."""
    anchor: hash_chain.ChainHead | None = None
    """Where the audit begins now, if some of it was cut."""


def _silent(what: str, done: int, total: int) -> None: ...


def _go_on() -> bool:
    return False


class Sweeper:
    def __init__(
        self,
        state_dir: str,
        connection: sqlite3.Connection,
        bounds: RetentionLimits | None = None,
        *,
        user: str = "local",
        now: float | None = None,
        progress: Progress = _silent,
        rest: Callable[[], bool] = _go_on,
        log: logging.Logger | None = None,
    ) -> None:
        """`rest` is called before each piece of work, and may take a while to let others in; True: leave the rest."""
        self._outputs = os.path.join(state_dir, "outputs")
        self._blobs = Blobs(state_dir)
        self._beside = Beside(state_dir)
        self._connection = connection
        self._bounds = bounds or RetentionLimits()
        self._user = user
        self._now = time.time() if now is None else now
        self._progress = progress
        self._rest = rest
        self._log = log or logging.getLogger("wap_kernel")

    def preview(self) -> SweepResult:
        """What `sweep` would free."""
        found = plan_sweep(self.look(), self._bounds, self._now)
        first, last = self._audit_range()
        (tokens,) = self._connection.execute(f"SELECT count(*) FROM tokens WHERE {self._dead_tokens()}").fetchone()
        return SweepResult(len(found.runs), len(found.outputs), len(found.blobs), tokens, last - first, found.size)

    def sweep(self) -> SweepResult:
        found = plan_sweep(self.look(), self._bounds, self._now)
        removed = {run for run in self._each("runs", found.runs) if self._remove_run(run)}
        self._forget_calls()
        stayed = {run for run in found.runs if run not in removed}
        freed = SweepResult(runs=len(removed))
        for name in self._each("outputs", [name for name in found.outputs if name not in stayed]):
            size = _tree(os.path.join(self._outputs, name)).size
            shutil.rmtree(os.path.join(self._outputs, name), ignore_errors=True)
            freed = replace(freed, outputs=freed.outputs + 1, size=freed.size + size)
        # A run that stayed, or came to refer to one of them meanwhile, keeps its before-images.
        referred = {digest for digests in self._references().values() for digest in digests}
        for blob in self._each("before-images", [blob for blob in found.blobs if blob.digest not in referred]):
            size = self._blobs.remove(blob, unused_for=self._bounds.grace)
            freed = replace(freed, blobs=freed.blobs + bool(size), size=freed.size + size)
        count, anchor = self._cut_audit()
        freed = replace(freed, tokens=self._remove_tokens(), audit_records=count, anchor=anchor)
        self._give_back()
        return freed

    # -- looking

    def look(self) -> StateInventory:
        # Files first: what is named between the two looks is young, and what was named before them is seen.
        outputs = {entry.name: _tree(entry.path) for entry in _entries(self._outputs)}
        blobs = list(self._blobs.all())
        references = self._references()
        files = sum(held.size for held in outputs.values()) + sum(blob.size for blob in blobs)
        sizes = self._row_sizes() if files + self._database_size() > self._bounds.size else {}
        rows = self._connection.execute(
            f"SELECT number, id, CASE WHEN status IN ({_FINAL}) THEN coalesce(completed_at, started_at) END, reverts"
            " FROM runs ORDER BY number"
        ).fetchall()
        runs = [
            StoredRun(number, run, ended_at, reverts, frozenset(references.get(run, ())), sizes.get(run, 0))
            for number, run, ended_at, reverts in rows
        ]
        return StateInventory(runs, outputs, blobs)

    def _references(self) -> dict[str, set[str]]:
        """Every digest that stands anywhere in what is known of a run's changes: rather one too many than one less."""
        found: defaultdict[str, set[str]] = defaultdict(set)
        for table, columns in (("changes", "before || coalesce(after, '')"), ("notes", "body")):
            last = 0
            query = f"SELECT rowid, run, {columns} FROM {table} WHERE rowid > ? ORDER BY rowid LIMIT {BATCH}"
            while rows := self._connection.execute(query, (last,)).fetchall():
                for _, run, text in rows:
                    found[run].update(_DIGEST.findall(text))
                last = rows[-1][0]
        return found

    def _database_size(self) -> int:
        """The pages in use, which SQLite knows without a look at them."""
        pages, free, size = (self._number(name) for name in ("page_count", "freelist_count", "page_size"))
        return (pages - free) * size

    def _row_sizes(self) -> Counter[str]:
        """The bytes of each run's operations and events."""
        found: Counter[str] = Counter()
        for table, key, run, text in (
            ("runs", "number", "id", "operations"),
            ("run_log", "id", "run", "body"),
        ):
            last = 0
            query = (
                f"SELECT {key}, {run}, length(CAST({text} AS BLOB)) FROM {table}"
                f" WHERE {key} > ? ORDER BY {key} LIMIT {FEW}"
            )
            while rows := self._connection.execute(query, (last,)).fetchall():
                for _, name, size in rows:
                    found[name] += size
                last = rows[-1][0]
        return found

    def _number(self, pragma: str) -> int:
        return int(self._connection.execute(f"PRAGMA {pragma}").fetchone()[0])

    # -- rows

    @contextmanager
    def _writing(self) -> Iterator[None]:
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
        """False: it is under way again, or is being undone."""
        with self._writing():
            removed = self._connection.execute(
                f"DELETE FROM runs WHERE id = ?1 AND status IN ({_FINAL})"
                f" AND NOT EXISTS (SELECT 1 FROM runs r WHERE r.reverts = ?1 AND r.status NOT IN ({_FINAL}))",
                (run,),
            ).rowcount
            for table in _OF_RUNS if removed else ():
                self._connection.execute(f"DELETE FROM {table} WHERE run = ?", (run,))
        return bool(removed)

    def _forget_calls(self) -> None:
        """What single calls changed is of use to a command that is under way, and to nobody else."""
        query = f"SELECT id FROM changes WHERE run = ? LIMIT {BATCH}"
        while self._connection.execute(query, (NO_RUN,)).fetchone() is not None and not self._rest():
            with self._beside.unless_a_command() as is_free:
                if not is_free:
                    return
                with self._writing():
                    self._connection.execute(f"DELETE FROM changes WHERE id IN ({query})", (NO_RUN,))

    def _dead_tokens(self) -> str:
        limit = compute_cutoff(self._now, self._bounds.token_days)
        return f"revoked_at < '{limit}' OR expires_at < '{limit}'"

    def _remove_tokens(self) -> int:
        with self._writing():
            removed = self._connection.execute(f"DELETE FROM tokens WHERE {self._dead_tokens()}").rowcount
            self._connection.execute("DELETE FROM bytes_written WHERE token NOT IN (SELECT id FROM tokens)")
        return removed

    def _audit_range(self) -> tuple[int, int]:
        """The record before the oldest, and the last that is too old or too much. The newest of all stays, whatever its
        age and size: the chain goes on from it."""
        query = "SELECT coalesce(min(id), 1) - 1, coalesce(max(id), 1) - 1 FROM audit"
        first, last = self._connection.execute(query).fetchone()
        limit = compute_cutoff(self._now, self._bounds.audit_days)
        young = self._connection.execute("SELECT id FROM audit WHERE at >= ? ORDER BY id LIMIT 1", (limit,)).fetchone()
        old = last if young is None else young[0] - 1
        return first, max(first, min(last, max(old, self._too_much_audit())))

    def _too_much_audit(self) -> int:
        """The last record to go that the audit may fit its size; 0: it fits."""
        if self._database_size() <= self._bounds.audit_size:
            return 0
        size, kept, next_id = 0, _LAST, _LAST
        query = f"SELECT id, {_AUDIT_SIZE} FROM audit WHERE id < ? ORDER BY id DESC LIMIT {BATCH}"
        while rows := self._connection.execute(query, (next_id,)).fetchall():
            for next_id, record in rows:
                size += record
                if size <= self._bounds.audit_size * self._bounds.audit_rest:
                    kept = next_id
                elif size > self._bounds.audit_size:
                    return kept - 1
        return 0

    def _cut_audit(self) -> tuple[int, hash_chain.ChainHead | None]:
        """How many records, and the last of them. Each piece leaves a record of its own: who is stopped in between
        has told the truth."""
        start, last = self._audit_range()
        at, total = format_epoch(self._now), last - start
        count, anchor = 0, None
        while start < last and not self._rest():
            self._progress("audit", count, total)
            end = min(start + BATCH, last)
            with self._writing():
                cut = hash_chain.cut_records(self._connection, end, at, self._user)
            if cut is not None:  # else somebody else did it meanwhile
                self._log.info("wap audit cut %d to %d, anchor %s", start + 1, end, cut)
                count, anchor = count + end - start, cut
            start = end
        return count, anchor

    def _give_back(self) -> None:
        """The pages that are free, to the file system; a database of an earlier version keeps them for itself."""
        if self._number("auto_vacuum") != _INCREMENTAL:
            return
        for _ in range((self._number("freelist_count") - SPARE) // VACUUMED):
            if self._rest():
                return
            # A page a step, and `execute` takes a single step where there are no rows.
            self._connection.executescript(f"PRAGMA incremental_vacuum({VACUUMED})")

    def _each(self, what: str, things: Sequence[T]) -> Iterator[T]:
        for done, thing in enumerate(things):
            if self._rest():
                return
            self._progress(what, done, len(things))
            yield thing


def _entries(folder: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except OSError:
        return []


def _tree(path: str) -> StorageUsage:
    """All bytes below, and when the last of them changed."""
    size, changed = 0, 0.0
    for folder, _, names in os.walk(path):
        for found in (folder, *(os.path.join(folder, name) for name in names)):
            with suppress(OSError):
                status = os.lstat(found)
                size += 0 if found == folder else status.st_size
                changed = max(changed, status.st_mtime)
    return StorageUsage(size, changed)
