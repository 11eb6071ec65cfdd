"""SIGKILL of a real server in the middle of batches: what was begun is told, what waits still waits, nothing torn."""

from __future__ import annotations

import http.client
import itertools
import json
import random
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.agent_server import USERS, Agent, AgentServer, open_place
from tests.support.budgets import choose_budget
from tests.support.server_processes import LiveServer, Place, batch, decide, get
from wap_kernel.files.contained import atomic_write

KILLS = choose_budget(suite=3, soak=100)
ATOMIC_KILLS = choose_budget(suite=2, soak=20)
LAYER_KILLS = choose_budget(suite=2, soak=60)
"""Each kill starts a server anew."""
CLIENTS = 4
BEGUN = 2 * CLIENTS
"""Runs that are known before the moment of death is drawn."""
LINES = 2000
LONG = {"type": "shell", "command": "sleep 1000", "timeout": 600_000}
FILES = 300
ATOMIC = json.dumps(
    {
        "protocolVersion": "1.0",
        "atomic": True,
        "operations": [
            (
                {"type": "createFile", "path": f"f{number:03}", "content": "new", "overwrite": True},
                {"type": "editFile", "path": f"f{number:03}", "edits": [{"oldContent": "old", "newContent": "new"}]},
                {"type": "deleteFile", "path": f"f{number:03}"},
            )[number % 3]
            for number in range(FILES)
        ],
    }
)

Known = dict[str, tuple[str, str, list[str]]]
"""By the key of the request: the run, the status that was told of it, and the ids of its operations."""


class Clients:
    """Clients that start runs, each under a key, until the server is gone.

    By turns they start one that asks, for which they wait, and one that works, which they leave to itself. One run is
    still under way at the end for certain.
    """

    def __init__(self, server: LiveServer, kill: int) -> None:
        self.answered: Known = {}
        self.unanswered: dict[str, str] = {}
        """The request by key: whether it was taken nobody knows."""
        self._server = server
        self._name = f"kill{kill}"
        self._begun = threading.Semaphore(0)
        self._threads = [threading.Thread(target=self._send, args=(number,)) for number in range(CLIENTS)]

    def __enter__(self) -> Clients:
        for thread in self._threads:
            thread.start()
        for _ in range(BEGUN):
            assert self._begun.acquire(timeout=60), "the server takes no runs"
        return self

    def __exit__(self, *_: object) -> None:
        for thread in self._threads:
            thread.join()

    def _send(self, client: int) -> None:
        for number in itertools.count():
            key = f"{self._name}-{client}-{number}"
            if number == client == 0:
                wait, operations = 0, [LONG]
            elif (number + (client == 0)) % 2 == 0:
                wait, operations = 30, _asking(key)
            else:
                wait, operations = 0, _working(client, key)
            body = batch(*operations)
            try:
                status, message = self._server.request(
                    "POST", f"wap/runs?wait={wait}", body, **{"Idempotency-Key": key}
                )
            except (OSError, http.client.HTTPException):
                self.unanswered[key] = body
                return
            assert status in (201, 202), message
            ids = [operation.get("id", f"op-{position}") for position, operation in enumerate(operations, 1)]
            self.answered[key] = message["runId"], message["status"], ids
            self._begun.release()


def _working(client: int, key: str) -> list[dict[str, Any]]:
    text = f"{key}\n" * LINES
    return [
        {"type": "message", "content": key},
        {"type": "createFile", "path": f"whole-{client}.txt", "content": text, "overwrite": True},
        {"type": "editFile", "path": f"whole-{client}.txt", "edits": [{"oldContent": text, "newContent": text}]},
        {"type": "readFile", "path": f"whole-{client}.txt"},
        {"type": "shell", "command": f"printf {key} > made-{client}"},
        {"type": "deleteFile", "path": f"made-{client}"},
    ]


def _asking(key: str) -> list[dict[str, Any]]:
    return [
        {"type": "createFile", "path": f"d-{key}/x", "content": key},
        {"id": "asks", "type": "shell", "command": f"rm -rf d-{key}"},
    ]


@pytest.mark.soak
@pytest.mark.parametrize("provider", ["local", "bubblewrap"])
def test_sigkill_loses_no_run_tears_no_file_and_leaves_what_waits_decidable(tmp_path: Path, provider: str) -> None:
    place = Place(tmp_path, provider)
    moments = random.Random(4)
    known: Known = {}
    unanswered: dict[str, str] = {}
    seen: dict[str, int] = dict.fromkeys(("completed", "error", "awaiting_approval"), 0)
    for kill in range(KILLS):
        with place.server() as server:
            _check(place, server, known, unanswered, seen)
            with Clients(server, kill) as clients:
                moment = threading.Event()
                threading.Timer(moments.uniform(0.0, 0.3), moment.set).start()
                moment.wait()
                server.process.send_signal(signal.SIGKILL)
                server.process.wait()
            known, unanswered = clients.answered, clients.unanswered
            _check_files(place)
    with place.server() as server:
        _check(place, server, known, unanswered, seen)
    assert not [path for path in place.root.rglob("*") if atomic_write.is_temporary(path.name)]
    assert seen["error"] and seen["awaiting_approval"], f"too early or too late: {seen}"
    verify = place.wap("audit", "verify")
    told, complaints = verify.communicate(timeout=60)
    assert verify.returncode == 0, told + complaints


def _check(place: Place, server: LiveServer, known: Known, unanswered: dict[str, str], seen: dict[str, int]) -> None:
    """What the server before left behind, seen through the next one."""
    for key, (run_id, told, ids) in known.items():
        message = get(server, run_id)
        seen[message["status"]] += 1
        assert told in ("running", message["status"]), "a run changed after it had ended, or while it waited"
        if message["status"] == "error":
            _names_what_was_under_way(message["events"], ids)
        elif message["status"] == "awaiting_approval":
            _is_decidable(place, server, message, key)
    for key, body in unanswered.items():
        # Whether it had been stored or not, the same request answers a run, and never two.
        ids = {server.request("POST", "wap/runs?wait=0", body, **{"Idempotency-Key": key})[1]["runId"] for _ in "12"}
        assert len(ids) == 1


@pytest.mark.soak
def test_of_an_atomic_batch_that_is_killed_nothing_stays(tmp_path: Path) -> None:
    place = Place(tmp_path)
    files = [place.root / f"f{number:03}" for number in range(FILES)]
    for file in files:
        file.write_text("old")
    before = {file.name: "old" for file in files}
    moments = random.Random(5)
    for _ in range(ATOMIC_KILLS):
        with place.server() as server:
            status, message = server.request("POST", "wap/runs?wait=0", ATOMIC)
            assert status == 202, message
            reached = files[moments.randrange(3, FILES // 2)]
            while reached.exists() and reached.read_text() == "old":
                assert get(server, message["runId"])["status"] == "running"
            server.process.send_signal(signal.SIGKILL)
            server.process.wait()
        with place.server() as server:
            ended = get(server, message["runId"])
        assert ended["status"] == "error"
        assert ended["events"][-1]["message"] == "The run did not end, so everything was undone."
        assert {path.name: path.read_text() for path in place.root.iterdir()} == before


MADE = 1200
ON_LAYER = (
    {"type": "createFile", "path": "first", "content": "new"},
    {"type": "shell", "command": f"for f in $(seq -f made-%g {MADE}) old/*; do echo new > $f; done"},
    {"type": "deleteFile", "path": "gone"},
)


@pytest.mark.soak
@pytest.mark.parametrize("user", USERS)
def test_an_atomic_batch_with_a_command_that_is_killed_is_applied_whole_or_not_at_all(user: str) -> None:
    """Whether the server dies while the command runs, while its effect is applied, or afterwards."""
    kinds = list(itertools.islice(itertools.cycle(["command", "any", "applying"]), LAYER_KILLS))
    moments = random.Random(6)
    ends: list[str] = []
    with open_place(user) as place:
        place.root.joinpath("old").mkdir()
        for number in range(50):
            (place.root / "old" / str(number)).write_text("old\n")
        place.root.joinpath("gone").write_text("old\n")
        before = _read(place)
        made = {"first": "new", **{f"made-{number}": "new\n" for number in range(1, MADE + 1)}}
        after = {**made, **{path: "new\n" for path in before if path != "gone"}}
        run_id = _start_and_kill(place, kinds[0], moments)
        for kind in (*kinds[1:], None):
            with place.start() as agent:
                ended = get(agent.server, run_id)
                found = _read(place)
                assert found in (before, after), f"{len(found)} files"
                assert (ended["status"], found == after) in (("completed", True), ("error", False))
                ends.append(ended["status"])
                if found == after:
                    status, reverted = agent.server.request("POST", f"wap/runs/{run_id}/revert?wait=60", "{}")
                    assert status in (200, 201, 202), reverted
                    assert _read(place) == before
                _until(lambda: not _list_layers(place))
                if kind is not None:
                    run_id = _kill(place, agent, kind, moments)
    assert "error" in ends and "completed" in ends, ends


def _start_and_kill(place: AgentServer, kind: str, moments: random.Random) -> str:
    with place.start() as agent:
        return _kill(place, agent, kind, moments)


def _kill(place: AgentServer, agent: Agent, kind: str, moments: random.Random) -> str:
    """Start the run with the agent's token, kill the server, and return the run."""
    run_id = agent.start(*ON_LAYER, atomic=True, wait=0)["runId"]
    _wait_for_moment(place, kind, moments)
    agent.server.process.send_signal(signal.SIGKILL)
    agent.server.process.wait()
    return str(run_id)


def _list_layers(place: AgentServer) -> list[Path]:
    return list(place.data.glob("wap/*/layers/layer_*"))


def _wait_for_moment(place: AgentServer, kind: str, moments: random.Random) -> None:
    """Wait until the command has begun, until something is applied, or some time from there."""
    if kind == "command":
        name = f"made-{moments.randrange(1, MADE)}"
        _until(lambda: any((layer / "upper" / name).exists() for layer in _list_layers(place)))
        return
    _until(lambda: (place.root / "first").exists() or (place.root / "made-1").exists())
    if kind == "any":
        moment = threading.Event()
        threading.Timer(moments.uniform(0.0, 0.1), moment.set).start()
        moment.wait()


def _read(place: AgentServer) -> dict[str, str]:
    return {str(path.relative_to(place.root)): path.read_text() for path in place.root.rglob("*") if path.is_file()}


def _until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.002)  # a file of another process


def _names_what_was_under_way(events: list[dict[str, Any]], ids: list[str]) -> None:
    """The first operation that has no event."""
    *done, event = events
    assert (event["type"], event["category"]) == ("error", "system")
    assert [one.get("operationId") for one in done] == ids[: len(done)]
    assert event["details"]["operationId"] == ids[len(done)]


def _is_decidable(place: Place, server: LiveServer, message: dict[str, Any], key: str) -> None:
    folder = place.root / f"d-{key}"
    assert folder.is_dir()
    decision = "approved" if key.endswith(("0", "2", "4", "6", "8")) else "denied"
    decided = decide(server, message, decision)
    assert decided["status"] == "completed"
    assert folder.exists() is (decision == "denied")
    last = decided["events"][-1]
    assert (last["type"], last["operationId"]) == ("shell" if decision == "approved" else "policyDenied", "asks")


def _check_files(place: Place) -> None:
    for path in place.root.glob("whole-*.txt"):
        lines = path.read_text().splitlines()
        assert len(lines) == LINES and len(set(lines)) == 1, f"{path.name} is torn"
