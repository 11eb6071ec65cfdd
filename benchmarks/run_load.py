"""64 clients, each of which starts batch after batch and follows every one on its stream.

A batch has 20 operations. Each client compares the events that its stream brought with those that the run has in the
end; an error or a lost event ends the measurement. The server is a new one, the clients are a process of their own.
"""

from __future__ import annotations

import multiprocessing
import secrets
import threading
import time
from collections.abc import Iterator
from functools import partial
from multiprocessing.synchronize import Event
from typing import Any

from benchmarks import server, trees
from benchmarks.bench import Bench
from benchmarks.load import forget_peak, resident
from benchmarks.server import Server
from benchmarks.table import Figure, Row, Target
from benchmarks.timing import milliseconds
from wap_kernel.client.server_backend import ServerBackend

GROWTH = Target(absolute=150)


def measure(bench: Bench) -> Iterator[Row]:
    clients, seconds = bench.plan.run_clients, bench.plan.run_seconds
    with server.running(bench.server.root) as fresh:
        ServerBackend(fresh.url, fresh.token).start(_batch("warm-up", 0), "warm-up")
        before = resident(fresh.pid, "VmRSS")
        forget_peak(fresh.pid)
        times = _under_load(fresh, clients, seconds)
        peak = resident(fresh.pid, "VmHWM")
    what = f"{clients} clients, batches of 20 operations, followed to the end, {len(times) / seconds:.0f} a second"
    yield Row(what, Figure.of(times))
    yield Row(
        f"growth of peak resident memory meanwhile, {len(times):,} batches",
        Figure(peak - before, unit="MB"),
        target=GROWTH,
    )


def _under_load(loaded: Server, clients: int, seconds: float) -> list[float]:
    context = multiprocessing.get_context("spawn")
    stop = context.Event()
    answers = context.SimpleQueue()
    process = context.Process(target=_clients, args=(loaded, clients, stop, answers))
    process.start()
    try:
        time.sleep(seconds)
    finally:
        stop.set()
    times: list[float] | str = answers.get()
    process.join()
    if isinstance(times, str):
        raise SystemExit(times)
    return times


def _clients(
    loaded: Server, clients: int, stop: Event, answers: multiprocessing.SimpleQueue[list[float] | str]
) -> None:
    """Run one client, in the other process."""
    times: list[float] = []
    failures: list[str] = []

    def work(index: int) -> None:
        client = ServerBackend(loaded.url, loaded.token)
        number = 0
        while not failures and (number == 0 or not stop.is_set()):  # at least one each, also on a slow machine
            try:
                times.append(milliseconds(partial(_followed, client, _batch(f"client-{index}", number))))
            except Exception as error:  # noqa: BLE001 - whatever it is, it is the result
                failures.append(f"client {index}: {type(error).__name__}: {error}")
            number += 1

    threads = [threading.Thread(target=work, args=(index,)) for index in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    answers.put(failures[0] if failures else times)


def _followed(client: ServerBackend, message: dict[str, Any]) -> None:
    run_id = client.start(message, secrets.token_hex(16))["runId"]
    sent = [one.data for one in client.follow(run_id) if one.name == "event"]
    ended = client.get(run_id)
    if ended["status"] != "completed" or not all(event["success"] for event in ended["events"]):
        raise RuntimeError(f"{run_id} ended as {ended['status']}")
    if sent != ended["events"] or len(sent) != len(message["operations"]):
        raise RuntimeError(f"{run_id}: the stream brought {len(sent)} events of {len(ended['events'])}")


def _batch(folder: str, number: int) -> dict[str, Any]:
    """20 operations, most of them reads, as agents work."""
    path = f"runs/{folder}/{number % 4}.txt"
    text = trees.text_of_4k()
    edit = {"oldContent": "line 0003", "newContent": f"LINE {number:04}"}
    return {
        "protocolVersion": "1.0",
        "operations": [
            {"type": "message", "content": "begin"},
            {"type": "createFile", "path": path, "content": text, "overwrite": True},
            {"type": "editFile", "path": path, "edits": [edit]},
            *({"type": "readFile", "path": path} for _ in range(16)),
            {"type": "deleteFile", "path": path},
        ],
    }
