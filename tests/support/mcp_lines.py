"""`wap mcp`, spoken to line by line, on a folder and as a bridge to a server."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.process_nursery import SpokenProcess
from tests.support.server_processes import TOKEN, LiveServer, Place

SECONDS = 60


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Place:
    return Place(tmp_path_factory.mktemp("place"))


@pytest.fixture(scope="module")
def server(shared: Place) -> Iterator[LiveServer]:
    with shared.server() as started:
        yield started


@pytest.fixture
def token_file(tmp_path: Path) -> Path:
    file = tmp_path / "token"
    file.write_text(f"{TOKEN}\n")
    return file


@pytest.fixture(params=["folder", "server"])
def where(request: pytest.FixtureRequest, shared: Place, token_file: Path) -> list[str]:
    """The arguments that name the place of the work: both are the same folder."""
    for path in shared.root.iterdir():
        if path.is_file():
            path.unlink()
    if request.param == "folder":
        return [str(shared.root)]
    return ["--url", request.getfixturevalue("server").url, "--token-file", str(token_file)]


class Process:
    """Spoken to line by line."""

    def __init__(self, place: Place, *arguments: str, **environment: str) -> None:
        self.process = SpokenProcess("wap mcp", ["mcp", *arguments], {**place.environment, **environment})

    def say(self, line: str) -> None:
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def send(self, method: str, number: int | None = None, **params: Any) -> None:
        message = {"jsonrpc": "2.0", "method": method, "params": params, **({} if number is None else {"id": number})}
        self.say(json.dumps(message))

    def message(self, is_it: Callable[[Any], bool]) -> Any:
        for line in self.process.stdout:
            message = json.loads(line)
            if is_it(message):
                return message
        raise AssertionError("it has ended")

    def answer(self, number: int | None) -> Any:
        return self.message(lambda message: "method" not in message and message["id"] == number)

    def initialize(self, **capabilities: Any) -> Any:
        who = {"name": "hand", "version": "1"}
        self.send("initialize", 0, protocolVersion="2025-11-25", capabilities=capabilities, clientInfo=who)
        answered = self.answer(0)
        self.send("notifications/initialized")
        return answered

    def end(self) -> tuple[int, str]:
        """Once it has ended by itself: its standard input stays as it is."""
        return self.process.wait(SECONDS), self.process.stderr.read()


@pytest.fixture
def start(shared: Place) -> Iterator[Callable[..., Process]]:
    started: list[Process] = []

    def start(*arguments: str, **environment: str) -> Process:
        started.append(Process(shared, *arguments, **environment))
        return started[-1]

    yield start
    for one in started:
        if one.process.poll() is None:
            one.process.kill()
        one.process.wait()
        for pipe in (one.process.stdin, one.process.stdout, one.process.stderr):
            pipe.close()
