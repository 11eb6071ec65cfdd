"""Commands that fill the disk: each is ended, and nothing of it is applied."""

from __future__ import annotations

import os
import threading
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.support.run_workspace import PERSON, Scene, play
from tests.support.time_limits import wait_until
from wap_kernel.engine import layered_commands
from wap_kernel.engine.watch import disk_watch
from wap_kernel.engine.watch.disk_watch import DiskWatch, watch_disk
from wap_kernel.model.command import CancelToken
from wap_kernel.policy import presets

MEBIBYTE = 1024 * 1024
LONG = 60.0
WITHOUT_END = {
    "one large file": "cat /dev/zero > large",
    "many small files": "mkdir d; i=0; while :; do i=$((i+1)); : > d/$i; done",
    "many folders": "mkdir $(seq 5000); sleep 1000",
}


@pytest.fixture(autouse=True)
def _often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk_watch, "PERIOD_SECONDS", 0.01)
    monkeypatch.setattr(disk_watch, "MEASURE_SECONDS", 0.01)


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Scene:
    monkeypatch.setattr(layered_commands, "watch_disk", partial(watch_disk, max_bytes=8 * MEBIBYTE, max_files=200))
    (tmp_path / "root").mkdir()
    options: dict[str, Any] = {"provider": "bubblewrap", "policy": presets.load_preset("standard")}
    return Scene(tmp_path / "root", tmp_path / "state", **options)


@pytest.mark.parametrize("command", WITHOUT_END.values(), ids=WITHOUT_END.keys())
def test_a_command_that_fills_its_layer_is_ended_and_nothing_is_applied(scene: Scene, command: str) -> None:
    async def scenario(scene: Scene) -> None:
        (event,) = (await scene.run({"type": "shell", "command": f"echo first > kept; {command}"}))["events"]
        assert (event["code"], event["success"]) == ("NO_SPACE", False), event
        assert "Nothing that it changed was applied." in event["error"]

    play(scene, scenario)
    assert (scene.tree(), list((scene.state / "layers").iterdir())) == ({}, [])


def test_of_an_atomic_run_nothing_stays_either(scene: Scene) -> None:
    async def scenario(scene: Scene) -> None:
        fill = {"type": "shell", "command": WITHOUT_END["one large file"]}
        made = {"type": "createFile", "path": "made", "content": "x"}
        message = await scene.run(made, fill, atomic=True)
        assert (message["status"], message["events"][1]["code"]) == ("error", "NO_SPACE")

    play(scene, scenario)
    assert (scene.tree(), list((scene.state / "layers").iterdir())) == ({}, [])


def test_a_command_within_the_limits_is_left_alone(scene: Scene) -> None:
    async def scenario(scene: Scene) -> None:
        command = "head -c 4000000 /dev/zero > large; mkdir d; for i in $(seq 100); do : > d/$i; done; sleep 0.2"
        message = await scene.run({"type": "shell", "command": command})
        assert message["events"][0]["exitCode"] == 0
        assert (await scene.runner.changes(message["runId"], PERSON))["changes"]

    play(scene, scenario)
    assert (scene.root / "large").stat().st_size == 4_000_000


# -- the watch itself


def count_threads() -> int:
    return sum(thread.name == "wap-disk-watch" for thread in threading.enumerate())


def test_the_request_of_the_caller_is_passed_on(tmp_path: Path) -> None:
    cancel = CancelToken()
    with watch_disk(str(tmp_path), cancel) as watch:
        cancel.request()
        assert watch.cancel.requested and not watch.has_overflowed
    wait_until(lambda: not count_threads())


def test_a_layer_is_measured_though_others_free_space_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that the free space falls no further than before."""
    free = disk_watch._free(os.statvfs(tmp_path))
    monkeypatch.setattr(disk_watch, "_free", lambda _: free)
    (tmp_path / "large").write_bytes(bytes(2 * MEBIBYTE))
    with watch_disk(str(tmp_path), CancelToken(), max_bytes=MEBIBYTE) as watch:
        wait_until(lambda: watch.has_overflowed)
        assert watch.cancel.requested


def test_a_fill_that_cannot_be_found_ends_when_little_space_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as a file that is removed and still open."""
    spaces = iter([(100 * MEBIBYTE, 1000), (26 * MEBIBYTE, 1000), (24 * MEBIBYTE, 1000)])
    monkeypatch.setattr(disk_watch, "_free", lambda _: next(spaces))
    with watch_disk(str(tmp_path), CancelToken()) as watch:
        wait_until(lambda: watch.has_overflowed)
    assert next(spaces, None) is None


def test_a_command_may_fill_half_of_the_free_space_at_most(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk_watch, "_free", lambda _: (4 * MEBIBYTE, 1000))
    watch = DiskWatch(str(tmp_path), 100 * MEBIBYTE, 100)
    (tmp_path / "large").write_bytes(bytes(3 * MEBIBYTE))
    assert watch._is_over()


def test_a_sparse_file_counts_by_its_blocks(tmp_path: Path) -> None:
    with (tmp_path / "sparse").open("wb") as file:
        file.truncate(1024 * MEBIBYTE)
    assert not DiskWatch(str(tmp_path), MEBIBYTE, 100)._is_over()
