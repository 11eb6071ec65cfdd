"""Batches as runs: a thousand reads and a thousand creates against the same without us.

Reads and creates go over HTTP, so that parsing the message, storing the run and its events and answering are counted.
"""

from __future__ import annotations

import asyncio
import json
import logging
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

from benchmarks import peers, trees
from benchmarks.bench import Bench, agree
from benchmarks.providers import Unguarded
from benchmarks.table import Row, Target, compared
from benchmarks.timing import Contender, interleaved
from wap_kernel.dialects.agent_spaces.operations import DIALECT
from wap_kernel.dialects.registry import open_runner
from wap_kernel.engine.workspace import Workspace
from wap_kernel.files.contained.root import Root
from wap_kernel.model.caller import Caller
from wap_kernel.model.operations import ReadFile
from wap_kernel.model.policy import Policy
from wap_kernel.model.run import BatchOptions, Step
from wap_kernel.state.leases import Lease

READS = Target(15)
CREATES = Target(2)


def measure(bench: Bench) -> Iterator[Row]:
    yield from _reads(bench)
    yield from _creates(bench)


def _reads(bench: Bench) -> Iterator[Row]:
    number = bench.plan.batch
    folder = bench.server.root / "batch-read"
    folder.mkdir()
    text = trees.text_of_4k()
    paths = [folder / f"{index:04}.txt" for index in range(number)]
    for path in paths:
        path.write_text(text)
    names = [bench.server.path(path) for path in paths]
    body = _batch({"type": "readFile", "path": name} for name in names)

    def plain() -> list[bytes]:
        return [path.read_bytes() for path in paths]

    what = f"a batch of {number:,} readFile, 4 KB each"
    agree(what, [event["content"].encode() for event in _run(bench, body)["events"]], plain())
    with ExitStack() as stack:
        engine = stack.enter_context(Engine(bench.server.root, provider="local"))
        steps = [Step(name, "readFile", ReadFile(path=name)) for name in names]
        contenders: dict[str, Contender] = {
            "ours": partial(_send, bench, body),
            "engine": partial(engine.run, steps),
            peers.LOOP: plain,
        }
        times = interleaved(contenders, bench.plan.rounds_of_seconds)
    yield from compared(what, times, {peers.LOOP: READS})
    yield from compared(f"{what}, without HTTP", times, {peers.LOOP: None}, ours="engine")


def _creates(bench: Bench) -> Iterator[Row]:
    number = bench.plan.batch
    text = trees.text_of_4k()
    data = text.encode()
    numbers = count()
    with ExitStack() as stack:
        state = stack.enter_context(tempfile.TemporaryDirectory(prefix="wap-benchmark-state-"))
        lease = stack.enter_context(closing(Lease(state, "benchmark")))
        root = stack.enter_context(closing(Root(str(bench.server.root), guard=Unguarded(), journal=lease)))

        def plain() -> None:
            folder = f"batch-plain-{next(numbers)}"
            root.mkdir(folder)
            for index in range(number):
                root.replace(f"{folder}/{index:04}.txt", data, exclusive=True)

        def ours() -> None:
            folder = f"batch-create-{next(numbers)}"
            message = _batch(
                {"type": "createFile", "path": f"{folder}/{index:04}.txt", "content": text} for index in range(number)
            )
            agree("createFile", len(_run(bench, message)["events"]), number)

        times = interleaved({"ours": ours, peers.DURABLE_LOOP: plain}, max(1, bench.plan.rounds_of_seconds // 3))
    what = f"a batch of {number:,} createFile, 4 KB each, audited and undoable"
    yield from compared(what, times, {peers.DURABLE_LOOP: CREATES})


def _batch(operations: Iterator[dict[str, Any]]) -> bytes:
    return json.dumps({"protocolVersion": "1.0", "operations": list(operations)}).encode()


def _send(bench: Bench, body: bytes) -> bytes:
    """Return the answer unread, as the loop of the peer does not read its files either."""
    status, answer = bench.client.request("POST", "/wap/runs?wait=600", body)
    if status != 201 or b'"success":false' in answer:
        raise SystemExit(f"A batch answered {status}: {answer[:500]!r}")
    return answer


def _run(bench: Bench, body: bytes) -> Any:
    answer = _send(bench, body)
    message = json.loads(answer)
    if not all(event.get("success") for event in message["events"]):
        raise SystemExit(f"A batch failed: {answer[:500]!r}")
    return message


class Engine:
    """The engine in this process, on a state of its own."""

    def __init__(self, root: Path, **options: Any) -> None:
        self._state = tempfile.TemporaryDirectory(prefix="wap-benchmark-state-", ignore_cleanup_errors=True)
        self._loop = asyncio.new_event_loop()
        log = logging.getLogger(__name__)
        log.setLevel(logging.ERROR)  # that `local` confines nothing is no news
        policy = Policy(name="open")
        self._workspace = Workspace(str(root), policy=policy, state_dir=self._state.name, log=log, **options)
        self._runner = open_runner(self._workspace)

    def run(self, steps: Sequence[Step]) -> None:
        self._loop.run_until_complete(self._run(steps))

    async def _run(self, steps: Sequence[Step]) -> None:
        begun = await self._runner.start(steps, BatchOptions(), Caller(), dialect=DIALECT)
        ended = await self._runner.wait(begun.id, 600)
        agree("a run", ended.status.value, "completed")

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.run_until_complete(self._runner.close())
        self._loop.run_until_complete(self._workspace.close())
        self._loop.close()
        self._state.cleanup()
