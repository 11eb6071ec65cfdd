"""searchFiles: 100 matches with context and the exact total, against `rg --count`."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from benchmarks import peers, trees
from benchmarks.bench import Bench, agree
from benchmarks.table import Row, Target, compared
from benchmarks.timing import interleaved

SMALL = 100
"""Up to so many files a literal is to be found faster than by rg."""


def measure(bench: Bench) -> Iterator[Row]:
    for files in bench.plan.search_trees:
        tree = trees.sources(bench.server.root, files)
        yield from _search(bench, tree, files, trees.NEEDLE, literal=True)
        if files > SMALL:
            yield from _search(bench, tree, files, trees.NEEDLE_REGEX, literal=False)


def _search(bench: Bench, tree: Path, files: int, query: str, *, literal: bool) -> Iterator[Row]:
    kind = "literal" if literal else "regex"
    parameters = {"paths": [bench.server.path(tree)], "query": query, "type": kind}
    what = f"searchFiles, {kind}, {files:,} files"
    answer = bench.client.answer("searchFiles", **parameters)
    counted = peers.rg_count(query, tree, literal=literal).splitlines()
    agree(what, answer["totalMatches"], sum(int(line.rpartition(b":")[2]) for line in counted))
    agree(what, len(answer["matches"]), 100)
    times = interleaved(
        {
            "ours": partial(bench.client.tool, "searchFiles", **parameters),
            peers.RG_COUNT: partial(peers.rg_count, query, tree, literal=literal),
        },
        bench.plan.rounds_of_seconds if files > SMALL else bench.plan.rounds_of_milliseconds,
    )
    yield from compared(what, times, {peers.RG_COUNT: Target(1.0 if files <= SMALL else 1.25)})
