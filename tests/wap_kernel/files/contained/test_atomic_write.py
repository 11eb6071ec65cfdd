"""The write protocol: old or new at any stop, nothing left behind, a full disk loses nothing."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.support.budgets import choose_budget
from wap_kernel.files.contained import atomic_write
from wap_kernel.files.contained.root import Root
from wap_kernel.model.errors import Code
from wap_kernel.policy.paths.protected import ProtectedPaths
from wap_kernel.state.directory import open_state_dir, workspace_id
from wap_kernel.state.leases import Lease

OPEN = ProtectedPaths(frozenset(), frozenset())


class Killed(BaseException):
    """Stands for the death of the process: nothing of ours may catch it."""


@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("fatal", atomic_write.STEPS)
def test_a_write_that_dies_at_a_step_leaves_old_or_new(
    tmp_path: Path, make_tools: Callable[..., Any], fatal: str, exclusive: bool
) -> None:
    ws = tmp_path / "ws"
    ws.mkdir()
    name = "new" if exclusive else "f"
    (ws / "f").write_bytes(b"old")
    state = open_state_dir(str(tmp_path / "state"))
    lease = Lease(state, workspace_id(str(ws)))

    def die(step: str) -> None:
        if step == fatal:
            raise Killed

    root = Root(str(ws), guard=OPEN, journal=lease, step=die)
    with pytest.raises(Killed):
        root.replace(name, b"new", exclusive=exclusive)
    renamed = atomic_write.STEPS.index(fatal) >= atomic_write.STEPS.index("renamed")
    expected = b"new" if renamed else (None if exclusive else b"old")
    assert ((ws / name).read_bytes() if (ws / name).exists() else None) == expected

    os.close(lease._lock)  # what the kernel does at the death of the process
    make_tools(ws)  # the next start
    assert sorted(os.listdir(ws)) == sorted({"f", name} if renamed else {"f"})
    leases = os.listdir(f"{state}/leases/{workspace_id(str(ws))}")
    assert len([entry for entry in leases if not entry.startswith(".")]) == 1


def test_a_living_neighbours_temporary_file_is_not_touched(tmp_path: Path, make_tools: Callable[..., Any]) -> None:
    ws = tmp_path / "ws"
    ws.mkdir()
    lease = Lease(open_state_dir(str(tmp_path / "state")), workspace_id(str(ws)))
    name = f"{atomic_write.TEMPORARY_PREFIX}0{atomic_write.TEMPORARY_SUFFIX}"
    (ws / name).write_text("under way")
    lease.note(name, name)
    make_tools(ws)
    assert (ws / name).exists()
    lease.close()


def test_a_journal_cannot_be_used_to_delete_other_files(tmp_path: Path, make_tools: Callable[..., Any]) -> None:
    ws = tmp_path / "ws"
    ws.mkdir()
    (ws / "precious").write_text("x")
    lease = Lease(open_state_dir(str(tmp_path / "state")), workspace_id(str(ws)))
    lease.note("precious", "precious")
    lease.note(f"{atomic_write.TEMPORARY_PREFIX}1{atomic_write.TEMPORARY_SUFFIX}", "precious")
    os.close(lease._lock)
    make_tools(ws)
    assert (ws / "precious").exists()


def test_what_cannot_be_removed_does_not_keep_the_workspace_from_opening(
    tmp_path: Path, make_tools: Callable[..., Any]
) -> None:
    ws = tmp_path / "ws"
    ws.mkdir()
    name = f"{atomic_write.TEMPORARY_PREFIX}2{atomic_write.TEMPORARY_SUFFIX}"
    (ws / name).mkdir()
    lease = Lease(open_state_dir(str(tmp_path / "state")), workspace_id(str(ws)))
    lease.note(name, name)
    os.close(lease._lock)
    assert make_tools(ws).exploreFiles(path=".")["totalFound"] >= 0


def test_two_roots_in_one_state_folder_keep_their_own_leases(tmp_path: Path, make_tools: Callable[..., Any]) -> None:
    one = tmp_path / "one"
    one.mkdir()
    name = f"{atomic_write.TEMPORARY_PREFIX}3{atomic_write.TEMPORARY_SUFFIX}"
    (one / name).write_text("left by a crash")
    lease = Lease(open_state_dir(str(tmp_path / "state")), workspace_id(str(one)))
    lease.note(name, name)
    os.close(lease._lock)
    make_tools(tmp_path / "other", state=tmp_path / "state")
    assert (one / name).exists()
    make_tools(one, state=tmp_path / "state")
    assert not (one / name).exists()


WRITER = """
    import asyncio, itertools, sys
    from wap_kernel.engine.workspace import Workspace
    from wap_kernel.model.edits import ReplaceLines
    from wap_kernel.model.operations import ModifyFile, WriteFile

    async def main(root, state):
        workspace = Workspace(root, state_dir=state)
        print("ready", flush=True)
        for number in itertools.count():
            text = str(number % 10) * 9999
            await workspace.perform(WriteFile(path=f"w{number % 3}", content=(text + "\\n").encode() * 10))
            change = ReplaceLines(start_line=1, end_line=10, new_content="\\n".join([text] * 10))
            await workspace.perform(ModifyFile(path="m", edits=(change,)))

    asyncio.run(main(*sys.argv[1:]))
"""


@pytest.mark.soak
def test_sigkill_at_random_moments_leaves_every_file_old_or_new(tmp_path: Path, make_tools: Callable[..., Any]) -> None:
    ws, state = tmp_path / "ws", tmp_path / "state"
    ws.mkdir()
    (ws / "m").write_bytes(b"x\n" * 10)
    moments = random.Random(20)
    for _ in range(choose_budget(suite=6, soak=200)):
        writer = subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(WRITER), str(ws), str(state)], stdout=subprocess.PIPE
        )
        assert writer.stdout is not None
        assert writer.stdout.readline() == b"ready\n"
        with pytest.raises(subprocess.TimeoutExpired):
            writer.wait(moments.uniform(0.0, 0.1))  # the moment of death, not a wait for something to happen
        writer.send_signal(signal.SIGKILL)
        writer.wait()
        writer.stdout.close()
        for path in ws.iterdir():
            if not atomic_write.is_temporary(path.name):
                lines = set(path.read_bytes().splitlines())
                assert len(lines) == 1, f"{path.name} is torn"
                assert path.read_bytes().count(b"\n") == 10
    make_tools(ws, state=state)
    assert not [name for name in os.listdir(ws) if atomic_write.is_temporary(name)]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 512 KiB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=512k,mode=0777", "tmpfs", str(disk)]
    try:
        subprocess.run(command, check=True, capture_output=True)
    except (subprocess.CalledProcessError, FileNotFoundError):
        pytest.skip("mounting a tmpfs needs root")
    yield disk
    subprocess.run(["umount", "-l", str(disk)], check=True)


BIG = "x" * 600 * 1024


@pytest.mark.parametrize(
    ("tool", "parameters"),
    [
        ("writeFile", {"path": "f", "content": BIG}),
        ("writeFile", {"path": "new", "content": BIG}),
        ("writeFile", {"path": "new", "content": BIG, "mode": "create"}),
        ("writeFile", {"path": "f", "content": BIG, "mode": "append"}),
        ("writeFile", {"path": "new", "content": BIG, "mode": "append"}),
        ("modifyFile", {"path": "f", "operations": [{"type": "insert", "afterLine": 0, "newContent": BIG}]}),
        ("copyFile", {"source": "half", "destination": "new"}),
    ],
)
def test_a_full_disk_loses_nothing(
    small_disk: Path, make_tools: Callable[..., Any], tool: str, parameters: dict[str, Any]
) -> None:
    tools = make_tools(small_disk)
    (small_disk / "f").write_text("old\n")
    (small_disk / "half").write_bytes(b"h" * 300 * 1024)
    error = tools.refuse(tool, **parameters)
    assert error.code is Code.NO_SPACE
    assert (small_disk / "f").read_text() == "old\n"
    assert sorted(os.listdir(small_disk)) == ["f", "half"]


def test_when_the_audit_has_no_space_nothing_is_changed(
    small_disk: Path, tmp_path: Path, make_tools: Callable[..., Any]
) -> None:
    tools = make_tools(tmp_path / "ws", state=small_disk / "state")
    filler = os.open(small_disk / "filler", os.O_WRONLY | os.O_CREAT)
    with suppress(OSError):
        while os.write(filler, b"x" * 512):
            pass
    os.close(filler)
    error = tools.refuse("writeFile", path="f", content="x")
    assert error.code is Code.NO_SPACE
    assert os.listdir(tools.root) == []
    (small_disk / "filler").unlink()
    assert tools.writeFile(path="f", content="x")["success"]
