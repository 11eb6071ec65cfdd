"""executeCommand against the same shell started with nothing around it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from benchmarks import peers
from benchmarks.bench import Bench, agree
from benchmarks.table import Row, compared
from benchmarks.timing import interleaved


def measure(bench: Bench) -> Iterator[Row]:
    what = "executeCommand, true"
    agree(what, bench.client.answer("executeCommand", command="true")["exitCode"], 0)
    times = interleaved(
        {"ours": partial(bench.client.tool, "executeCommand", command="true"), peers.BASH: peers.bash_true},
        max(1, bench.plan.rounds_of_milliseconds // 2),
    )
    yield from compared(what, times, {peers.BASH: None})
