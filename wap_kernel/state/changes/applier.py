"""Apply the changes of a command to the workspace: all of them, or all but conflicts, by a journal."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from wap_kernel.model.changes import Change, ChangeSet
from wap_kernel.state.changes.history import ChangeHistory


@dataclass(frozen=True)
class ApplyResult:
    """The changes that were applied, and the paths where the workspace was left as it is."""

    applied: tuple[Change, ...] = ()
    conflicts: tuple[str, ...] = ()
    """Paths that changed in the workspace too since the layer began; an atomic run with one of them applies nothing."""
    unkept: tuple[str, ...] = field(default=())
    """Paths that were left since their before-images exceed the limits of the store."""


class ChangeApplier:
    """Applies ChangeSets."""

    def __init__(self, history: ChangeHistory) -> None:
        raise NotImplementedError

    def apply(
        self,
        upper: str,
        changes: ChangeSet,
        *,
        run: str,
        position: int,
        began_ns: int,
        atomic: bool,
        refused: Collection[str] = (),
        rewritten: Mapping[str, bytes] = MappingProxyType({}),
        overwrite: Collection[str] = (),
    ) -> ApplyResult:
        """Apply `changes`, whose new files are in the folder `upper` of an overlay.

        What changed in the workspace after `began_ns` is a conflict, except for the paths in `overwrite`. `refused`
        paths, with all below, are not applied. Files in `rewritten` get this content. Whatever is not applied stays in
        `upper`. Raise NoSpace, with the workspace as before, where the disk is full.
        """
        raise NotImplementedError
