"""The engine in this process: refusals, shutdown, and the cost of its import."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.support.server_processes import OPEN_LINES, Place
from wap_kernel.client.embedded_backend import EmbeddedBackend
from wap_kernel.client.workspace_client import WorkspaceClient
from wap_kernel.model.errors import ProviderUnavailable, WapError


def test_where_nothing_confines_commands_none_are_run(place: Place, tmp_path: Path) -> None:
    backend = EmbeddedBackend(str(tmp_path), confined_only=True)
    client = WorkspaceClient(backend)
    try:
        with pytest.raises(ProviderUnavailable, match="Nothing confines") as refused:
            backend.call("executeCommand", {"command": "touch made"})
        assert "wap doctor" in refused.value.text
        assert "Nothing confines" in client.sh("touch made").problems[0]["error"]
        asked = client.sh("rm -rf x", approve=True)  # nor if a person agrees
        assert not asked.ok
        assert not (tmp_path / "made").exists()
        assert client.write("a.txt", "x").ok
    finally:
        backend.close()


def test_unless_the_configuration_allows_it(place: Place, tmp_path: Path) -> None:
    file = place.folder / "config" / "jupyter_server_config.py"
    file.write_text(OPEN_LINES + "c.WapExtension.allow_unconfined = True\n")
    try:
        backend = EmbeddedBackend(str(tmp_path), confined_only=True)
    finally:
        file.write_text(OPEN_LINES)
    try:
        assert WorkspaceClient(backend).sh("echo hi").stdout == "hi\n"
    finally:
        backend.close()


def test_a_folder_that_is_not_there(place: Place, tmp_path: Path) -> None:
    with pytest.raises(WapError, match="No such file"):
        EmbeddedBackend(str(tmp_path / "missing"))


def _left(before: set[threading.Thread]) -> list[str]:
    """The threads of ours that do not end."""
    ours = [thread for thread in set(threading.enumerate()) - before if thread.name.startswith("wap")]
    for thread in ours:
        thread.join(60)
    return [thread.name for thread in ours if thread.is_alive()]


def test_what_is_closed_says_so_and_leaves_no_thread(place: Place, tmp_path: Path) -> None:
    before = set(threading.enumerate())
    backend = EmbeddedBackend(str(tmp_path))
    client = WorkspaceClient(backend)
    running = client.sh("sleep 1000", wait=False)
    following = backend.follow(running.run_id)
    next(following)
    backend.close()
    backend.close()
    following.close()
    with pytest.raises(ProviderUnavailable, match="closed"):
        client.ls()
    assert _left(before) == []
    again = EmbeddedBackend(str(tmp_path))
    assert again.get(running.run_id)["status"] == "error"
    del again, backend, client, following
    gc.collect()
    assert _left(before) == []


ENDING = """
import sys, threading, time
from wap_kernel import connect
ws = connect(sys.argv[1])
run = ws.sh("sleep 1000", wait=False)
print(run.run_id, flush=True)
if sys.argv[2] == "following":
    seen = threading.Event()
    def follow():
        for _ in ws._backend.follow(run.run_id):
            seen.set()
    following = threading.Thread(target=follow, daemon=True)
    following.start()
    assert seen.wait(30)
    while sys._current_frames()[following.ident].f_code.co_name != "wait":  # for what comes next
        time.sleep(0.001)
if sys.argv[2] == "raising":
    raise SystemExit(3)
"""


@pytest.mark.parametrize("way", ["plain", "following", "raising"])
def test_the_interpreter_ends_and_with_it_what_runs(place: Place, tmp_path: Path, way: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", ENDING, str(tmp_path), way],
        env=place.environment,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert ended.stderr == ""
    assert ended.returncode == (3 if way == "raising" else 0)
    backend = EmbeddedBackend(str(tmp_path))
    try:
        run = backend.get(ended.stdout.strip())
        assert run["status"] == "error"
        assert "shut down" in run["events"][-1]["message"]  # not: was killed
    finally:
        backend.close()


def test_many_threads_at_once(place: Place, tmp_path: Path) -> None:
    backend = EmbeddedBackend(str(tmp_path))
    (tmp_path / "a.txt").write_text("x")
    wrong: list[object] = []

    def work() -> None:
        for _ in range(10):
            if backend.call("readFile", {"path": "a.txt"})["content"] != "x":
                wrong.append(1)

    try:
        threads = [threading.Thread(target=work) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        backend.close()
    assert wrong == []


LIGHT = """
import sys
import wap_kernel, wap_kernel.client.workspace_client, wap_kernel.client.discovery, wap_kernel.client.embedded_backend
heavy = {"pydantic", "yaml", "http.client", "ssl", "jupyter_core", "jupyter_server", "asyncio", "sqlite3"}
print(sorted(heavy & set(sys.modules)))
"""


def test_what_is_not_used_is_not_imported() -> None:
    shown = subprocess.run([sys.executable, "-c", LIGHT], capture_output=True, text=True, timeout=60, check=True)
    assert shown.stdout == "[]\n"
