"""The gvisor provider with the real runsc: what it says of itself, the network, the limits."""

from __future__ import annotations

import os
import select
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.gvisor_sandboxes import providing, run
from wap_kernel.model.command import Confinement
from wap_kernel.model.errors import ProviderUnavailable
from wap_kernel.providers.base import Probe, Provider, ResourceLimits
from wap_kernel.providers.gvisor import provider as gvisor
from wap_kernel.providers.gvisor.provider import GvisorProvider, probe


def test_what_the_probe_tells(works: Probe) -> None:
    assert works.name == "gvisor"
    assert "runsc version" in works.detail
    assert "platform" in works.detail
    assert works.promises["files outside"] and works.promises["network"]
    assert ("statx" in works.detail) is not works.promises["statx"]


@pytest.mark.parametrize("program", ["/nonexistent/runsc", "/bin/true", "/bin/false"])
def test_a_machine_without_runsc(program: str) -> None:
    found = probe(program)
    assert not found.works
    assert found.detail
    assert found.fix


def test_a_provider_without_runsc_is_refused_with_what_to_do(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(gvisor.PROGRAM_VARIABLE, "/nonexistent/runsc")
    with pytest.raises(ProviderUnavailable, match="not found") as refusal, providing(workspace):
        pass
    assert refusal.value.hint == gvisor.INSTALL


def test_it_is_a_provider_and_says_that_it_confines(provider: GvisorProvider) -> None:
    as_provider: Provider = provider
    assert (as_provider.name, as_provider.confines) == ("gvisor", True)


# -- network, limits


@pytest.mark.parametrize("network", [False, True])
def test_the_network_is_there_only_when_granted(provider: GvisorProvider, network: bool) -> None:
    program = "import socket, sys; socket.create_connection(('127.0.0.1', int(sys.argv[1]))).sendall(b'hello')"
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = str(listener.getsockname()[1])
        outcome = run(provider, (sys.executable, "-c", program, port), confinement=Confinement(network=network))
        assert (outcome.exit_code == 0) is network, outcome.stderr
        assert bool(select.select([listener], [], [], 0)[0]) is network


SMALL = ResourceLimits(processes=20, memory=256 * 1024**2, file_size=1024**2)


@pytest.fixture(scope="module")
def limited(tmp_path_factory: pytest.TempPathFactory, works: Probe) -> Iterator[GvisorProvider]:
    with providing(tmp_path_factory.mktemp("limited"), limits=SMALL) as provider:
        yield provider


def test_the_size_of_a_file_is_limited(limited: GvisorProvider) -> None:
    run(limited, "head -c 3000000 /dev/zero > big", confinement=Confinement())
    assert os.path.getsize(os.path.join(limited.files.path, "big")) == SMALL.file_size


FORKS = """
import os, time
for _ in range(40):
    if os.fork() == 0:
        time.sleep(1000)
"""


def test_the_number_of_processes_is_limited(limited: GvisorProvider) -> None:
    outcome = run(limited, (sys.executable, "-c", FORKS), confinement=Confinement())
    assert "BlockingIOError" in outcome.stderr


def test_memory_is_limited_where_the_probe_says_so(limited: GvisorProvider, works: Probe) -> None:
    if not works.promises["memory"]:
        pytest.skip("no control group for memory can be made here")
    outcome = run(limited, (sys.executable, "-c", f"x = b'x' * {2 * 256 * 1024**2}"), confinement=Confinement())
    assert outcome.exit_code != 0
    assert run(limited, "echo hello", confinement=Confinement()).stdout == "hello\n"
