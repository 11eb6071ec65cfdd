"""Repositories in workspaces in temporary folders."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.git_repository import BOT, MakeWorkspace, Workspace
from tests.support.git_server import APP_ID, GitServer
from tests.support.git_team import Team
from tests.support.provider_workspace import Scene, skip_if_lacking, skip_unless_works
from tests.support.tool_interface import Interface, opened
from wap_kernel.git.remote.github_app import GitHubApp
from wap_kernel.git.settings import GitSettings


@pytest.fixture
def make(tmp_path: Path) -> Iterator[MakeWorkspace]:
    """`make("bubblewrap")`, skipped where that provider does not work."""
    opened: list[Scene] = []

    def make(provider: str = "bubblewrap", *, secrets: tuple[Path, ...] = ()) -> Workspace:
        if sys.platform != "linux":
            pytest.skip("the sandboxes are for Linux")
        skip_unless_works(provider)
        skip_if_lacking(provider, "statx")
        folder = tmp_path / "ws"
        folder.mkdir(exist_ok=True)
        scene = Scene(provider, folder, secrets=secrets)
        opened.append(scene)
        return Workspace(scene)

    yield make
    for scene in opened:
        scene.close()


@pytest.fixture
def workspace(request: pytest.FixtureRequest, make: Callable[..., Workspace]) -> Workspace:
    """Create a workspace with a repository at its top, in the sandbox or in the provider that the test names."""
    found = make(getattr(request, "param", "bubblewrap"))
    found.init()
    return found


@pytest.fixture
def server(tmp_path: Path) -> Iterator[GitServer]:
    found = GitServer(tmp_path / "server")
    yield found
    found.close()


@pytest.fixture
def connected(request: pytest.FixtureRequest, tmp_path: Path, server: GitServer) -> Iterator[Interface]:
    """All tools, in the sandbox or where the test says, with a repository and a remote that the App may push to."""
    provider = getattr(request, "param", "bubblewrap")
    skip_unless_works(provider)
    skip_if_lacking(provider, "statx")
    server.create()
    app = GitHubApp(
        APP_ID, str(server.app_key_file), base_url=server.origin, ca_file=str(server.certificate), identity=BOT
    )
    settings = GitSettings(allowed=(f"{server.origin}/ada/*",), source=app, ca_file=str(server.certificate))
    with opened(tmp_path, provider=provider, git=settings) as tools:
        tools.repository()
        tools.git("remote", "add", "origin", server.url())
        yield tools


@pytest.fixture
def team(workspace: Workspace, server: GitServer, tmp_path: Path) -> Team:
    """A workspace, a remote, and the App that may push to it."""
    server.create()
    return Team(workspace, server, tmp_path / "state")
