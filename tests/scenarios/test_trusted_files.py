"""Files that the server believes later: an agent that writes them gains nothing, also after a restart."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.agent_server import USERS, Agent, AgentServer, open_place
from tests.support.server_processes import TOKEN

SECRET = "the secret of the person"


@pytest.fixture(params=USERS)
def place(request: pytest.FixtureRequest) -> Iterator[AgentServer]:
    with open_place(request.param) as place:
        yield place


def make_environment(prefix: Path) -> Path:
    """Create a virtual environment without programs, and return its interpreter."""
    (prefix / "bin").mkdir(parents=True)
    (prefix / "lib/python3/site-packages").mkdir(parents=True)
    (prefix / "pyvenv.cfg").write_text(f"home = {Path(sys.base_prefix) / 'bin'}\n")
    python = prefix / "bin/python"
    python.symlink_to(Path(sys.executable).resolve())
    return python


def add_kernel(data: Path, name: str, *argv: object) -> Path:
    folder = data / "kernels" / name
    folder.mkdir(parents=True)
    spec = {"argv": [*map(str, argv), "-m", "ipykernel_launcher"], "display_name": name, "language": "python"}
    (folder / "kernel.json").write_text(json.dumps(spec))
    return folder


def test_a_configuration_in_the_workspace_mounts_nothing(place: AgentServer) -> None:
    """The agent could write it before the person registered the kernel, or while the server was another one."""
    for name in (".ssh/id_rsa", "private/notes"):
        (place.home / name).parent.mkdir()
        (place.home / name).write_text(SECRET)
    folders = [place.runtime, place.home / ".ssh", place.home / "private", Path("/etc"), place.data / "wap"]
    for number, folder in enumerate(folders):
        add_kernel(place.data, f"mine-{number}", make_environment(place.root / f"venv-{number}"))
        (place.root / f"venv-{number}/pyvenv.cfg").write_text(f"home = {folder}/x\n")
    with place.start() as agent:
        for folder in folders:
            listed = agent.run(f"ls -A {folder}").body["stdout"].split()
            assert not {"id_rsa", "notes", "shadow", "state.db"}.intersection(listed), folder
            answer = agent.run(f"cat {folder}/* {folder}/*/*")
            assert TOKEN not in answer.text, folder
            assert SECRET not in answer.text


def test_a_link_in_the_workspace_mounts_nothing(place: AgentServer) -> None:
    (place.home / "private").mkdir()
    (place.home / "private/notes").write_text(SECRET)
    python = make_environment(place.root / "venv")
    python.unlink()
    python.symlink_to(place.home / "private/notes")
    add_kernel(place.data, "mine", python)
    with place.start() as agent:
        assert SECRET not in agent.run(f"cat {place.home}/private/notes").text


def test_a_kernels_environment_is_read_only(place: AgentServer) -> None:
    python = make_environment(place.root / "venv")
    add_kernel(place.data, "mine", python)
    later = make_environment(place.root / "later")
    with place.start() as agent:
        expect_read_only(agent, place.root / "venv")
        add_kernel(place.data, "another", "/usr/bin/env", later)
        expect_read_only(agent, place.root / "later")


def expect_read_only(agent: Agent, prefix: Path) -> None:
    name = prefix.name
    before = sorted(map(str, prefix.rglob("*")))
    pth = f"{name}/lib/python3/site-packages/x.pth"
    for path in (pth, f"{name}/pyvenv.cfg", f"{name}/bin/python"):
        answer = agent.call("writeFile", path=path, content="import os", mode="overwrite")
        assert answer.status == 403, (path, answer)
    line = f"python3 -c \"open('{pth}', 'w')\"; cp /etc/hostname {name}/bin/ls; mv {name} gone; rm {name}/pyvenv.cfg"
    for each in line.split("; "):
        agent.run(each)
    assert sorted(map(str, prefix.rglob("*"))) == before


def test_a_kernelspec_in_the_workspace_is_read_only(place: AgentServer) -> None:
    """`jupyter kernelspec install --symlink` leaves the person's folder where it is."""
    spec = add_kernel(place.root / "specs", "mine", sys.executable)
    (place.data / "kernels").mkdir()
    (place.data / "kernels/mine").symlink_to(spec)
    with place.start() as agent:
        path = str(spec.relative_to(place.root) / "kernel.json")
        assert agent.call("writeFile", path=path, content="{}", mode="overwrite").status == 403
        agent.run(f"cp /dev/null {path}")
        assert json.loads((spec / "kernel.json").read_text())["argv"][0] == sys.executable


def test_an_interpreter_that_is_not_there_yet_is_not_made(place: AgentServer) -> None:
    add_kernel(place.data, "mine", place.root / "gone/bin/python")
    with place.start() as agent:
        answer = agent.call("writeFile", path="gone/bin/python", content="#!/bin/sh\n", createDirectories=True)
        assert answer.status == 403, answer
        assert not (place.root / "gone/bin/python").exists()
