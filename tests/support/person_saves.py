"""A person who saves through `/api/contents` while an agent works.

Every file holds two numbers, that of the person's save and that of the agent's last change. The agent changes only its
own number and copies the other as it reads it. So a save is lost if the file holds the number of an earlier save when
everything has ended, unless the agent deleted the file after it read that very number.
"""

from __future__ import annotations

import json
import random
import re
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

from tests.support.agent_server import Agent, Answer
from tests.support.server_processes import SECONDS, LiveServer, get

REPEATS = 10
"""Writes and edits of one task, which take a hundredth of a command's time."""
TIMEOUT = 600_000
"""Milliseconds that a command may take."""
WAIT = 60
"""Seconds to wait for the end of a run."""
GATE = "gate"
"""The file that a command of `wait_at_gate` reads until it is open. A layer shows the content of files that exist."""


def render_numbers(save: int, agent: int = 0) -> str:
    return f'"agent": {agent},\n"save": {save}\n'


def render_notebook(save: int, agent: int = 0) -> dict[str, Any]:
    return {"cells": [], "metadata": {"agent": agent, "save": save}, "nbformat": 4, "nbformat_minor": 5}


def render_file(path: str, save: int, agent: int = 0) -> str:
    """Return the content of a new file, for an agent to write."""
    is_notebook = path.endswith(".ipynb")
    return json.dumps(render_notebook(save, agent)) if is_notebook else render_numbers(save, agent)


def find_numbers(content: str) -> tuple[int, int]:
    """Return the number of the person's save and of the agent's change; 0 where a save is under way."""
    found = dict(re.findall(r'"(save|agent)": (\d+)', content))
    return int(found.get("save", 0)), int(found.get("agent", 0))


class Person:
    """A person with JupyterLab: saves files and remembers the number of the last save of each path."""

    def __init__(self, server: LiveServer) -> None:
        self._server = server
        self._number = 0
        self._lock = threading.Lock()
        self.last: dict[str, int] = {}

    def save(self, path: str) -> int:
        """Save the file with a new number; return the number when the server has answered.

        Callers save a path one after the other: which of two saves at a time is the last, only the server knows.
        """
        with self._lock:
            self._number += 1
            number = self._number
        if path.endswith(".ipynb"):
            model = {"type": "notebook", "format": "json", "content": render_notebook(number)}
        else:
            model = {"type": "file", "format": "text", "content": render_numbers(number)}
        status, answer = self._server.request("PUT", f"api/contents/{quote(path)}", json.dumps(model))
        assert status in (200, 201), answer
        self.last[path] = number
        return number


class SavingAgent(Agent):
    """An agent whose token allows any number of commands, and which can wait for its runs."""

    def __init__(self, server: LiveServer) -> None:
        super().__init__(server, limits={"concurrentOperations": 100, "commandsPerMinute": 100_000})

    def begin(self, *operations: dict[str, Any], **more: Any) -> str:
        """Begin a run, and return its id at once."""
        return str(self.start(*operations, wait=0, **more)["runId"])

    def cancel(self, run_id: str) -> Answer:
        return self._send("POST", f"wap/runs/{run_id}/cancel", {})

    def revert(self, run_id: str) -> Answer:
        return self._send("POST", f"wap/runs/{run_id}/revert?wait={WAIT}", {})

    def wait_for_end(self, run_id: str) -> dict[str, Any]:
        return wait_until(lambda: get(self.server, run_id), lambda message: message["status"] != "running")

    def wait_for_output(self, run_id: str, operation: str, text: str) -> None:
        """Wait until the running command has written `text`."""

        def read() -> str:
            assert (message := get(self.server, run_id))["status"] == "running", message
            page = self.server.request("GET", f"wap/runs/{run_id}/output/{operation}")[1]
            return str(page.get("content", ""))

        wait_until(read, lambda content: text in content)


def wait_until(get_value: Callable[[], Any], is_good: Callable[[Any], bool]) -> Any:
    deadline = time.monotonic() + SECONDS
    while not is_good(value := get_value()):
        assert time.monotonic() < deadline, value
        time.sleep(0.01)  # the server has no event for it
    return value


def write_change(path: str, agent: int) -> str:
    """Return the shell line that sets the agent's number in a file, and creates the file if there is none."""
    create = f"[ -e {path} ] || printf '%s' '{render_file(path, 0)}' > {path}"
    return f"""{create}; sed -i 's/"agent": [0-9]*/"agent": {agent}/' {path}"""


def wait_at_gate() -> str:
    """Return the shell line that waits until `open_gate` is called."""
    return f"echo waiting; until grep -q open {GATE}; do sleep 0.01; done"


def close_gate(root: Path) -> None:
    (root / GATE).write_text("closed\n")


def open_gate(root: Path) -> None:
    with (root / GATE).open("r+") as file:  # in place: below a layer, a new file may not be visible
        file.write("open  \n")


def shell(folder: Path, *lines: str, **more: Any) -> dict[str, Any]:
    return {
        "type": "shell",
        "id": "command",
        "command": "; ".join(lines),
        "cwd": folder.name,
        "timeout": TIMEOUT,
        **more,
    }


class Tasks:
    """The tasks of the agents: each changes or deletes files in one of the ways that an agent has."""

    NAMES = tuple(f"{number}.{ending}" for number in range(10) for ending in ("txt", "ipynb"))

    def __init__(self, agent: SavingAgent, folder: Path, seed: int) -> None:
        self._agent = agent
        self._folder = folder
        self._random = random.Random(seed)
        self._numbers = iter(range(1, 1_000_000))
        self._runs: list[str] = []
        self.latest = self.NAMES[0]
        """The file that an agent has chosen last."""
        self.deleted: set[tuple[str, int]] = set()
        """Paths that the agent deleted, with the number of the save that it read before."""
        self.conflicts = 0
        kinds = (self.run_command, self.call_command, self.run_two, self.delete, self.fail, self.cancel)
        self._kinds = (*kinds, self.revert, self.write, self.edit)

    def perform(self, task: int) -> None:
        self._kinds[task % len(self._kinds)]()

    def run_command(self) -> None:
        message = self._agent.start(self._shell(self._change(self._choose())))
        self._count_conflicts(message["events"][0])
        self._runs.append(message["runId"])

    def call_command(self) -> None:
        line = "; ".join(self._change(self._choose()))
        status, answer = self._agent.call("executeCommand", command=line, workingDirectory=self._folder.name)
        assert status == 200, answer
        self._count_conflicts(answer)

    def run_two(self) -> None:
        steps = [self._shell(self._change(name), id=name) for name in self._random.sample(self.NAMES, 2)]
        message = self._agent.start(*steps, atomic=self._random.random() < 0.5)
        for event in message["events"]:
            self._count_conflicts(event)
        self._runs.append(message["runId"])

    def delete(self) -> None:
        name = self._choose()
        (event,) = self._agent.start(self._shell([f"cat {name}", self._pause(), f"rm {name}", self._pause()]))["events"]
        path = f"{self._folder.name}/{name}"
        if event["success"] and not self._count_conflicts(event):
            self.deleted.add((path, find_numbers(event["stdout"])[0]))

    def fail(self) -> None:
        missing = {"type": "readFile", "path": "missing"}
        message = self._agent.start(self._shell(self._change(self._choose())), missing, atomic=True)
        assert message["status"] == "error"

    def cancel(self) -> None:
        lines = [*self._change(self._choose()), "sleep 1000"]
        run = self._agent.begin(self._shell(lines), atomic=self._random.random() < 0.5)
        time.sleep(self._random.random() / 5)  # at any moment
        self._agent.cancel(run)
        assert self._agent.wait_for_end(run)["status"] == "cancelled"

    def revert(self) -> None:
        self.run_command()
        status, answer = self._agent.revert(self._runs.pop(self._random.randrange(len(self._runs))))
        assert status == 201 or answer["code"] == "CONFLICT", answer

    def write(self) -> None:
        path = f"{self._folder.name}/{self._choose()}"
        for _ in range(REPEATS):
            self._write(path)

    def _write(self, path: str) -> None:
        status, found = self._agent.call("readFile", path=path)
        if status == 404:
            content = render_file(path, 0, next(self._numbers))
            status, answer = self._agent.call("writeFile", path=path, content=content, mode="create")
            assert status in (200, 409), answer
            return
        content = render_file(path, find_numbers(found["content"])[0], next(self._numbers))
        status, answer = self._agent.call("writeFile", path=path, content=content, expectedHash=found["hash"])
        assert status == 200 or answer["code"] in ("CONFLICT", "FILE_NOT_FOUND"), answer

    def edit(self) -> None:
        path = f"{self._folder.name}/{self._choose()}"
        for _ in range(REPEATS):
            replacement = f'"agent": {next(self._numbers)}'
            change = {"type": "regexReplace", "pattern": '"agent": [0-9]*', "replacement": replacement}
            status, answer = self._agent.call("modifyFile", path=path, operations=[change])
            # A file is empty for a moment while Jupyter saves it.
            assert status == 200 or answer["code"] in ("CONFLICT", "FILE_NOT_FOUND", "EDIT_NOT_FOUND"), answer

    def _choose(self) -> str:
        self.latest = self._random.choice(self.NAMES)
        return self.latest

    def _pause(self) -> str:
        return f"sleep {self._random.random() / 10:.3f}"

    def _change(self, name: str) -> list[str]:
        return [self._pause(), write_change(name, next(self._numbers)), self._pause()]

    def _shell(self, lines: list[str], **more: Any) -> dict[str, Any]:
        return shell(self._folder, *lines, **more)

    def _count_conflicts(self, answer: dict[str, Any]) -> int:
        conflicts = answer.get("conflicts", [])
        self.conflicts += len(conflicts)
        return len(conflicts)
