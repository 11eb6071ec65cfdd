"""The gvisor provider at work, and the processes of its sandboxes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.provider_workspace import Guard, Journal
from tests.support.time_limits import PATIENCE
from tests.support.time_limits import wait_until as wait_until
from wap_kernel.files.contained.root import Root
from wap_kernel.model.command import CancelToken, Command, CommandOutcome, Confinement
from wap_kernel.providers.base import Provider, ResourceLimits
from wap_kernel.providers.gvisor.provider import GvisorProvider
from wap_kernel.providers.process import supervisor

GUARDED = Confinement(hidden=(".env", "keys"), read_only=(".git/config",), pinned=(".git",))


def furnished(folder: Path) -> Path:
    """A workspace in which there is what `GUARDED` guards."""
    (folder / "keys").mkdir(parents=True)
    (folder / ".git").mkdir()
    for name in (".env", "keys/private", ".git/config"):
        (folder / name).write_text("SECRET")
    return folder


@contextmanager
def providing(
    workspace: Path,
    *,
    limits: ResourceLimits | None = None,
    grace: float = 0.2,
    idle: float = 300.0,
    layers: Path | None = None,
) -> Iterator[GvisorProvider]:
    root = Root(str(workspace), guard=Guard(), journal=Journal())
    folder = None if layers is None else str(layers)
    provider = GvisorProvider(root, secrets=(), grace=grace, resources=limits, idle=idle, layer_folder=folder)
    try:
        yield provider
    finally:
        provider.close()
        root.close()


def run(
    provider: Provider,
    command: str | tuple[str, ...],
    *,
    timeout: float = PATIENCE,
    confinement: Confinement = GUARDED,
    cancel: CancelToken | None = None,
) -> CommandOutcome:
    return provider.run(Command(command, timeout=timeout, output_limit=10_000, confinement=confinement), cancel=cancel)


def of_sandboxes(folder: str) -> list[int]:
    """The processes of runsc that have to do with a folder."""
    found = []
    for pid in supervisor.list_process_numbers():
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                if folder.encode() in file.read():
                    found.append(pid)
        except OSError:
            continue
    return found


def script(program: str, workspace: Path) -> subprocess.Popen[str]:
    """Another server, which may be killed or be another user's."""
    return subprocess.Popen(
        [sys.executable, "-c", program, workspace],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
