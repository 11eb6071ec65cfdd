"""GET /api/status with no load, and while 8 clients search, list and run `yes`; and what that does to memory.

The clients live in a process of their own, so that they do not slow down the one that measures more than any other
process would. The server is a new one: its memory before is that of a server that has done nothing yet.
"""

from __future__ import annotations

import json
import multiprocessing
import re
import threading
import time
from collections.abc import Iterator
from multiprocessing.synchronize import Event
from pathlib import Path

from benchmarks import peers, server, trees
from benchmarks.bench import Bench
from benchmarks.http import Client
from benchmarks.server import Server
from benchmarks.table import Figure, Row, Target
from benchmarks.timing import milliseconds, quantile

CLIENTS = ("search", "search", "search", "list", "list", "yes", "yes", "yes")
PAUSE = 0.002
"""Between two requests of the client that measures."""


def measure(bench: Bench) -> Iterator[Row]:
    tree = trees.sources(bench.server.root, bench.plan.load_tree)
    idle: list[float] = []
    loaded: list[float] = []
    with server.running(bench.server.root) as fresh, fresh.client() as client:
        idle += _status_times(client, bench.plan.load_seconds)
        before = resident(fresh.pid, "VmRSS")
        forget_peak(fresh.pid)
        done = 0
        for phase in range(bench.plan.load_phases):
            if phase:
                idle += _status_times(client, bench.plan.load_seconds)
            times, requests = _under_load(fresh, tree, client, bench.plan.load_seconds)
            loaded += times
            done += requests
        peak = resident(fresh.pid, "VmHWM")
    what = f"under load, {bench.plan.load_tree:,} files, {done} requests"
    yield Row(
        f"p99 of GET /api/status {what}",
        _p99(loaded),
        peers.IDLE,
        _p99(idle),
        Target(ratio=4, absolute=20),
    )
    yield Row(
        "growth of peak resident memory meanwhile",
        Figure(peak - before, unit="MB"),
        target=Target(absolute=100),
    )


def _under_load(loaded: Server, tree: Path, client: Client, seconds: float) -> tuple[list[float], int]:
    """Return the times while the clients work, and the number of answers that the clients got."""
    context = multiprocessing.get_context("spawn")
    begun, stop = context.Event(), context.Event()
    answers = context.SimpleQueue()
    process = context.Process(target=_clients, args=(loaded, loaded.path(tree), begun, stop, answers))
    process.start()
    try:
        begun.wait(timeout=60)
        times = _status_times(client, seconds)
    finally:
        stop.set()
        process.join()
    if process.exitcode:
        raise SystemExit("A client of the load failed; see above.")
    return times, answers.get()


def _clients(loaded: Server, tree: str, begun: Event, stop: Event, answers: multiprocessing.SimpleQueue[int]) -> None:
    """Run one client, in the other process."""
    numbers = [0] * len(CLIENTS)
    requests = {
        "search": ("searchFiles", {"paths": [tree], "query": trees.NEEDLE_REGEX, "type": "regex"}, 200),
        "list": ("exploreFiles", {"path": tree, "recursive": True, "maxDepth": 100}, 200),
        "yes": ("executeCommand", {"command": "yes", "timeout": 1000}, 422),  # TIMEOUT with the partial output
    }

    def work(index: int) -> None:
        tool, parameters, expected = requests[CLIENTS[index]]
        body = json.dumps(parameters).encode()
        with loaded.client() as client:
            while not stop.is_set():
                status, answer = client.request("POST", f"/wap/api/{tool}", body)
                if status != expected:
                    raise RuntimeError(f"{tool} answered {status}: {answer[:500]!r}")
                numbers[index] += 1

    threads = [threading.Thread(target=work, args=(index,)) for index in range(len(CLIENTS))]
    for thread in threads:
        thread.start()
    while not all(numbers) and any(thread.is_alive() for thread in threads):  # everybody is in full swing
        time.sleep(0.01)
    begun.set()
    for thread in threads:
        thread.join()
    answers.put(sum(numbers))
    if not all(numbers):
        raise SystemExit(1)


def _status_times(client: Client, seconds: float) -> list[float]:
    times = []
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        times.append(milliseconds(lambda: client.get("/api/status")))
        time.sleep(PAUSE)
    return times


def _p99(times: list[float]) -> Figure:
    return Figure(quantile(times, 0.99), quantile(times, 0.1), quantile(times, 0.9))


def resident(pid: int, field: str) -> float:
    """Megabytes: VmRSS is now, VmHWM the most since the start or the last reset."""
    found = re.search(rf"^{field}:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    if found is None:
        raise SystemExit(f"/proc/{pid}/status has no {field}.")
    return int(found[1]) / 1024


def forget_peak(pid: int) -> None:
    Path(f"/proc/{pid}/clear_refs").write_text("5")
