"""Options of one execution: the approval, the policy, the overlay or the layer that a run already has."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from wap_kernel.files.interface import Files
from wap_kernel.policy.current import BoundPolicy
from wap_kernel.providers.layers.layer import Layer


@dataclass(frozen=True)
class ExecutionOptions:
    """Options of one execution that only the engine understands."""

    approved: bool = False
    """A person approved this operation, so a verdict of ask allows it. A verdict of deny still denies it."""
    policy: BoundPolicy | None = None
    """The policy, where the run looked it up a moment ago for this operation and its neighbours."""
    overlay: Files | None = None
    """The files of a dry run where there are no layers; they receive the changes instead of the workspace."""
    layer: Layer | None = None
    """The layer of an atomic or simulated batch, which receives the changes."""
    pending: str | None = None
    """The layer on which the command has run already, where a person has approved its effect since."""
    on_start: Callable[[], None] = lambda: None
    """A function that raises if the command must not start: it is not the one any more that a person approved."""


DEFAULTS = ExecutionOptions()
