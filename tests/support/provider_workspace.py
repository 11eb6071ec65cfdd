"""A workspace on this machine, and every provider that shares its files."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from secrets import token_hex

import pytest

from wap_kernel.files.contained.root import Root
from wap_kernel.files.interface import NullGuard
from wap_kernel.model.changes import ChangeSet
from wap_kernel.model.command import CancelToken, Command, CommandOutcome, Confinement, OnChunk, Stream
from wap_kernel.providers import selection
from wap_kernel.providers.base import Probe, Provider, ResourceLimits
from wap_kernel.providers.layers.layer import Layer, LayerStore

LONG = 60.0
"""Seconds that no test reaches unless something hangs."""
GRACE = 1.0
"""Seconds between TERM and KILL; a busy machine needs some of it to deliver the first."""
SERVER = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8", "JUPYTER_TOKEN": "s3cret"}
CONFINING = ("bubblewrap", "gvisor")
ALL = ("local", *CONFINING)


class Guard(NullGuard):
    """Refuses nothing: what a command sees is the sandbox's business."""


class Journal:
    def note(self, name: str, path: str) -> None: ...
    def forget(self, name: str) -> None: ...


@lru_cache
def probe(name: str) -> Probe:
    return selection.probe(name)


def skip_unless_works(name: str) -> None:
    if not probe(name).works:
        pytest.skip(f"{name}: {probe(name).detail}")


def skip_if_lacking(name: str, *needs: str) -> None:
    """By the name of what an old build cannot do."""
    for need in needs:
        if probe(name).promises.get(need) is False:
            pytest.skip(f"{name} has no {need} here")


class Scene:
    """One provider at work in one folder."""

    def __init__(
        self,
        name: str,
        folder: Path,
        *,
        home: Path | None = None,
        secrets: tuple[Path, ...] = (),
        resources: ResourceLimits | None = None,
        environment: Mapping[str, str] = SERVER,
        state: Path | None = None,
        is_layered: bool = False,
    ) -> None:
        """With a `state` folder, commands can run on layers in it; if it `is_layered`, each has one of its own."""
        self.folder = folder
        self.is_layered = is_layered
        self.root = Root(str(folder), guard=Guard(), journal=Journal())
        self.provider: Provider = selection.choose(
            name,
            self.root,
            secrets=[str(path) for path in secrets],
            server_environment={"HOME": str(home or folder.parent / "home"), **environment},
            grace=GRACE,
            resources=resources,
            state_dir=None if state is None else str(state),
        ).provider

    @property
    def layers(self) -> LayerStore:
        assert self.provider.layers is not None
        return self.provider.layers

    def close(self) -> None:
        self.provider.close()
        self.root.close()

    def fresh(self, name: str = "case") -> Path:
        """An empty folder of that name in the workspace."""
        folder = self.folder / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        return folder

    def run(
        self,
        command: str | tuple[str, ...],
        *,
        cwd: str = ".",
        timeout: float = LONG,
        limit: int = 1 << 20,
        environment: Mapping[str, str] | None = None,
        env_allowlist: frozenset[str] | None = None,
        on_chunk: OnChunk | None = None,
        cancel: CancelToken | None = None,
        hidden: tuple[str, ...] = (),
        read_only: tuple[str, ...] = (),
        pinned: tuple[str, ...] = (),
        network: bool = False,
        layer: Layer | None = None,
    ) -> CommandOutcome:
        own = self.layers.create() if self.is_layered and layer is None else None
        try:
            confinement = Confinement(hidden, read_only, pinned, network, layer=layer or own)
            given = Command(command, timeout, limit, cwd, False, environment or {}, env_allowlist, confinement)
            return self.provider.run(given, on_chunk=on_chunk, cancel=cancel)
        finally:
            if own is not None:
                own.discard()

    def run_on_layer(self, command: str | tuple[str, ...], **options: object) -> tuple[CommandOutcome, ChangeSet]:
        """The outcome of a command on a layer, and what it would change; the layer is discarded."""
        layer = self.layers.create()
        try:
            return self.run(command, layer=layer, **options), layer.read_changes()  # type: ignore[arg-type]
        finally:
            layer.discard()

    def run_marked(self, command: str | tuple[str, ...], **options: object) -> tuple[CommandOutcome, list[int]]:
        """The outcome, and which processes of it still live."""
        mark = token_hex(8)
        environment = {**options.pop("environment", {}), "CASE_MARK": mark}  # type: ignore[dict-item]
        outcome = self.run(command, environment=environment, **options)  # type: ignore[arg-type]
        return outcome, alive(mark)


def alive(mark: str) -> list[int]:
    found: list[int] = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            texts = [Path("/proc", name, file).read_bytes() for file in ("environ", "cmdline")]
        except OSError:
            continue
        if any(mark.encode() in text for text in texts):
            found.append(int(name))
    return found


def cancelling(seen: bytes = b"ready") -> tuple[OnChunk, CancelToken]:
    """Cancels, from another thread, when the command has said that."""
    cancel = CancelToken()
    told = bytearray()

    def on_chunk(stream: Stream, chunk: bytes) -> None:
        told.extend(chunk)
        if seen in told:
            threading.Thread(target=cancel.request).start()

    return on_chunk, cancel


MakeScene = Callable[..., Scene]
