"""Records that the run store takes and returns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from wap_kernel.model.caller import Caller
from wap_kernel.model.run import BatchOptions, RunStatus, Step


@dataclass(frozen=True)
class NewRun:
    """A run that is to be stored."""

    id: str
    caller: Caller
    dialect: str
    options: BatchOptions
    steps: tuple[Step, ...]
    owner: str | None
    status: RunStatus = RunStatus.RUNNING
    key: str | None = None
    """Idempotency key of the request: a repeated request returns this run."""
    digest: str | None = None
    """Digest of the request, which tells another request under the same key."""
    reverts: str | None = None
    """Id of the run that this run reverts."""


@dataclass(frozen=True)
class LogEntry:
    """An entry of a run's log."""

    id: int
    run: str
    kind: str
    body: dict[str, Any]


class Progress(NamedTuple):
    """The status and the position of a run."""

    status: RunStatus
    position: int
    """Position of the next operation, from 0."""


def sender_key(caller: Caller) -> str:
    """Return the key under which the store files a caller's runs and idempotency keys: its agent token.

    All people share one: behind a shared server token each request has a user name of its own.
    """
    return caller.token or ""
