"""Output while a command runs: in order, all of it for a reader that keeps up, bounded for one that does not."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Iterator
from pathlib import Path

import pytest

from tests.support.provider_workspace import LONG, Scene, alive
from wap_kernel.engine.thread_pool import ThreadPool
from wap_kernel.model.command import CancelToken, Command, CommandOutcome, OnChunk
from wap_kernel.model.errors import ExecutionFailed
from wap_kernel.providers.process.stream import MAX_BUFFERED_BYTES, Chunk, stream_output


@pytest.fixture
def threads() -> Iterator[ThreadPool]:
    threads = ThreadPool("test", 2)
    yield threads
    threads.close()


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    scene = Scene("local", tmp_path)
    yield scene
    scene.close()


def command(text: str | tuple[str, ...], **environment: str) -> Command:
    return Command(text, timeout=LONG, output_limit=1 << 20, environment=environment)


def follow_it(
    scene: Scene, threads: ThreadPool, given: Command, limit: int = MAX_BUFFERED_BYTES
) -> AsyncGenerator[Chunk | CommandOutcome, None]:
    def run(on_chunk: OnChunk, cancel: CancelToken) -> Awaitable[CommandOutcome]:
        return threads.run(lambda: scene.provider.run(given, on_chunk=on_chunk, cancel=cancel))

    return stream_output(run, limit=limit)


def wait_for(file: Path) -> None:
    deadline = time.monotonic() + LONG
    while not file.exists() and time.monotonic() < deadline:
        time.sleep(0.01)


async def collect(chunks: AsyncIterator[Chunk | CommandOutcome]) -> tuple[list[Chunk], CommandOutcome]:
    found = [item async for item in chunks]
    assert isinstance(found[-1], CommandOutcome)
    return [item for item in found if isinstance(item, Chunk)], found[-1]


def test_chunks_come_while_it_runs(scene: Scene, threads: ThreadPool) -> None:
    text = "printf one; until [ -e go ]; do sleep 0.01; done; printf two >&2; exit 3"

    async def follow() -> list[object]:
        seen: list[object] = []
        async for item in follow_it(scene, threads, command(text)):
            seen.append(item)
            (scene.folder / "go").touch()
        return seen

    first, second, outcome = asyncio.run(follow())
    assert (first, second) == (Chunk("stdout", b"one"), Chunk("stderr", b"two"))
    assert isinstance(outcome, CommandOutcome)
    assert (outcome.stdout, outcome.stderr, outcome.exit_code) == ("one", "two", 3)


def test_the_chunks_are_the_whole_output(scene: Scene, threads: ThreadPool) -> None:
    chunks, outcome = asyncio.run(collect(follow_it(scene, threads, command("seq 100000"))))
    assert b"".join(chunk.data for chunk in chunks) == b"".join(b"%d\n" % i for i in range(1, 100_001))
    assert sum(chunk.left_out for chunk in chunks) == 0
    assert outcome.stdout_bytes == sum(len(chunk.data) for chunk in chunks)


def test_a_reader_that_does_not_keep_up_misses_bytes_and_is_told_how_many(scene: Scene, threads: ThreadPool) -> None:
    async def follow() -> tuple[list[Chunk], CommandOutcome]:
        chunks = follow_it(scene, threads, command("seq 100000; touch done"), limit=100_000)
        first = await anext(chunks)
        await threads.run(lambda: wait_for(scene.folder / "done"))  # the command is not held up
        rest, outcome = await collect(chunks)
        assert isinstance(first, Chunk)
        return [first, *rest], outcome

    chunks, outcome = asyncio.run(follow())
    assert sum(chunk.left_out for chunk in chunks) > 0
    assert sum(chunk.left_out + len(chunk.data) for chunk in chunks) == outcome.stdout_bytes
    assert outcome.exit_code == 0


def test_leaving_early_ends_the_command(scene: Scene, threads: ThreadPool) -> None:
    async def leave() -> None:
        chunks = follow_it(scene, threads, command("echo; sleep 1000", CASE_MARK="leaving early"))
        async for _ in chunks:
            break
        await chunks.aclose()

    asyncio.run(leave())
    assert alive("CASE_MARK=leaving early") == []


def test_a_command_that_cannot_be_started(scene: Scene, threads: ThreadPool) -> None:
    with pytest.raises(ExecutionFailed):
        asyncio.run(collect(follow_it(scene, threads, command(("/no/such/program",)))))
