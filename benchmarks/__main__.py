"""One command that measures everything against the peers in one run and prints a table (`make bench`).

The times are medians of interleaved repetitions, with the 10th and 90th percentile. Missing a target is no failure
of the program: it says which are missed and ends with 0.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import signal
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from benchmarks import (
    commands,
    layers,
    listing,
    load,
    mcp,
    notebook,
    peers,
    providers,
    reading,
    run_load,
    runs,
    searching,
    server,
    starting,
    writing,
)
from benchmarks.bench import Bench, Group
from benchmarks.plan import FULL, QUICK, Plan
from benchmarks.table import Row, render

GROUPS: Mapping[str, Group] = MappingProxyType(
    {
        "search": searching.measure,
        "search-shapes": searching.measure_shapes,
        "explore": listing.measure_tree,
        "explore-shapes": listing.measure_shapes,
        "list": listing.measure_folder,
        "read": reading.measure,
        "write": writing.measure,
        "command": commands.measure,
        "providers": providers.measure,
        "runs": runs.measure,
        "layers": layers.measure,
        "load": load.measure,
        "run-load": run_load.measure,
        "start": starting.measure,
        "notebook": notebook.measure,
        "mcp": mcp.measure,
    }
)


def main() -> int:
    options = _options()
    # So that an end from outside also removes the trees and ends the servers.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    machine = _machine()
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="wap-benchmark-", ignore_cleanup_errors=True) as folder:
        for row in _measured(Path(folder).resolve(), options.only or list(GROUPS), options.plan):
            rows.append(row)
    if options.json:
        print(json.dumps({"machine": machine, "quick": options.plan is QUICK, "rows": [row.data() for row in rows]}))
    else:
        print(_report(rows, machine, options.plan))
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--quick",
        dest="plan",
        action="store_const",
        const=QUICK,
        default=FULL,
        help="small trees and few repetitions: shows that it works, judges nothing",
    )
    parser.add_argument(
        "--only", metavar="NAME", action="append", choices=list(GROUPS), help=f"one of {', '.join(GROUPS)}; repeatable"
    )
    parser.add_argument("--json", action="store_true", help="data instead of a table")
    return parser.parse_args()


def _measured(root: Path, names: Sequence[str], plan: Plan) -> Iterator[Row]:
    with ExitStack() as stack:
        running = stack.enter_context(server.running(root))
        client = stack.enter_context(running.client())
        peer = stack.enter_context(peers.McpFilesystem(root)) if peers.McpFilesystem.is_installed() else None
        bench = Bench(plan, running, client, peer)
        for name in names:
            print(f"measuring: {name}", file=sys.stderr)
            for row in GROUPS[name](bench):
                yield row if plan is FULL else replace(row, target=None)


def _machine() -> dict[str, Any]:
    return {
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "cpus": os.cpu_count(),
        "python": platform.python_version(),
        "loadAverage": os.getloadavg()[0],
        "peers": peers.versions(),
    }


def _report(rows: Sequence[Row], machine: Mapping[str, Any], plan: Plan) -> str:
    used = [name for name in peers.CALLS if any(row.peer == name for row in rows)]
    parts = [
        f"{machine['system']}, {machine['cpus']} CPUs, load average {machine['loadAverage']:.2f} at the start, "
        f"Python {machine['python']}\n" + "\n".join(machine["peers"].values()),
        render(rows),
        "How the peers are called, all with warm caches:\n"
        + "\n".join(f"  {name}: {peers.CALLS[name]}" for name in used),
    ]
    if machine["loadAverage"] > machine["cpus"] / 4:
        parts.append(
            "The machine was busy with something else, which our searches and commands feel more: they run niced."
        )
    missed = [row for row in rows if row.verdict == "MISSED"]
    if plan is QUICK:
        parts.append("A quick run is too small to judge the targets.")
    elif missed:
        lines = [f"  {row.what}{f' against {row.peer}' if row.peer else ''}" for row in missed]
        parts.append("Targets missed:\n" + "\n".join(lines))
    else:
        parts.append("No target is missed.")
    return "\n\n".join(parts)


if __name__ == "__main__":
    sys.exit(main())
