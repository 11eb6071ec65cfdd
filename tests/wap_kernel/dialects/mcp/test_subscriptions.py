"""Clients are notified of a change of the file or of a folder above it, and after every command."""

from __future__ import annotations

import asyncio

import pytest
from mcp.server.subscriptions import ResourceUpdated, ServerEvent

from wap_kernel.dialects.mcp import subscriptions
from wap_kernel.dialects.mcp.subscriptions import ResourceChanges
from wap_kernel.model.operations import DeleteFile, MoveFile, Operation, RunCommand, WriteFile


@pytest.fixture(autouse=True)
def _without_delay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subscriptions, "COLLECT_SECONDS", 0)


LAST = "file:///last"


def _heard(*operations: Operation, watched: dict[str, str]) -> set[str]:
    async def hear() -> set[str]:
        notified: set[str] = set()
        made, last = ResourceChanges(), asyncio.Event()

        def listen(event: ServerEvent) -> None:
            assert isinstance(event, ResourceUpdated)
            notified.add(event.uri)
            if event.uri == LAST:
                last.set()

        made.bus.subscribe(listen)
        with made.watch({**watched, LAST: "last"}.items()):
            for operation in (*operations, WriteFile(path="last", content=b"")):
                made.announce(operation)
                await asyncio.sleep(0)
            await asyncio.wait_for(last.wait(), 60)
            await asyncio.sleep(0)  # what is told together may come after it
        assert not made._watched
        made.close()
        return notified - {LAST}

    return asyncio.run(hear())


FILES = {"file:///a": "a", "file:///b/c/d": "b/c/d"}


@pytest.mark.parametrize(
    ("operation", "notified"),
    [
        (WriteFile(path="a", content=b""), {"file:///a"}),
        (WriteFile(path="aa", content=b""), set()),
        (WriteFile(path="b/c", content=b""), {"file:///b/c/d"}),
        (DeleteFile(path="b", recursive=True), {"file:///b/c/d"}),
        (MoveFile(source="b/c/d", destination="a"), {"file:///a", "file:///b/c/d"}),
        (RunCommand(command="make"), set(FILES)),
    ],
)
def test_who_hears_of_it(operation: Operation, notified: set[str]) -> None:
    assert _heard(operation, watched=FILES) == notified


def test_where_nobody_listens_nothing_is_kept() -> None:
    assert _heard(WriteFile(path="a", content=b""), watched={}) == set()


def test_it_may_be_told_from_another_thread() -> None:
    async def tell() -> str:
        made, notified = ResourceChanges(), asyncio.Event()
        made.bus.subscribe(lambda _: notified.set())
        with made.watch(FILES.items()):
            await asyncio.get_running_loop().run_in_executor(None, made.announce, WriteFile(path="a", content=b""))
            await asyncio.wait_for(notified.wait(), 60)
        return "told"

    assert asyncio.run(tell()) == "told"
