"""Protected names that become links while the server runs: the file tools change nothing through them."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.agent_server import USERS, Agent, AgentServer, SharedAgentServer, give, share_place

LINKS = {
    ".bashrc": "dotfiles/bashrc",
    ".gitconfig": "dotfiles/second/gitconfig",
    ".config": "dotfiles/config",
    ".jupyter/jupyter_server_config.py": "../dotfiles/jupyter.py",
}
TARGETS = {
    ".bashrc": "dotfiles/bashrc",
    ".gitconfig": "dotfiles/real/gitconfig",
    ".config/git/config": "dotfiles/config/git/config",
    ".jupyter/jupyter_server_config.py": "dotfiles/jupyter.py",
}


@pytest.fixture(scope="module", params=USERS)
def shared_place(request: pytest.FixtureRequest) -> Iterator[SharedAgentServer]:
    with share_place(request.param) as place:
        yield place


@pytest.fixture
def place(shared_place: SharedAgentServer) -> AgentServer:
    shared_place.clear()
    home = shared_place.home
    for name in TARGETS.values():
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text("# the person's")
    (home / "dotfiles/second").symlink_to("real")
    (home / ".jupyter").mkdir()
    return shared_place


def link(place: AgentServer, name: str, target: str) -> None:
    (place.home / name).symlink_to(target)
    if place.user == "ordinary":
        give(place.home)


def expect_refusals(agent: Agent, path: str) -> None:
    line = {"type": "insert", "afterLine": 0, "newContent": "evil"}
    for tool, parameters in [
        ("writeFile", {"path": path, "content": "evil", "mode": "overwrite", "createDirectories": True}),
        ("writeFile", {"path": path, "content": "evil", "mode": "append"}),
        ("modifyFile", {"path": path, "operations": [line]}),
        ("copyFile", {"source": "a", "destination": path, "overwrite": True}),
        ("moveFile", {"source": "a", "destination": path, "overwrite": True}),
        ("moveFile", {"source": path, "destination": "b"}),
        ("deleteFile", {"path": path}),
    ]:
        answer = agent.call(tool, **parameters)
        assert answer.status == 403, (tool, path, answer)


def test_what_a_link_leads_to_is_read_only(place: AgentServer) -> None:
    (place.home / "a").write_text("evil")
    with place.start(place.home) as agent:
        for target in dict.fromkeys(TARGETS.values()):
            assert agent.call("writeFile", path=target, content="# the person's", mode="overwrite").status == 200
        for name, target in LINKS.items():
            link(place, name, target)
        for name, target in TARGETS.items():
            expect_refusals(agent, name)
            expect_refusals(agent, target)
        expect_refusals(agent, "dotfiles/second")  # a link on the way
        answer = agent.call("writeFile", path="dotfiles/config/fish/config.fish", content="x", createDirectories=True)
        assert answer.status == 403, answer  # nothing is there yet
        for folder in ("dotfiles", "dotfiles/config"):
            assert agent.call("moveFile", source=folder, destination="elsewhere").status == 403
            assert agent.call("deleteFile", path=folder, recursive=True).status == 403
        assert agent.call("writeFile", path="dotfiles/other", content="x").status == 200
        (place.home / ".bashrc").unlink()
        link(place, ".bashrc", "dotfiles/other")
        expect_refusals(agent, "dotfiles/other")
    assert {(place.home / name).read_text() for name in TARGETS.values()} == {"# the person's"}


def test_a_secret_folder_that_is_a_link_is_hidden(place: AgentServer) -> None:
    (place.home / "dotfiles/ssh").mkdir()
    (place.home / "dotfiles/ssh/config").write_text("the secret")
    with place.start(place.home) as agent:
        assert agent.call("readFile", path="dotfiles/ssh/config").status == 200
        link(place, ".ssh", "dotfiles/ssh")
        assert agent.call("writeFile", path="dotfiles/ssh/config", content="x", mode="overwrite").status == 403
        assert agent.call("readFile", path="dotfiles/ssh/config").status == 403
        assert agent.call("readFile", path=".ssh/config").status == 403
        assert "the secret" not in agent.run("cat dotfiles/ssh/config").text
        assert "the secret" not in agent.call("searchFiles", paths=["."], query="secret", type="literal").text


@pytest.mark.parametrize("kind", ["link", "file", "nested"])
def test_a_linked_repository_is_read_only(place: AgentServer, kind: str) -> None:
    project = place.root / "sub" if kind == "nested" else place.root
    store = place.root / "store/repository"
    with place.start() as agent:
        store.parent.mkdir()
        project.mkdir(exist_ok=True)
        subprocess.run(["git", "init", "-q", f"--separate-git-dir={store}", project], check=True)
        if kind != "file":
            (project / ".git").unlink()
            (project / ".git").symlink_to(store)
        if place.user == "ordinary":
            give(place.home)
        inside = str(Path(project.relative_to(place.root), ".git"))
        before = sorted(store.rglob("*"))
        for path in ("hooks/post-commit", "config", "commondir", "info/attributes"):
            for name in {f"store/repository/{path}", f"{inside}/{path}"}:
                answer = agent.call("writeFile", path=name, content="evil", mode="overwrite", createDirectories=True)
                assert answer.status in ((403,) if kind != "file" or name.startswith("store") else (403, 400, 404))
        for tool, more in (("deleteFile", {"path": "store/repository", "recursive": True}),):
            assert agent.call(tool, **more).status == 403
        assert sorted(store.rglob("*")) == before
