"""searchFiles: 100 matches with context and the exact total, against `rg --count`."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from benchmarks import peers, shapes, trees
from benchmarks.bench import Bench, agree
from benchmarks.table import Row, Target, compared
from benchmarks.timing import interleaved

SMALL = 100
"""Up to so many files a literal is to be found faster than by rg."""


def measure(bench: Bench) -> Iterator[Row]:
    for files in bench.plan.search_trees:
        tree = trees.sources(bench.server.root, files)
        yield from _search(bench, tree, f"{files:,} files", trees.NEEDLE, is_small=files <= SMALL)
        if files > SMALL:
            yield from _search(bench, tree, f"{files:,} files", trees.NEEDLE_REGEX, is_regex=True)


def measure_shapes(bench: Bench) -> Iterator[Row]:
    files = bench.plan.shape_tree
    for shape in shapes.SHAPES:
        tree = shapes.create_tree(bench.server.root, shape, files)
        where = f"{files:,} files, {shape}"
        yield from _search(bench, tree, where, trees.NEEDLE)
        yield from _search(bench, tree, where, trees.NEEDLE_REGEX, is_regex=True)
        yield from _search(bench, tree, f"{where}, a rare word", shapes.RARE)


def _search(
    bench: Bench, tree: Path, where: str, query: str, *, is_regex: bool = False, is_small: bool = False
) -> Iterator[Row]:
    kind = "regex" if is_regex else "literal"
    parameters = {"paths": [bench.server.path(tree)], "query": query, "type": kind}
    what = f"searchFiles, {kind}, {where}"
    answer = bench.client.answer("searchFiles", **parameters)
    counted = peers.rg_count(query, tree, literal=not is_regex).splitlines()
    total = sum(int(line.rpartition(b":")[2]) for line in counted)
    agree(what, answer["totalMatches"], total)
    agree(what, answer["matches"] != [] and len(answer["matches"]) <= 100, True)
    times = interleaved(
        {
            "ours": partial(bench.client.tool, "searchFiles", **parameters),
            peers.RG_COUNT: partial(peers.rg_count, query, tree, literal=not is_regex),
        },
        bench.plan.rounds_of_milliseconds if is_small else bench.plan.rounds_of_seconds,
    )
    yield from compared(what, times, {peers.RG_COUNT: Target(1.0 if is_small else 1.25)})
