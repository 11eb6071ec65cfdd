"""Single calls while a command is under way: what they change is theirs, and undoing the command leaves it alone."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.undo_workspace import Undoable, paths
from tests.wap_kernel.state.undo.test_change_recorder import CASES, undo
from wap_kernel.model.command import Deadline
from wap_kernel.model.errors import ProviderUnavailable
from wap_kernel.model.operations import Operation, RunCommand, WriteFile
from wap_kernel.state import schema
from wap_kernel.state.retention.sweeper import Sweeper
from wap_kernel.state.undo import manifest
from wap_kernel.state.undo.concurrent_calls import ConcurrentCalls

__all__ = ["undo"]
SECONDS = 30
WRITE = WriteFile(path="new", content=b"theirs")


@contextmanager
def command(undo: Undoable, deadline: Deadline | None = None) -> Iterator[None]:
    nothing, deadline = RunCommand(command=":"), deadline or Deadline(10)
    snapshots = undo.snapshots
    with snapshots.announce(nothing, deadline), snapshots.around(nothing, "run", 0, deadline, undo.notices.append):
        yield


def recorded(undo: Undoable) -> list[str]:
    query = "SELECT path FROM changes WHERE run = '' ORDER BY id"
    return [path for (path,) in undo.database.write(lambda connection: connection.execute(query).fetchall())]


@pytest.fixture
def neighbour(undo: Undoable, tmp_path: Path) -> Iterator[Undoable]:
    """Another process on the same folder."""
    with closing(Undoable(undo.folder, tmp_path / "state")) as other:
        yield other


@pytest.mark.parametrize("operation", [operation for operation, _ in CASES], ids=lambda operation: repr(operation)[:60])
def test_what_a_call_changes_meanwhile_is_not_the_commands(
    undo: Undoable, neighbour: Undoable, operation: Operation
) -> None:
    with command(undo):
        (undo.folder / "own").write_text("ours")
        neighbour.call(operation)
        left = undo.tree()
    assert paths(undo.describe("run")) == {"own": "created"}
    undo.revert("run", "undoing")
    del left["own"]
    assert undo.tree() == left


def test_what_the_command_changes_after_the_call_is_the_commands(undo: Undoable) -> None:
    with command(undo):
        undo.call(WRITE)
        (undo.folder / "new").write_text("ours")
    assert paths(undo.describe("run")) == {"new": "created"}


def test_a_call_while_a_command_is_prepared(undo: Undoable, monkeypatch: pytest.MonkeyPatch) -> None:
    keep_all = undo.snapshots._keep_all

    def slowly(*arguments: Any) -> Any:
        undo.call(WRITE)
        return keep_all(*arguments)

    monkeypatch.setattr(undo.snapshots, "_keep_all", slowly)
    with command(undo):
        pass
    assert paths(undo.describe("run")) == {}


def test_a_command_waits_for_the_calls_that_began_before_it(
    undo: Undoable, neighbour: Undoable, monkeypatch: pytest.MonkeyPatch
) -> None:
    take, is_taken = manifest.take_manifest, threading.Event()

    def taking(*arguments: Any, **options: Any) -> Any:
        is_taken.set()
        return take(*arguments, **options)

    def run() -> None:
        with command(undo):
            pass

    monkeypatch.setattr(manifest, "take_manifest", taking)
    thread = threading.Thread(target=run)
    with neighbour.snapshots.around_call(WRITE, Deadline(10)):
        thread.start()
        deadline = time.monotonic() + 60
        while not ConcurrentCalls(undo.state).is_command_under_way():
            assert time.monotonic() < deadline
            time.sleep(0.01)
        neighbour.call(WriteFile(path="later", content=b"theirs"))  # which does not wait for it, nor it for this
        neighbour._perform(WRITE)
        assert not is_taken.is_set()
    thread.join(SECONDS)
    assert is_taken.is_set()
    assert paths(undo.describe("run")) == {}
    assert recorded(undo) == ["later"]


def test_a_command_that_is_cancelled_does_not_wait(undo: Undoable) -> None:
    with (
        undo.snapshots.around_call(WRITE, Deadline(10)),
        pytest.raises(ProviderUnavailable),
        command(undo, Deadline(10, lambda: True)),
    ):
        pass
    assert not ConcurrentCalls(undo.state).is_command_under_way()


def test_a_call_that_its_process_did_not_survive_is_not_the_commands_either(undo: Undoable) -> None:
    undo.interrupted("", WRITE, is_done=False)
    with command(undo):
        (undo.folder / "new").write_text("theirs")
    assert paths(undo.describe("run")) == {}


def test_what_another_atomic_run_is_taking_back_is_not_the_commands(
    undo: Undoable, neighbour: Undoable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command ends when the files are back already, and before that is recorded."""
    undo.write("other", "made", b"theirs")
    undo.write("other", "f", b"theirs")
    running = command(undo)
    running.__enter__()
    add = neighbour.snapshots.changes.add

    def late(*arguments: Any) -> None:
        running.__exit__(None, None, None)
        add(*arguments)

    monkeypatch.setattr(neighbour.snapshots.changes, "add", late)
    neighbour.take_back("other")
    assert paths(undo.describe("run")) == {}
    assert not (undo.folder / "made").exists()


def test_without_a_command_nothing_is_recorded(undo: Undoable) -> None:
    undo.call(WRITE)
    with command(undo):
        pass
    undo.call(WriteFile(path="f", content=b"theirs"))
    assert recorded(undo) == []


def test_the_records_go_when_no_command_needs_them(undo: Undoable) -> None:
    with closing(schema.connect(undo.state)) as connection:
        sweeper = Sweeper(undo.state, connection)
        with command(undo):
            undo.call(WRITE)
            sweeper.sweep()
            assert recorded(undo) == ["new"]
        assert paths(undo.describe("run")) == {}
        sweeper.sweep()
        assert recorded(undo) == []


def test_what_is_being_recorded_is_not_forgotten(undo: Undoable) -> None:
    """Not even when the command beside it is over: another one may begin before the call is."""
    beside = ConcurrentCalls(undo.state)
    with command(undo):
        call = undo.snapshots.around_call(WRITE, Deadline(10))
        call.__enter__()
    assert not beside.is_command_under_way()
    with beside.unless_a_command() as may_forget:
        assert not may_forget
    call.__exit__(None, None, None)
    with beside.unless_a_command() as may_forget:
        assert may_forget


def test_no_descriptor_is_left_when_there_are_no_more(undo: Undoable, monkeypatch: pytest.MonkeyPatch) -> None:
    beside = ConcurrentCalls(undo.state)
    before = len(os.listdir("/proc/self/fd"))
    with monkeypatch.context() as patched:
        patched.setattr(ConcurrentCalls, "is_command_under_way", lambda _: os.open("/nothing/there", os.O_RDONLY))
        for _ in range(3):
            with pytest.raises(FileNotFoundError):
                beside.hold_off()
    assert len(os.listdir("/proc/self/fd")) == before
