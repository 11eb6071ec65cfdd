"""An interrupt of a cell of the `wap` kernel, wherever it strikes."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from wap_kernel.client.workspace_client import Hands, connect
from wap_kernel.notebook.kernel import execution as module
from wap_kernel.notebook.kernel.connection import Connection
from wap_kernel.notebook.kernel.execution import Execution, Interrupted
from wap_kernel.notebook.language import batch_cell

BATCH = "- {type: createFile, path: made.txt, content: x}\n"


@pytest.fixture
def hands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hands]:
    (tmp_path / "ws").mkdir()
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("JUPYTER_CONFIG_DIR", str(tmp_path / "config"))
    found = connect(str(tmp_path / "ws"))
    yield found
    found.close()


class Known(Connection):
    def __init__(self, hands: Hands) -> None:
        super().__init__()
        self._known = hands

    def hands(self) -> Hands:
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


async def _interrupted(hands: Hands, code: str, gate: Gate, times: int) -> tuple[str, list[str]]:
    """What the person is told, and what was shown."""
    shown: list[str] = []
    execution = Execution(Known(hands), lambda kind, content: shown.append(content["data"]["text/plain"]), 1)
    cell = asyncio.ensure_future(execution.run(code))
    await asyncio.get_running_loop().run_in_executor(None, gate.is_reached.wait, 60)
    for _ in range(times):
        execution.interrupt()
        while not (execution._is_ending or cell.done()):  # noqa: ASYNC110 - nobody else asks for such an event
            await asyncio.sleep(0)
    with pytest.raises(Interrupted) as caught:
        await cell
    return str(caught.value), shown


def test_one_that_strikes_while_a_batch_is_read(hands: Hands, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gate = Gate(batch_cell.message)
    monkeypatch.setattr(batch_cell, "message", gate)
    assert asyncio.run(_interrupted(hands, BATCH, gate, 1)) == ("", [])
    gate.open()
    assert not (tmp_path / "ws" / "made.txt").exists()
    assert hands.runs().data["runs"] == []


@pytest.mark.parametrize("times", [1, 2])
def test_one_that_strikes_while_a_run_begins(hands: Hands, monkeypatch: pytest.MonkeyPatch, times: int) -> None:
    """For longer than anybody waits, or to a person who does not wait at all."""
    gate = Gate(hands._backend.start)
    monkeypatch.setattr(hands._backend, "start", gate)
    monkeypatch.setattr(module, "STOP_SECONDS", 60.0 if times == 2 else 0.0)
    told, shown = asyncio.run(_interrupted(hands, "sh -t 600 sleep 1000", gate, times))
    assert told == "It may still run: runs -s running"
    assert not any("cancelled" in text for text in shown)
    gate.open()
    assert [run["status"] for run in hands.runs().data["runs"]] == ["cancelled"]


def test_one_that_strikes_what_only_looks_is_not_waited_for(hands: Hands, monkeypatch: pytest.MonkeyPatch) -> None:
    gate = Gate(hands._backend.call)
    monkeypatch.setattr(hands._backend, "call", gate)
    assert asyncio.run(_interrupted(hands, "ls", gate, 1)) == ("", [])
    gate.open()
