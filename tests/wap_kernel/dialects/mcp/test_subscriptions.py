"""Clients are notified of a change of the file or of a folder above it, and after every command."""

from __future__ import annotations

import asyncio

import pytest

from wap_kernel.dialects.mcp import subscriptions
from wap_kernel.dialects.mcp.subscriptions import ResourceChanges
from wap_kernel.model.operations import DeleteFile, MoveFile, Operation, RunCommand, WriteFile


@pytest.fixture(autouse=True)
def _without_delay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subscriptions, "COLLECT_SECONDS", 0)


LAST = "file:///last"
FILES = {"file:///a": "a", "file:///b/c/d": "b/c/d"}


def _collect(*operations: Operation, watched: dict[str, str]) -> list[str]:
    async def collect() -> list[str]:
        changes = ResourceChanges()
        notified: list[str] = []
        with changes.listen({**watched, LAST: "last"}) as listener:
            for operation in (*operations, WriteFile(path="last", content=b"")):
                changes.announce(operation)
            async for uri in listener:
                notified.append(uri)
                if uri == LAST:
                    changes.close()  # the listener yields what is left, and ends
        return sorted({*notified} - {LAST})

    return asyncio.run(asyncio.wait_for(collect(), 60))


@pytest.mark.parametrize(
    ("operation", "notified"),
    [
        (WriteFile(path="a", content=b""), ["file:///a"]),
        (WriteFile(path="aa", content=b""), []),
        (WriteFile(path="b/c", content=b""), ["file:///b/c/d"]),
        (DeleteFile(path="b", recursive=True), ["file:///b/c/d"]),
        (MoveFile(source="b/c/d", destination="a"), ["file:///a", "file:///b/c/d"]),
        (RunCommand(command="make"), ["file:///a", "file:///b/c/d"]),
    ],
)
def test_subscribers_of_changed_files_are_notified(operation: Operation, notified: list[str]) -> None:
    assert _collect(operation, watched=FILES) == notified


def test_nothing_is_stored_without_a_listener() -> None:
    async def announce() -> None:
        changes = ResourceChanges()
        changes.announce(WriteFile(path="a", content=b""))
        await asyncio.sleep(0)
        assert not changes._changed and changes._publisher is None

    asyncio.run(announce())


def test_a_change_may_come_from_another_thread() -> None:
    async def wait() -> str:
        changes = ResourceChanges()
        with changes.listen(FILES) as listener:
            write = WriteFile(path="a", content=b"")
            await asyncio.get_running_loop().run_in_executor(None, changes.announce, write)
            async for uri in listener:
                return uri
        raise AssertionError("the listener ended")

    assert asyncio.run(asyncio.wait_for(wait(), 60)) == "file:///a"
