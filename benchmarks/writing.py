"""writeFile of 4 KB and modifyFile of one line in it, against MCP and against the disk."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import count
from pathlib import Path

from benchmarks import peers, trees
from benchmarks.bench import Bench, agree
from benchmarks.table import Row, compared
from benchmarks.timing import Contender, interleaved

EDITED_LINE = 10


def measure(bench: Bench) -> Iterator[Row]:
    yield from _write(bench)
    yield from _edit(bench)


def _write(bench: Bench) -> Iterator[Row]:
    root = bench.server.root
    numbers = count()
    text = trees.text_of_4k()

    def content() -> str:
        """Another one each time, so that nobody gets away with comparing."""
        return f"{next(numbers):08}{text[8:]}"

    def durable() -> None:
        temporary, target = root / "durable.tmp", root / "durable.txt"
        with temporary.open("w") as file:
            file.write(content())
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(target)
        folder = os.open(root, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    contenders: dict[str, Contender] = {
        "ours": lambda: bench.client.tool("writeFile", path="write.txt", content=content()),
        peers.DURABLE: durable,
    }
    if (mcp := bench.mcp) is not None:
        contenders[peers.MCP] = lambda: mcp.call("write_file", path=str(root / "write-mcp.txt"), content=content())
    times = interleaved(contenders, bench.plan.rounds_of_milliseconds)
    yield from compared("writeFile, 4 KB, durable", times, {peers.MCP: None, peers.DURABLE: None})


def _edit(bench: Bench) -> Iterator[Row]:
    root = bench.server.root
    ours, theirs = root / "edit.txt", root / "edit-mcp.txt"
    for file in (ours, theirs):
        file.write_text(trees.text_of_4k())
    numbers = count()

    def edit() -> None:
        change = {
            "type": "replace",
            "startLine": EDITED_LINE,
            "endLine": EDITED_LINE,
            "newContent": _line(next(numbers)),
        }
        bench.client.tool("modifyFile", path=bench.server.path(ours), operations=[change])

    contenders: dict[str, Contender] = {"ours": edit}
    if (mcp := bench.mcp) is not None:
        line = _line_of(theirs)
        mcp_numbers = count()

        def edit_by_mcp() -> None:
            nonlocal line
            old, line = line, _line(next(mcp_numbers))
            mcp.call("edit_file", path=str(theirs), edits=[{"oldText": old, "newText": line}])

        contenders[peers.MCP] = edit_by_mcp
    times = interleaved(contenders, bench.plan.rounds_of_milliseconds)
    agree("modifyFile", _line_of(ours), _line(next(numbers) - 1))
    if bench.mcp is not None:
        agree("edit_file", ours.read_bytes(), theirs.read_bytes())
    yield from compared("modifyFile, one line of 4 KB, durable", times, {peers.MCP: None})


def _line(number: int) -> str:
    return f"edited {number:08}"


def _line_of(file: Path) -> str:
    return file.read_text().splitlines()[EDITED_LINE - 1]
