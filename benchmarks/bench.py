"""What every group of measurements is given."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from benchmarks.http import Client
from benchmarks.peers import McpFilesystem
from benchmarks.plan import Plan
from benchmarks.server import Server
from benchmarks.table import Row


@dataclass(frozen=True)
class Bench:
    """Everything that a benchmark uses: the plan, the server, clients and peers."""

    plan: Plan
    server: Server
    client: Client
    mcp: McpFilesystem | None
    """None when it is not installed."""


Group = Callable[[Bench], Iterator[Row]]


def agree(what: str, ours: object, theirs: object) -> None:
    """Raise when an answer is wrong: its measurement would be worth nothing."""
    if ours != theirs:
        raise SystemExit(f"{what}: we answer {ours}, the peer says {theirs}")
