"""What of the state is too old, or too much, to be kept. A pure decision; `sweeping.py` acts on it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from wap_kernel.model.timestamps import format_epoch
from wap_kernel.state.undo.blob_store import Stored

DAY = 86400.0


@dataclass(frozen=True)
class RetentionLimits:
    run_days: float = 30
    """For runs that have ended, with their events, output and before-images;"""
    size: int = 1024**3
    """and the bytes that runs may take in all, with their events, output and before-images: the oldest go first."""
    audit_days: float = 365
    audit_size: int = 512 * 1024**2
    """Bytes of audit records, over a million of them: who makes many shall not fill the disk, nor soon push out the old
    ones. What is more goes down to `audit_rest` of it, for each cut leaves a record, and they shall be few."""
    audit_rest: float = 0.9
    token_days: float = 90
    """After a token has expired or was revoked."""
    grace: float = 2 * 3600
    """Seconds in which a file that nothing refers to may belong to somebody who is about to refer to it. A before-image
    is kept when a command begins and named when it has ended, and a command may take an hour."""


@dataclass(frozen=True)
class StoredRun:
    number: int
    id: str
    ended_at: str | None
    """None: it runs or waits for a person."""
    reverts: str | None
    blobs: frozenset[str]
    """The before-images that undoing it needs."""
    size: int = 0
    """Of its rows. Not looked at while even the whole database is not too much."""


@dataclass(frozen=True)
class StorageUsage:
    size: int
    changed_at: float


@dataclass(frozen=True)
class StateInventory:
    """What there is."""

    runs: Sequence[StoredRun]
    outputs: Mapping[str, StorageUsage]
    """By the run."""
    blobs: Sequence[Stored]


@dataclass(frozen=True)
class RetentionPlan:
    runs: tuple[str, ...]
    outputs: tuple[str, ...]
    """Of the runs above, and of those that were removed by somebody who got no further."""
    blobs: tuple[Stored, ...]
    size: int
    """Bytes that are freed."""


def compute_cutoff(now: float, days: float) -> str:
    """What has an earlier time is too old."""
    return format_epoch(now - days * DAY)


def plan_sweep(held: StateInventory, bounds: RetentionLimits, now: float) -> RetentionPlan:
    runs = _runs(held, bounds, now)
    kept = [run for run in held.runs if run.id not in runs]
    referred = {digest for run in kept for digest in run.blobs}
    known = {run.id for run in held.runs}
    old = now - bounds.grace
    outputs = [name for name, it in held.outputs.items() if name in runs or (name not in known and it.changed_at < old)]
    blobs = [blob for blob in held.blobs if blob.digest not in referred and blob.used_at < old]
    size = sum(held.outputs[name].size for name in outputs) + sum(blob.size for blob in blobs)
    return RetentionPlan(tuple(runs), tuple(outputs), tuple(blobs), size)


def _runs(held: StateInventory, bounds: RetentionLimits, now: float) -> dict[str, None]:
    """Those to remove, oldest first. A run that is being undone stays as long as that takes."""
    under_way = [run for run in held.runs if run.ended_at is None]
    pinned = {run.id for run in under_way} | {run.reverts for run in under_way}
    candidates = sorted((run for run in held.runs if run.id not in pinned), key=lambda run: run.number)
    limit = compute_cutoff(now, bounds.run_days)
    found = {run.id: None for run in candidates if run.ended_at is not None and run.ended_at < limit}

    own = {run.id: run.size + (held.outputs[run.id].size if run.id in held.outputs else 0) for run in held.runs}
    blobs = {blob.digest: blob.size for blob in held.blobs}
    referring = Counter(digest for run in held.runs if run.id not in found for digest in run.blobs)
    total = sum(blobs.get(digest, 0) for digest in referring)
    total += sum(size for run, size in own.items() if run not in found)
    for run in candidates:
        if total <= bounds.size:
            break
        if run.id in found or not (run.blobs or own[run.id]):
            continue
        found[run.id] = None
        referring.subtract(run.blobs)
        total -= own[run.id] + sum(blobs.get(digest, 0) for digest in run.blobs if not referring[digest])
    return found
