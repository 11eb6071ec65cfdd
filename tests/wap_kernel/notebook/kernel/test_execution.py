"""Interrupts of a cell of the `wap` kernel at every point."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from wap_kernel.client.workspace_client import WorkspaceClient, connect
from wap_kernel.notebook.kernel import execution as module
from wap_kernel.notebook.kernel.connection import Connection
from wap_kernel.notebook.kernel.execution import CellExecution, CellInterrupted
from wap_kernel.notebook.kernel.parameters import Parameters
from wap_kernel.notebook.language import batch_cell

BATCH = "- {type: createFile, path: made.txt, content: x}\n"


@pytest.fixture
def client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[WorkspaceClient]:
    (tmp_path / "ws").mkdir()
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("JUPYTER_CONFIG_DIR", str(tmp_path / "config"))
    found = connect(str(tmp_path / "ws"))
    yield found
    found.close()


class Known(Connection):
    def __init__(self, client: WorkspaceClient) -> None:
        super().__init__()
        self._known = client

    def client(self) -> WorkspaceClient:
        return self._known


class Gate:
    """Work that goes on when it is let."""

    def __init__(self, work: Any) -> None:
        self._work = work
        self.is_reached, self.may_go = threading.Event(), threading.Event()

    def __call__(self, *arguments: Any) -> Any:
        self.is_reached.set()
        assert self.may_go.wait(60)
        return self._work(*arguments)

    def open(self) -> None:
        """And see what comes of it."""
        self.may_go.set()
        for thread in threading.enumerate():
            if thread.name in ("wap-cell", "wap-start", "wap-stop"):
                thread.join(60)


async def _interrupted(client: WorkspaceClient, code: str, gate: Gate, times: int) -> tuple[str, list[str]]:
    """What the person is told, and what was shown."""
    shown: list[str] = []
    execution = CellExecution(
        Known(client), lambda _, content: shown.append(content["data"]["text/plain"]), 1, Parameters()
    )
    cell = asyncio.ensure_future(execution.run(code))
    await asyncio.get_running_loop().run_in_executor(None, gate.is_reached.wait, 60)
    for _ in range(times):
        execution.interrupt()
        while not (execution._is_ending or cell.done()):  # noqa: ASYNC110 - nobody else asks for such an event
            await asyncio.sleep(0)
    with pytest.raises(CellInterrupted) as caught:
        await cell
    return str(caught.value), shown


def test_one_that_strikes_while_a_batch_is_read(
    client: WorkspaceClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Gate(batch_cell.parse_batch)
    monkeypatch.setattr(batch_cell, "parse_batch", gate)
    assert asyncio.run(_interrupted(client, BATCH, gate, 1)) == ("", [])
    gate.open()
    assert not (tmp_path / "ws" / "made.txt").exists()
    assert client.runs().data["runs"] == []


@pytest.mark.parametrize("times", [1, 2])
def test_one_that_strikes_while_a_run_begins(
    client: WorkspaceClient, monkeypatch: pytest.MonkeyPatch, times: int
) -> None:
    """For longer than anybody waits, or to a person who does not wait at all."""
    gate = Gate(client._backend.start)
    monkeypatch.setattr(client._backend, "start", gate)
    monkeypatch.setattr(module, "STOP_SECONDS", 60.0 if times == 2 else 0.0)
    told, shown = asyncio.run(_interrupted(client, "sh -t 600 sleep 1000", gate, times))
    assert told == "The run may still be going on: runs -s running"
    assert not any("cancelled" in text for text in shown)
    gate.open()
    assert [run["status"] for run in client.runs().data["runs"]] == ["cancelled"]


def test_one_that_strikes_what_only_looks_is_not_waited_for(
    client: WorkspaceClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Gate(client._backend.call)
    monkeypatch.setattr(client._backend, "call", gate)
    assert asyncio.run(_interrupted(client, "ls", gate, 1)) == ("", [])
    gate.open()
