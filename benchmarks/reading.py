"""readFile of 4 KB against the least that a request can cost, Jupyter's own way and MCP's."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from benchmarks import empty_handler, peers, trees
from benchmarks.bench import Bench, agree
from benchmarks.table import Row, Target, compared
from benchmarks.timing import Contender, interleaved


def measure(bench: Bench) -> Iterator[Row]:
    file = bench.server.root / "read.txt"
    file.write_text(trees.text_of_4k())
    path = bench.server.path(file)
    what = "readFile, 4 KB"
    agree(what, bench.client.answer("readFile", path=path)["content"], trees.text_of_4k())
    contenders: dict[str, Contender] = {
        "ours": partial(bench.client.tool, "readFile", path=path),
        peers.EMPTY: partial(bench.client.get, empty_handler.PATH),
        peers.CONTENTS: partial(bench.client.get, f"/api/contents/{path}"),
    }
    if bench.mcp is not None:
        contenders[peers.MCP] = partial(bench.mcp.call, "read_text_file", path=str(file))
    times = interleaved(contenders, bench.plan.rounds_of_milliseconds)
    yield from compared(what, times, {peers.EMPTY: Target(1.5), peers.CONTENTS: Target(0.6), peers.MCP: None})
