"""A workspace whose commands run on layers, each of which is applied when its command has ended."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.support.change_workspace import ChangeWorkspace
from tests.support.provider_workspace import LONG
from wap_kernel.model.changes import ChangeSet
from wap_kernel.model.command import Command, CommandOutcome, Confinement
from wap_kernel.providers import selection

SERVER = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8", "HOME": "/nonexistent"}


class AppliedCommands(ChangeWorkspace):
    """The folders `ws` and `state` below `base`."""

    def __init__(self, base: Path, provider: str = "bubblewrap", environment: Mapping[str, str] = SERVER) -> None:
        super().__init__(base / "ws", base / "state")
        self.provider = selection.choose(
            provider, self.root, secrets=[self.state], server_environment=environment, state_dir=self.state
        ).provider
        if self.provider.layers is None:
            pytest.skip("no layer can be mounted here")

    def close(self) -> None:
        self.provider.close()
        super().close()

    def execute(
        self, script: str | tuple[str, ...], *, timeout: float = LONG, run: str = "run"
    ) -> tuple[CommandOutcome, ChangeSet]:
        """Run a command on a layer and apply what it changed."""
        assert self.provider.layers is not None
        layer = self.provider.layers.create()
        try:
            outcome = self.provider.run(Command(script, timeout, 1 << 20, confinement=Confinement(layer=layer)))
            changes = layer.read_changes()
            done = self.applier.apply(layer.upper, changes, run=run, position=0, began_ns=layer.began_ns, atomic=False)
            assert (done.conflicts, done.unkept) == ((), ())
            return outcome, changes
        finally:
            layer.discard()
