"""Options of one execution: the approval, the policy and the overlay that a run already has."""

from __future__ import annotations

from dataclasses import dataclass

from wap_kernel.files.interface import Files
from wap_kernel.policy.current import BoundPolicy


@dataclass(frozen=True)
class ExecutionOptions:
    """Options of one execution that only the engine understands."""

    approved: bool = False
    """A person approved this operation, so a verdict of ask allows it. A verdict of deny still denies it."""
    policy: BoundPolicy | None = None
    """The policy, where the run looked it up a moment ago for this operation and its neighbours."""
    overlay: Files | None = None
    """The files of a dry run, which receive the changes instead of the workspace."""


DEFAULTS = ExecutionOptions()
