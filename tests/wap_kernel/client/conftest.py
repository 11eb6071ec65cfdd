"""One folder with one configuration, reached in both ways: through a server, and with the engine in this process."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.server_processes import TOKEN, LiveServer, Place
from wap_kernel.client.backend import Backend
from wap_kernel.client.embedded_backend import EmbeddedBackend
from wap_kernel.client.server_backend import ServerBackend
from wap_kernel.client.workspace_client import WorkspaceClient


@pytest.fixture(scope="session")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    shared = Place(tmp_path_factory.mktemp("place"))
    with pytest.MonkeyPatch.context() as patch:
        for name in ("WAP_URL", "WAP_TOKEN", "JPY_PARENT_PID"):
            patch.delenv(name, raising=False)
        for name, value in shared.environment.items():
            if name == "HOME" or name.startswith("JUPYTER_"):
                patch.setenv(name, value)
        yield shared


@pytest.fixture(scope="session")
def server(place: Place) -> Iterator[LiveServer]:
    with place.server() as started:
        yield started


@pytest.fixture(scope="session")
def on_server(server: LiveServer) -> Iterator[ServerBackend]:
    backend = ServerBackend(server.url, TOKEN)
    yield backend
    backend.close()


@pytest.fixture(scope="session")
def in_process(place: Place) -> Iterator[EmbeddedBackend]:
    backend = EmbeddedBackend(str(place.root))
    yield backend
    backend.close()


@pytest.fixture(params=["on_server", "in_process"])
def backend(request: pytest.FixtureRequest) -> Backend:
    found: Backend = request.getfixturevalue(request.param)
    return found


@pytest.fixture
def client(backend: Backend) -> WorkspaceClient:
    return WorkspaceClient(backend)
