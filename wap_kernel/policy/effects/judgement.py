"""The facts that a decision on changes needs, and the decision. Pure data."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from posixpath import dirname

from wap_kernel.model.changes import ChangeSet
from wap_kernel.policy.paths.protected import ProtectedPaths
from wap_kernel.policy.verdict import Verdict


@dataclass(frozen=True)
class EffectFacts:
    """The facts about the workspace that a decision on changes needs. All paths are relative to the root."""

    protected: ProtectedPaths
    read: Callable[[str], bytes | None]
    """A function that returns the content of a changed file after the change; None where it is too large or no file."""
    existed: Callable[[str], bool]
    """A function that tells whether a path was in the workspace before the changes; a last link is not followed."""
    list_below: Callable[[str], Iterable[str]] = lambda _: ()
    """A function that lists what was below a folder before the changes, as paths relative to that folder.

    It is called only for moved folders where a pattern may close something below.
    """
    root: str = "/"
    """The absolute path of the root, by which git names folders of worktrees."""
    unkept: Collection[str] = ()
    """The changed paths whose content before the change cannot be kept for undo."""
    subject: str = "The command"
    """The one that made the changes, as the reason of a verdict names it."""


@dataclass(frozen=True)
class RefusedChange:
    """A change that is not applied, or a part of a file that is left out."""

    path: str
    rule: str
    reason: str


@dataclass(frozen=True)
class ApprovalCause:
    """One reason why changes need an approval, and the paths that it is about."""

    rule: str
    reason: str
    """The reason as the rest of a sentence: `deletes 200 files ...`."""
    paths: frozenset[str] = frozenset()
    """The paths; none where only the number or the size of all changes counts."""


@dataclass(frozen=True)
class EffectJudgement:
    """The decision on a ChangeSet: which changes are refused, and whether a person is asked about the others."""

    refused: tuple[RefusedChange, ...] = ()
    """The changes that are not applied, with all below a refused folder, in the order of the ChangeSet."""
    ask: Verdict | None = None
    """The verdict that asks about the changes that are left; None where they are applied without an approval."""
    causes: tuple[ApprovalCause, ...] = ()
    """The causes of the verdict that asks."""
    allows_loss: bool = False
    """True where policy lets changes be applied without an approval whose earlier content cannot be kept for undo."""
    rewritten: Mapping[str, bytes] = field(default_factory=dict)
    """The files that are applied with this content instead of their own: the `config` of new repositories."""
    omitted: tuple[RefusedChange, ...] = ()
    """The parts that are left out of rewritten files."""

    @cached_property
    def refused_paths(self) -> frozenset[str]:
        return frozenset(change.path for change in self.refused)

    @property
    def approval_paths(self) -> frozenset[str]:
        """Return the paths that the verdict is about."""
        return frozenset(path for cause in self.causes for path in cause.paths)

    def select_applied(self, changes: ChangeSet) -> ChangeSet:
        """Return the changes that are not refused."""
        if not self.refused:
            return changes
        return ChangeSet(tuple(change for change in changes if change.path not in self.refused_paths))

    @property
    def named(self) -> tuple[RefusedChange, ...]:
        """Return what an answer names: the topmost refused paths, and the parts that are left out."""
        topmost = (change for change in self.refused if dirname(change.path) not in self.refused_paths)
        return (*topmost, *self.omitted)
