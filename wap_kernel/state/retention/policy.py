"""Decide what of the state is too old, or too much, and is to be removed. Pure; `sweeper.py` removes it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from wap_kernel.model.text import format_epoch

DAY = 86400.0


@dataclass(frozen=True)
class RetentionLimits:
    """Ages and sizes up to which the state is kept."""

    run_days: float = 30
    """Days that a run is kept after its end, with its events, output and before-images."""
    size: int = 1024**3
    """Bytes that all runs may take, with their events, output and before-images; the oldest runs go first."""
    audit_days: float = 365
    audit_size: int = 512 * 1024**2
    """Bytes of audit records, over a million of them, so that an agent can neither fill the disk nor soon push out the
    old records."""
    audit_rest: float = 0.9
    """The part of `audit_size` that stays when the audit is cut: each cut leaves a record, and these shall be few."""
    token_days: float = 90
    """Days that a token is kept after it expired or was revoked."""
    grace: float = 2 * 3600
    """Seconds that a file is kept to which nothing refers: a call may be about to refer to it."""


@dataclass(frozen=True)
class StoredRun:
    """A run in the store."""

    number: int
    id: str
    ended_at: str | None
    """The time of the run's end, None while it runs or waits for an approval."""
    reverts: str | None
    size: int = 0
    """Bytes of the run's rows; 0 while the whole database is small enough."""


@dataclass(frozen=True)
class StorageUsage:
    """Size of a folder, and when it last changed."""

    size: int
    changed_at: float


@dataclass(frozen=True)
class ImageUsage:
    """A stored before-image."""

    name: str
    run: str | None
    """The run that displaced it; None: no change refers to it."""
    size: int
    changed_at: float


@dataclass(frozen=True)
class StateInventory:
    """Everything in the state that retention may remove."""

    runs: Sequence[StoredRun]
    outputs: Mapping[str, StorageUsage]
    """Folders of outputs by the id of their run."""
    images: Sequence[ImageUsage]


@dataclass(frozen=True)
class RetentionPlan:
    """The parts of the state to remove."""

    runs: tuple[str, ...]
    outputs: tuple[str, ...]
    """Outputs of `runs`, and of runs that an interrupted sweep has removed."""
    images: tuple[ImageUsage, ...]
    size: int
    """Bytes that the removal frees."""


def compute_cutoff(now: float, days: float) -> str:
    """Return the time `days` before `now`, as the state stores times; earlier ones are too old."""
    return format_epoch(now - days * DAY)


def plan_sweep(inventory: StateInventory, limits: RetentionLimits, now: float) -> RetentionPlan:
    """Return what `limits` remove from the state at the time `now`."""
    runs = _choose_runs(inventory, limits, now)
    known = {run.id for run in inventory.runs}
    old = now - limits.grace
    outputs = [
        name
        for name, usage in inventory.outputs.items()
        if name in runs or (name not in known and usage.changed_at < old)
    ]
    images = [
        image for image in inventory.images if image.run in runs or (image.run is None and image.changed_at < old)
    ]
    size = sum(inventory.outputs[name].size for name in outputs) + sum(image.size for image in images)
    return RetentionPlan(tuple(runs), tuple(outputs), tuple(images), size)


def _choose_runs(inventory: StateInventory, limits: RetentionLimits, now: float) -> dict[str, None]:
    """Return the runs to remove, oldest first. A run stays while a revert of it runs."""
    active = [run for run in inventory.runs if run.ended_at is None]
    pinned = {run.id for run in active} | {run.reverts for run in active}
    candidates = sorted((run for run in inventory.runs if run.id not in pinned), key=lambda run: run.number)
    limit = compute_cutoff(now, limits.run_days)
    found = {run.id: None for run in candidates if run.ended_at is not None and run.ended_at < limit}

    sizes = {run.id: run.size for run in inventory.runs}
    for name, usage in inventory.outputs.items():
        if name in sizes:
            sizes[name] += usage.size
    for image in inventory.images:
        if image.run in sizes:
            sizes[image.run] += image.size
    total = sum(size for run, size in sizes.items() if run not in found)
    for run in candidates:
        if total <= limits.size:
            break
        if run.id not in found and sizes[run.id]:
            found[run.id] = None
            total -= sizes[run.id]
    return found
