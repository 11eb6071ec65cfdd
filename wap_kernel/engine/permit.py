"""The options of one execution of an operation, and the files, limits and confinement that it may use."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from wap_kernel.files.interface import Files, Guard
from wap_kernel.model.changes import ChangeSet
from wap_kernel.model.command import Confinement, Deadline
from wap_kernel.model.results import Limits
from wap_kernel.policy.current import BoundPolicy
from wap_kernel.policy.effects.judge import EffectJudgement
from wap_kernel.policy.paths.sandbox_masks import Masks
from wap_kernel.policy.verdict import Verdict
from wap_kernel.providers.layers.layer import Layer

WALK_SECONDS = 30.0
"""Seconds that a listing, a search or the walk in search of masks may take."""


@dataclass(frozen=True)
class Permit:
    """The files, limits and confinement that one allowed operation may use."""

    files: Files
    """The files, guarded by `guard`."""
    guard: Guard
    limits: Limits
    """Limits of the result and of what may be written; never above those of the policy."""
    max_searched_size: int
    env_allowlist: frozenset[str] | None = None
    confine: Callable[[Files, Deadline], Masks] = lambda *_: Masks(Confinement())
    """A function that finds what a command may not see, and what is watched while it shares the workspace."""
    find_repositories: Callable[[Deadline], frozenset[str]] = lambda _: frozenset()
    """A function that finds the folders of git in the workspace, and the files and links named `.git`."""
    judge_effect: Callable[[ChangeSet, Layer], EffectJudgement] = lambda *_: EffectJudgement()
    """A function that judges what a command changed on its layer."""
    is_approved: bool = False
    """True if a person has approved the operation."""
    asks_for: Verdict | None = None
    """The approval that the words of a command need; it runs on its layer first, and a person sees its effect."""
    pending: str | None = None
    """The id of the layer on which the command has run, where a person has approved its effect since."""
    layer: Layer | None = None
    """The layer of an atomic or simulated batch, which takes all of its changes."""
    on_start: Callable[[], None] = lambda: None
    """A function that raises if the command must not start."""


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
