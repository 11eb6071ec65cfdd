"""exploreFiles: a big tree against the programs that list one, and one folder against Jupyter and MCP."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from benchmarks import peers, shapes, trees
from benchmarks.bench import Bench, agree
from benchmarks.table import Row, Target, compared
from benchmarks.timing import Contender, interleaved


def measure_tree(bench: Bench) -> Iterator[Row]:
    files = bench.plan.explore_tree
    yield from _explore(bench, trees.names(bench.server.root, files), f"{files:,} files", 1.0)


def measure_shapes(bench: Bench) -> Iterator[Row]:
    files = bench.plan.shape_tree
    for shape, where in {"flat": "flat", "deep": "deep", "many matches": "50 in a folder"}.items():
        tree = shapes.create_tree(bench.server.root, shape, files)
        yield from _explore(bench, tree, f"{files:,} files, {where}", 1.2)


def _explore(bench: Bench, tree: Path, where: str, target: float) -> Iterator[Row]:
    parameters = {"path": bench.server.path(tree), "recursive": True, "maxDepth": 100}
    what = f"exploreFiles, recursive, no metadata, {where}"
    found = bench.client.answer("exploreFiles", **parameters)["totalFound"]
    agree(what, found, len(peers.find(tree).splitlines()) - 1)  # find also names the start
    contenders: dict[str, Contender] = {
        "ours": partial(bench.client.tool, "exploreFiles", **parameters),
        peers.RG_FILES: partial(peers.rg_files, tree),
        peers.FIND: partial(peers.find, tree),
    }
    if peers.has("fdfind"):
        agree(what, found, len(peers.fd(tree).splitlines()))
        contenders[peers.FD] = partial(peers.fd, tree)
    times = interleaved(contenders, bench.plan.rounds_of_seconds)
    yield from compared(what, times, {peers.RG_FILES: Target(target), peers.FD: None, peers.FIND: None})


def measure_folder(bench: Bench) -> Iterator[Row]:
    files = bench.plan.folder
    folder = trees.folder(bench.server.root, files)
    path = bench.server.path(folder)
    what = f"exploreFiles, one folder of {files}, metadata"
    contenders: dict[str, Contender] = {
        "ours": partial(bench.client.tool, "exploreFiles", path=path, returnMetadata=True),
        peers.CONTENTS: partial(bench.client.get, f"/api/contents/{path}"),
    }
    if bench.mcp is not None:
        contenders[peers.MCP] = partial(bench.mcp.call, "list_directory_with_sizes", path=str(folder))
    times = interleaved(contenders, max(1, bench.plan.rounds_of_milliseconds // 4))
    yield from compared(what, times, {peers.CONTENTS: Target(0.1), peers.MCP: None})
