"""The layer of an atomic or simulated run: it takes all changes of the run, and is applied or discarded at the end.

The layer survives a pause for approval and the process that executes the run. On threads.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any, Literal

from wap_kernel.engine.effects.approval import OWNER
from wap_kernel.engine.layered_commands import JudgeEffect, LayeredCommands
from wap_kernel.engine.workspace import Workspace
from wap_kernel.files.interface import Files
from wap_kernel.model.caller import CallContext
from wap_kernel.model.errors import NotFound, ProviderUnavailable
from wap_kernel.model.paths import render_path
from wap_kernel.model.run import Approval, Run
from wap_kernel.providers.layers.layer import Layer
from wap_kernel.state.changes.applier import ApplyResult

BATCH = "batch"
"""The reason for which the layer of a run is kept while the run goes on."""


class BatchLayer:
    """The layer of one run. It is made with the first step and mounted while this process executes the run."""

    def __init__(self, layered: LayeredCommands, run: Run) -> None:
        self._layered = layered
        self._run = run
        self._layer: Layer | None = None

    def open(self) -> Layer:
        """Return the layer, mounted; raise NotFound where it is gone with what the run has done so far."""
        if self._layer is None:
            found = self._layered.find_layers(self._run.id, (BATCH,))
            if not found and self._run.position:
                raise NotFound("The layer of this run is gone, and with it what the run changed.", hint="Run it again.")
            layer = found[0] if found else self._layered.layers.create()
            try:
                if not found:
                    layer.write_note(OWNER, {"run": self._run.id, "reason": BATCH})
                layer.hold()
            except BaseException:
                layer.close()
                raise
            self._layer = layer  # only now: until it is mounted, its files are those of the workspace
        return self._layer

    def release(self) -> None:
        """Unmount the layer, which stays on disk."""
        if self._layer is not None:
            self._layer.close()
            self._layer = None

    def apply(self, workspace: Workspace, approval: Approval | None = None) -> ApplyResult:
        """Apply the changes of the whole run, all or none; a conflict keeps the layer.

        Raise UnapprovedEffect where a person has to see the changes first. `approval` is the one that showed them.
        """
        layer = self.open()
        layer.release()
        permit = workspace.judge.permit(workspace.judge.bind(self._run.caller), network=False)
        permit = replace(permit, pending=None if approval is None else approval.layer)
        context = CallContext(dialect=self._run.dialect, tool="apply", run=self._run.id, position=self._run.count)
        result = self._layered.apply_batch(layer, self._make_judge(workspace), permit, context)
        self.release()
        if result.conflicts:
            self.keep("conflict")
        else:
            self.discard()
        return result

    def approve(self, workspace: Workspace, approval: Approval) -> None:
        """Note that a person has approved what the last operation changed, so that the end of the run asks no more."""
        self._layered.approve_batch(self.open(), self._make_judge(workspace), str(approval.details.get("rule")))

    def _make_judge(self, workspace: Workspace) -> JudgeEffect:
        return partial(workspace.judge.judge_effect, caller=self._run.caller)

    def discard(self) -> None:
        """Remove the layer with everything that the run has changed so far."""
        self.release()
        for layer in self._layered.find_layers(self._run.id, (BATCH,)):
            layer.discard()

    def keep(self, reason: Literal["cancelled", "conflict"]) -> None:
        """Keep the layer for a while, so that a person can still apply it."""
        self.release()
        for layer in self._layered.find_layers(self._run.id, (BATCH,)):
            layer.write_note(OWNER, {"run": self._run.id, "reason": reason})
            layer.close()
        self._layered.bound_retained()


def find_batch_layer(workspace: Workspace, run: Run) -> BatchLayer | None:
    """Return the layer of a run, None for a run that changes the workspace step by step."""
    if not run.options.on_layer:
        return None
    if workspace.layered is None:
        raise ProviderUnavailable(
            "The run works on a layer, and commands have no layers here any more.",
            hint="Start the server with the provider that the run began with, or cancel the run.",
        )
    return BatchLayer(workspace.layered, run)


@contextmanager
def open_batch_files(workspace: Workspace, run: Run) -> Iterator[Files | None]:
    """Yield the files as a run that waits for an approval left them, None where they are those of the workspace."""
    batch = find_batch_layer(workspace, run)
    if batch is None:
        yield None
        return
    try:
        yield batch.open().files.guarded_by(workspace.judge.bind(run.caller).guard)
    finally:
        batch.release()


def describe_conflicts(conflicts: Sequence[str]) -> tuple[str, dict[str, Any]]:
    """Return the message and the details of the event of an atomic run that met conflicts when it was applied."""
    named = [render_path(path) for path in conflicts]
    message = (
        f"Files that the run changes were changed meanwhile: {', '.join(named[:10])}. Nothing of the run was applied."
    )
    return message, {"atomic": True, "conflicts": named}
