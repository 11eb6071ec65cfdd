"""Several servers and a `wap run` on one folder: they share its runs, and nobody touches a living neighbour's."""

from __future__ import annotations

import itertools
import json
import random
import signal
import sqlite3
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from http.client import HTTPException
from pathlib import Path
from typing import Any

import pytest

from tests.support.budgets import choose_budget
from tests.support.person_saves import Person, SavingAgent, Tasks, find_numbers, shell, write_change
from tests.support.server_processes import LiveServer, Place, batch, decide, get, start

LONG = "echo begun; touch begun; while [ ! -s go ]; do sleep 0.05; done; echo done"
"""On a layer a command sees what is written into a file that was there, and no new name."""
TIMEOUT = 120_000


@pytest.fixture(params=["local", "bubblewrap"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    place = Place(tmp_path, request.param)
    (place.root / "go").touch()
    return place


def _go_on(place: Place) -> None:
    (place.root / "go").write_text("now")


def _until(condition: Callable[[], Any]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)  # a file, or a run in another process


def _ended(server: LiveServer, run_id: str) -> dict[str, Any]:
    _until(lambda: get(server, run_id)["status"] != "running")
    return get(server, run_id)


def test_no_run_of_a_living_process_is_touched(place: Place) -> None:
    with place.server() as first:
        run_id = start(first, {"type": "shell", "command": LONG, "timeout": TIMEOUT})["runId"]
        _until(lambda: place.has_written("begun"))

        with place.server() as second:  # it dies with a run of its own, and leaves the other one alone
            assert get(second, run_id)["status"] == "running"
            lost = start(second, {"id": "x", "type": "shell", "command": "sleep 1000", "timeout": TIMEOUT})["runId"]
            second.process.send_signal(signal.SIGKILL)
            second.process.wait()
        beside = place.wap("run", "-")
        told, complaints = beside.communicate(batch({"type": "createFile", "path": "made", "content": "x"}), 60)
        assert beside.returncode == 0, told + complaints
        assert (place.root / "made").read_text() == "x"
        with place.server() as third:
            message = get(third, lost)
            assert message["status"] == "error"
            assert message["events"][-1]["details"]["operationId"] == "x"
            assert get(third, run_id)["status"] == "running"
            _go_on(place)
            message = _ended(third, run_id)
        assert message["status"] == "completed"
        assert message["events"][-1]["stdout"] == "begun\ndone\n"


def test_three_processes_at_once_and_one_is_killed(place: Place) -> None:
    """Two servers and a `wap run`, each with a command under way: the runs of the living go on to their end."""

    def waits(name: str) -> dict[str, Any]:
        command = f"touch begun-{name}; while [ ! -s go ]; do sleep 0.05; done; echo {name}"
        return {"id": name, "type": "shell", "command": command, "timeout": TIMEOUT}

    with place.server() as first, place.server() as second:
        beside = place.wap("run", "-", "--json")
        assert beside.stdin is not None
        beside.stdin.write(batch(waits("line")))
        beside.stdin.close()
        beside.stdin = None
        living, dying = start(first, waits("first"))["runId"], start(second, waits("second"))["runId"]
        for name in ("line", "first", "second"):
            _until(lambda name=name: place.has_written(f"begun-{name}"))
        running = first.request("GET", "wap/runs?status=running")[1]["runs"]
        (of_line,) = {run["runId"] for run in running} - {living, dying}
        second.process.send_signal(signal.SIGKILL)
        second.process.wait()
        lost = _ended(first, dying)
        assert (lost["status"], lost["events"][-1]["details"]["operationId"]) == ("error", "second")
        assert [get(first, run_id)["status"] for run_id in (living, of_line)] == ["running", "running"]
        _go_on(place)
        told, complaints = beside.communicate(timeout=60)
        assert beside.returncode == 0, told + complaints
        for run_id, name in ((living, "first"), (of_line, "line")):
            message = _ended(first, run_id)
            assert (message["status"], message["events"][-1]["stdout"]) == ("completed", f"{name}\n")
        assert get(first, dying) == lost


SINGLE = {
    "api/executeCommand": {"command": "rm -rf data; sleep 1000"},
    "workspace/bash": {"command": "rm -rf data; sleep 1000"},
}
"""Calls of two dialects that ask, and whose command does not end by itself."""


def test_a_single_call_whose_server_is_killed_is_answered_by_whoever_is_left(tmp_path: Path) -> None:
    """In its own form: also by a `wap run`, which knows nothing of such calls itself."""
    place = Place(tmp_path)
    asked = {}
    with place.server() as server:
        for route, body in SINGLE.items():
            (place.root / "data").mkdir()
            status, refusal = server.request("POST", f"wap/{route}", json.dumps(body))
            assert (status, refusal["code"]) == (403, "APPROVAL_REQUIRED"), refusal
            asked[route] = refusal["details"]["runId"]
            message = get(server, asked[route])
            assert decide(server, message, "approved", wait=0)["status"] == "running"
            _until(lambda: not (place.root / "data").exists())
        server.process.send_signal(signal.SIGKILL)
        server.process.wait()
    beside = place.wap("run", "-")
    told, complaints = beside.communicate(batch({"type": "createFile", "path": "made", "content": "x"}), 60)
    assert beside.returncode == 0, told + complaints
    (state,) = (place.folder / "data" / "wap").glob("*/state.db")
    with closing(sqlite3.connect(state)) as connection:
        kept = dict(connection.execute("SELECT id, response FROM runs WHERE status = 'error'"))
    assert kept.keys() == set(asked.values())
    for run_id, response in kept.items():
        answer = json.loads(response)
        assert (answer["code"], answer["details"]["runId"]) == ("EXECUTION_FAILED", run_id)
        assert "was under way. It may have been done in part" in answer["error"]


@pytest.mark.parametrize("route", ["api/executeCommand", "workspace/bash"])
def test_a_single_call_on_a_layer_whose_server_is_killed_has_changed_nothing(tmp_path: Path, route: str) -> None:
    place = Place(tmp_path, "bubblewrap")
    (place.root / "data").mkdir()
    (place.root / "data" / "x").write_text("x")
    body = json.dumps({"command": "rm -f data/x; touch begun; sleep 1000"})
    with place.server() as server, ThreadPoolExecutor() as threads:
        calling = threads.submit(server.request, "POST", f"wap/{route}", body)
        _until(lambda: place.has_written("begun"))
        beside = place.wap("run", "-")
        told, complaints = beside.communicate(batch({"type": "createFile", "path": "made", "content": "x"}), 60)
        assert beside.returncode == 0, told + complaints
        assert place.has_written("begun"), "the command line leaves the layer of a living server"
        server.process.send_signal(signal.SIGKILL)
        server.process.wait()
        assert isinstance(calling.exception(), OSError | HTTPException)
    assert (place.root / "data" / "x").read_text() == "x"
    assert not (place.root / "begun").exists()
    with place.server() as server:
        runs = server.request("GET", "wap/runs")[1]["runs"]
        assert [run["status"] for run in runs] == ["completed"], "only that of the command line"
        _until(lambda: not place.layers())


def test_a_run_of_the_command_line_outlives_servers_and_is_cancelled_from_one(place: Place) -> None:
    with place.server() as first:
        beside = place.wap("run", "-", "--json")
        assert beside.stdin is not None
        beside.stdin.write(batch({"type": "shell", "command": LONG, "timeout": TIMEOUT}))
        beside.stdin.close()
        beside.stdin = None
        _until(lambda: place.has_written("begun"))
        (listed,) = first.request("GET", "wap/runs?status=running")[1]["runs"]
    with place.server() as second:
        assert get(second, listed["runId"])["status"] == "running"
        assert beside.poll() is None
        assert second.request("POST", f"wap/runs/{listed['runId']}/cancel", "{}")[0] in (200, 202)
        _, complaints = beside.communicate(timeout=60)
        assert beside.returncode == 1, complaints
        assert get(second, listed["runId"])["status"] == "cancelled"


def test_what_one_process_asked_is_decided_in_another(place: Place) -> None:
    (place.root / "data").mkdir()
    asking = {"id": "rm", "type": "shell", "command": "rm -rf data"}
    beside = place.wap("run", "-")
    told, complaints = beside.communicate(batch(asking, {"type": "createFile", "path": "after", "content": "x"}), 60)
    assert beside.returncode == 2, told + complaints
    with place.server() as first, place.server() as second:
        (listed,) = first.request("GET", "wap/runs?status=awaiting_approval")[1]["runs"]
        assert listed["runId"] in told
        message = get(second, listed["runId"])
        assert decide(second, message, "approved")["status"] == "completed"
        assert get(first, listed["runId"])["status"] == "completed"
        assert not (place.root / "data").exists()
        assert (place.root / "after").read_text() == "x"
        status, refusal = first.request(
            "POST",
            f"wap/runs/{listed['runId']}/decision",
            f'{{"approvalId": "{message["pendingApproval"]["approvalId"]}", "decision": "denied"}}',
        )
        assert (status, refusal["code"]) == (409, "CONFLICT")


SAVES = choose_budget(suite=100, soak=1000)
SAFE_TASKS = (0, 1, 2, 4, 6, 7, 8)
"""The tasks that delete nothing: after a kill, an agent does not know whether its file was deleted."""


@pytest.mark.soak
def test_no_save_is_lost_and_no_file_is_torn_between_three_processes(tmp_path: Path) -> None:
    """Two servers and a `wap run` change and revert the same files, a person saves, and one server is killed."""
    place = Place(tmp_path, "bubblewrap")
    folder = place.root / "files"
    folder.mkdir()
    has_ended = threading.Event()
    with place.server() as first, place.server() as second:
        person = Person(first)
        for name in Tasks.NAMES:
            person.save(f"files/{name}")

        def save() -> None:
            choose = random.Random(9)
            for number in range(SAVES):
                person.save(f"files/{choose.choice(Tasks.NAMES)}")
                if number == SAVES // 2:
                    second.process.send_signal(signal.SIGKILL)
                    second.process.wait()
            has_ended.set()

        def work(server: LiveServer, seed: int) -> None:
            tasks = Tasks(SavingAgent(server), folder, seed)
            for task in itertools.cycle(SAFE_TASKS):
                if has_ended.is_set():
                    return
                try:
                    tasks.perform(task)
                except (OSError, HTTPException):
                    assert server is second
                    return

        def run_line() -> None:
            for number in itertools.count(1):
                if has_ended.is_set():
                    return
                lines = [write_change(name, number) for name in Tasks.NAMES]
                beside = place.wap("run", "-", "--json")
                told, complaints = beside.communicate(batch(shell(folder, *lines)), 60)
                assert beside.returncode == 0, told + complaints

        with ThreadPoolExecutor(5) as pool:
            saving = pool.submit(save)
            works = [pool.submit(work, first, 1), pool.submit(work, second, 2), pool.submit(run_line)]
            try:
                saving.result()
            finally:
                has_ended.set()
            for each in works:
                each.result()
        with place.server() as third:
            _until(lambda: not third.request("GET", "wap/runs?status=running")[1]["runs"])
    found = {path: find_numbers((place.root / path).read_text())[0] for path in person.last}
    assert found == person.last
    names = {path.name for path in folder.iterdir()} - {".ipynb_checkpoints"}
    assert names == set(Tasks.NAMES), "nothing is left beside the files"
