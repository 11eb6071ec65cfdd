"""A workspace with something to guard, and the provider in it; skipped where runsc does not work."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.gvisor_sandboxes import furnished, providing
from tests.support.provider_workspace import probe
from wap_kernel.providers.base import Probe
from wap_kernel.providers.gvisor import provider as gvisor
from wap_kernel.providers.gvisor.provider import GvisorProvider
from wap_kernel.providers.gvisor.sandbox import GvisorSandbox


@pytest.fixture(scope="session")
def works() -> Probe:
    found = probe("gvisor")
    if not found.works:
        pytest.skip(f"gvisor: {found.detail}")
    return found


@pytest.fixture
def workspace(tmp_path: Path, works: Probe) -> Path:
    return furnished(tmp_path / "ws")


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The folders of the sandboxes that were started."""
    folders: list[str] = []

    class Counted(GvisorSandbox):
        def __init__(self, launch: object, program: str, folder: str, *rest: object, **options: object) -> None:
            folders.append(folder)
            super().__init__(launch, program, folder, *rest, **options)  # type: ignore[arg-type]  # passed on

    monkeypatch.setattr(gvisor, "GvisorSandbox", Counted)
    return folders


@pytest.fixture
def provider(workspace: Path) -> Iterator[GvisorProvider]:
    with providing(workspace) as provider:
        yield provider
