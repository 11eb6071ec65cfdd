"""A real server with the extension, and a kernel that it has started, with `%wap` loaded."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from scripts.demo import Server
from tests.support.python_kernels import Kernel, ask, kernel_of
from tests.support.server_processes import start_demo


@pytest.fixture(scope="package")
def server() -> Iterator[Server]:
    """It does not kill a kernel that needs long to end: the run of its cell would not be cancelled."""
    with start_demo(KernelManager={"shutdown_wait_time": 30.0}) as running:
        (running.workspace / "src").mkdir()
        (running.workspace / "src" / "app.py").write_text("x = 1\ny = 2\nz = 3\n")
        (running.workspace / "my notes.txt").write_text("notes\n")
        yield running


@pytest.fixture(scope="package")
def started(server: Server) -> Iterator[tuple[Kernel, str]]:
    with kernel_of(server) as (kernel, kernel_id):
        assert kernel.run("%load_ext wap_kernel").outputs == []
        yield kernel, kernel_id


@pytest.fixture
def kernel(started: tuple[Kernel, str]) -> Kernel:
    return started[0]


@pytest.fixture(autouse=True)
def nothing_waits(server: Server) -> Iterator[None]:
    yield
    for run in ask(server, "wap/runs?status=awaiting_approval")["runs"]:
        ask(server, f"wap/runs/{run['runId']}/cancel", {})


@pytest.fixture
def kernel_id(started: tuple[Kernel, str]) -> str:
    return started[1]
