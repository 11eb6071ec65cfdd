"""A person saves in JupyterLab while an agent works: no save is lost, whatever becomes of the agent's work."""

from __future__ import annotations

import random
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.support.agent_server import USERS, give, open_place
from tests.support.budgets import choose_budget
from tests.support.person_saves import (
    Person,
    SavingAgent,
    Tasks,
    close_gate,
    find_numbers,
    open_gate,
    render_file,
    shell,
    wait_at_gate,
    write_change,
)
from tests.support.server_processes import SECONDS, LiveServer

SAVES = choose_budget(suite=100, soak=1000)
TASKS = choose_budget(suite=30, soak=300)
"""Tasks of the agent; two of three are commands."""
TAIL = "tail" * 200
"""A text that is longer than a saved file; appended while the file is empty, a part of it would stay in the file."""
ROUNDS = choose_budget(suite=10, soak=200)
"""Rounds of each way to change one file while it is saved."""


@pytest.fixture(scope="module", params=USERS)
def server(request: pytest.FixtureRequest) -> Iterator[LiveServer]:
    with open_place(request.param) as place, place.start() as agent:
        yield agent.server


@pytest.fixture(scope="module")
def agent(server: LiveServer) -> SavingAgent:
    return SavingAgent(server)


@pytest.fixture
def person(server: LiveServer) -> Person:
    return Person(server)


@pytest.fixture
def folder(server: LiveServer, request: pytest.FixtureRequest) -> Path:
    """A folder of the workspace for one test, with a gate, a file and a folder."""
    made = Path(tempfile.mkdtemp(dir=server.root))
    close_gate(made)
    (made / "other.txt").write_text("as it was")
    (made / "sub").mkdir()
    if request.node.callspec.params["server"] == "ordinary":
        give(made)
    return made


FILES = {
    "an existing file": ("a.txt", True),
    "a new file": ("a.txt", False),
    "an existing notebook": ("a.ipynb", True),
    "a new notebook": ("a.ipynb", False),
}
files = pytest.mark.parametrize(("name", "exists"), FILES.values(), ids=FILES.keys())


def save_first(person: Person, folder: Path, name: str, exists: bool) -> str:
    """Return the path of a file, which the person has saved already if it exists."""
    path = f"{folder.name}/{name}"
    if exists:
        person.save(path)
    return path


@files
@pytest.mark.parametrize("end", ["failed", "cancelled"])
def test_an_atomic_run_that_ends_early_leaves_saves_as_they_are(
    server: LiveServer, agent: SavingAgent, person: Person, folder: Path, name: str, exists: bool, end: str
) -> None:
    path = save_first(person, folder, name, exists)
    lines = (write_change(name, 7), "echo changed > other.txt", "echo made > made.txt", wait_at_gate(), "exit 3")
    missing = {"type": "readFile", "path": "missing"}
    run = agent.begin(shell(folder, *lines), missing, atomic=True)
    agent.wait_for_output(run, "command", "waiting")
    saved = person.save(path)
    if end == "cancelled":
        assert agent.cancel(run).status == 200
    else:
        open_gate(folder)
    message = agent.wait_for_end(run)
    assert message["status"] == ("cancelled" if end == "cancelled" else "error")
    assert find_numbers((folder / name).read_text()) == (saved, 0)
    assert (folder / "other.txt").read_text() == "as it was"
    assert not (folder / "made.txt").exists()


@files
def test_a_command_does_not_replace_a_save_that_came_meanwhile(
    server: LiveServer, agent: SavingAgent, person: Person, folder: Path, name: str, exists: bool
) -> None:
    path = save_first(person, folder, name, exists)
    run = agent.begin(shell(folder, write_change(name, 7), "echo made > made.txt", wait_at_gate()))
    agent.wait_for_output(run, "command", "waiting")
    saved = person.save(path)
    open_gate(folder)
    (event,) = agent.wait_for_end(run)["events"]
    assert event["conflicts"] == [path]
    assert find_numbers((folder / name).read_text()) == (saved, 0)
    assert (folder / "made.txt").read_text() == "made\n"
    status, answer = agent.revert(run)  # it takes back what was applied, and nothing else
    assert status == 201 and answer["status"] == "completed", answer
    assert find_numbers((folder / name).read_text()) == (saved, 0)
    assert not (folder / "made.txt").exists()


def test_a_command_that_deletes_a_folder_spares_a_save_in_it(
    server: LiveServer, agent: SavingAgent, person: Person, folder: Path
) -> None:
    path = save_first(person, folder, "sub/a.txt", True)
    run = agent.begin(shell(folder, "find sub -delete", wait_at_gate()))
    agent.wait_for_output(run, "command", "waiting")
    saved = person.save(path)
    open_gate(folder)
    (event,) = agent.wait_for_end(run)["events"]
    assert path in event["conflicts"]
    assert find_numbers((folder / "sub" / "a.txt").read_text()) == (saved, 0)


@files
def test_a_revert_without_force_leaves_a_save_that_came_later(
    server: LiveServer, agent: SavingAgent, person: Person, folder: Path, name: str, exists: bool
) -> None:
    path = save_first(person, folder, name, exists)
    run = agent.start(shell(folder, write_change(name, 7)))["runId"]
    assert find_numbers((folder / name).read_text())[1] == 7
    saved = person.save(path)
    status, answer = agent.revert(run)
    assert (status, answer["code"], answer["details"]["paths"]) == (409, "CONFLICT", [path])
    assert find_numbers((folder / name).read_text()) == (saved, 0)


def write_expected(agent: SavingAgent, path: str, number: int) -> Callable[[], Any]:
    """Read a file, and return the act that replaces it if it is as it was read."""
    found = agent.call("readFile", path=path).body
    content = render_file(path, find_numbers(found["content"])[0], number)
    return lambda: agent.call("writeFile", path=path, content=content, expectedHash=found["hash"])


def delete_expected(agent: SavingAgent, path: str, number: int) -> Callable[[], Any]:
    expected = agent.call("readFile", path=path).body["hash"]
    return lambda: agent.call("deleteFile", path=path, expectedHash=expected)


def edit(agent: SavingAgent, path: str, number: int) -> Callable[[], Any]:
    change = {"type": "regexReplace", "pattern": '"agent": [0-9]*', "replacement": f'"agent": {number}'}
    return lambda: agent.call("modifyFile", path=path, operations=[change])


def revert(agent: SavingAgent, path: str, number: int) -> Callable[[], Any]:
    """Change a file, and return the act that reverts the change."""
    changed = {"type": "createFile", "path": path, "content": render_file(path, 0, number), "overwrite": True}
    run = agent.start(changed)["runId"]
    return lambda: agent.revert(run)


def fail_atomic(agent: SavingAgent, path: str, number: int) -> Callable[[], Any]:
    created = {"type": "createFile", "path": path, "content": render_file(path, 0, number), "overwrite": True}
    return lambda: agent.start(created, {"type": "readFile", "path": "missing"}, atomic=True)


def append(agent: SavingAgent, path: str, number: int) -> Callable[[], Any]:
    return lambda: agent.call("writeFile", path=path, content=TAIL, mode="append")


def run_command(agent: SavingAgent, path: str, number: int) -> Callable[[], Any]:
    return lambda: agent.call("executeCommand", command=write_change(path, number))


def revert_append(agent: SavingAgent, path: str, number: int) -> Callable[[], Any]:
    run = append(agent, path, number)().body["runId"]
    return lambda: agent.revert(run)


ACTS = (write_expected, delete_expected, edit, revert, fail_atomic, run_command)
CASES = [(act, name) for act in ACTS for name in ("a.txt", "a.ipynb")]
CASES += [(append, "a.txt"), (revert_append, "a.txt")]  # nothing is appended to notebooks


@pytest.mark.soak
@pytest.mark.parametrize(("prepare", "name"), CASES)
def test_a_save_at_the_very_moment_of_a_change_is_not_lost(
    agent: SavingAgent,
    person: Person,
    folder: Path,
    name: str,
    prepare: Callable[[SavingAgent, str, int], Callable[[], Any]],
) -> None:
    path = f"{folder.name}/{name}"
    choose = random.Random(prepare.__name__)
    seconds = 0.01
    with ThreadPoolExecutor(1) as threads:
        for number in range(ROUNDS):
            person.save(path)
            act = prepare(agent, path, number)
            start = time.monotonic()
            acting = threads.submit(act)
            time.sleep(choose.random() * seconds)  # at any moment of what the agent does
            saved = person.save(path)
            acting.result()
            seconds = time.monotonic() - start
            content = (folder / name).read_text()
            assert find_numbers(content)[0] == saved, number
            assert "tail" not in content or content.endswith(f"\n{TAIL}"), number


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(choose_budget(suite=1, soak=2)))
def test_no_save_is_lost_at_random_moments(
    server: LiveServer, agent: SavingAgent, person: Person, folder: Path, seed: int
) -> None:
    for name in Tasks.NAMES[::3]:  # the other files are new when a person or an agent saves them
        person.save(f"{folder.name}/{name}")
    tasks = Tasks(agent, folder, seed)
    begun = threading.Semaphore(0)
    locks = {name: threading.Lock() for name in Tasks.NAMES}

    def work(task: int) -> None:
        begun.release(SAVES // TASKS + 1)
        tasks.perform(task)

    def save(which: int) -> None:
        choose = random.Random(seed * 2 + which)
        for _ in range(SAVES // 2):
            assert begun.acquire(timeout=SECONDS)
            time.sleep(choose.random() / 50)  # at any moment
            name = tasks.latest if choose.random() < 0.3 else choose.choice(Tasks.NAMES)
            with locks[name]:
                person.save(f"{folder.name}/{name}")

    with ThreadPoolExecutor(3) as agents, ThreadPoolExecutor(2) as people:
        ends = [
            *(agents.submit(work, task) for task in range(TASKS)),
            *(people.submit(save, which) for which in (0, 1)),
        ]
        for end in ends:
            end.result()
    lost = {
        path: (number, content)
        for path, number in person.last.items()
        if (path, number) not in tasks.deleted
        and ((content := read_content(server.root / path)) is None or find_numbers(content)[0] != number)
    }
    assert lost == {}
    assert tasks.conflicts, "no save met a command"


def read_content(path: Path) -> str | None:
    return path.read_text() if path.exists() else None
