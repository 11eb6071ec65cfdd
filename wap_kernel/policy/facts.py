"""The facts about a machine and a workspace that decisions need, and the check of a path against them. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from wap_kernel.model.errors import PermissionDenied
from wap_kernel.model.paths import PathAccess
from wap_kernel.policy.effective import EffectivePolicy
from wap_kernel.policy.git_remotes import PROTECTED_BRANCHES
from wap_kernel.policy.paths.protected import ProtectedPaths
from wap_kernel.policy.verdict import Verdict, VerdictKind


@dataclass(frozen=True)
class Facts:
    """The facts about the machine and the workspace that a decision needs."""

    accesses: tuple[PathAccess, ...]
    """The paths that the operation reaches, with their links resolved."""
    confined: bool
    """True where a sandbox confines commands."""
    resolve: Callable[[str], str | None]
    """A function that returns the real path of a program, see `Programs`."""
    home: str
    root: str
    layered: bool = False
    """True where the command runs on a Layer, so that policy judges its effect before it reaches the workspace."""
    by_agent: bool = False
    """True where an agent's token asks, and not a person."""
    is_missing: Callable[[str], bool] = lambda _: False
    """A function that tells whether no program of this name exists, see `Programs`."""
    size: int | None = None
    """Bytes of the file that is read, changed, appended to or copied, if it exists."""
    deletes: int = 0
    """Files that the operation deletes with their folder, counted up to one more than `effects.maxDeletions`."""
    unkept: tuple[str, ...] = ()
    """Files that the operation replaces or deletes and whose content cannot be kept for undo."""
    protected: ProtectedPaths | None = None
    protected_branches: tuple[str, ...] = PROTECTED_BRANCHES
    """Patterns of the branches to which every push needs an approval of its own."""
    remotes: tuple[str, ...] = ()
    """Patterns of the remotes that may be reached. Without any, git itself reports that there is none."""


def refuse_access(access: PathAccess, policy: EffectivePolicy, facts: Facts) -> Verdict | None:
    """Return the verdict that refuses `access`, or None. The guard refuses the same when a file is opened."""
    if facts.protected is not None:
        try:
            facts.protected.check(access.path, access.access)
        except PermissionDenied as refusal:
            return Verdict(VerdictKind.DENY, "protected", refusal.message, refusal.hint, closes_path=True)
    return policy.refusal(access.path, access.access, folder=access.folder)
