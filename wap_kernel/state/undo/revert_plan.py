"""Plan the revert of a run: steps in an order that works, and conflicts with later changes. Pure.

An interrupted revert may have done a part before: a restored path needs no step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import IntEnum

from wap_kernel.state.undo.change_store import RecordedChange
from wap_kernel.state.undo.file_image import FileImage


class StepKind(IntEnum):
    """The kinds of steps, in their order: removals first, and the modes of folders last."""

    REMOVE = 1
    REMOVE_FOLDER = 2
    MAKE_FOLDER = 3
    WRITE = 4
    LINK = 5
    SET_MODE = 6
    SET_FOLDER_MODE = 7


@dataclass(frozen=True)
class RevertStep:
    """A step of a revert at one path."""

    do: StepKind
    path: str
    wanted: FileImage


@dataclass
class RevertPlan:
    """The steps of a revert, and the paths that it cannot restore."""

    steps: list[RevertStep] = field(default_factory=list)
    conflicts: list[str] = field(default_factory=list)
    """Paths that changed since the run."""
    lost: list[str] = field(default_factory=list)
    """Paths whose before-image has no stored content."""
    changes: dict[str, RecordedChange] = field(default_factory=dict)
    """Changes that the steps revert, by path."""


def plan_revert(
    changes: Iterable[RecordedChange],
    current: Mapping[str, FileImage],
    has_content: Callable[[FileImage], bool] = lambda image: image.can_be_restored,
) -> RevertPlan:
    """Return the plan. `current` are the present images of the paths; `has_content` checks the store."""
    made = RevertPlan()
    for change in changes:
        path, wanted, now = change.path, change.before, current[change.path]
        if now.is_like(wanted):
            continue
        if not is_as_left(change, now):
            made.conflicts.append(path)
        if not now.has_content_of(wanted) and not has_content(wanted):
            made.lost.append(path)
            continue
        made.changes[path] = change
        made.steps += _steps(path, wanted, now)
    made.steps.sort(key=_order)
    return made


def is_as_left(change: RecordedChange, now: FileImage) -> bool:
    """Return whether only the run, or an interrupted revert of it, has changed the path."""
    before, after = change.before, change.after
    if after is None or change.is_broken:
        return False
    if now.is_like(after):
        return True
    if now.kind == "folder":  # made again, but not yet given its mode; or opened, so that something could be put back
        return before.kind == "folder" and (
            after.kind != "folder" or now.mode in (before.opened().mode, after.opened().mode)
        )
    return now.kind == "absent" and "folder" in (before.kind, after.kind) and after.kind != "absent" != before.kind


def _steps(path: str, wanted: FileImage, now: FileImage) -> Iterator[RevertStep]:
    if now.kind == "folder" and wanted.kind != "folder":
        yield RevertStep(StepKind.REMOVE_FOLDER, path, wanted)
    elif now.kind not in ("folder", "absent") and wanted.kind in ("folder", "absent"):
        yield RevertStep(StepKind.REMOVE, path, wanted)
    if wanted.kind == "folder":
        if now.kind != "folder":
            yield RevertStep(StepKind.MAKE_FOLDER, path, wanted)
        yield RevertStep(StepKind.SET_FOLDER_MODE, path, wanted)
    elif wanted.kind == "file":
        yield RevertStep(StepKind.SET_MODE if now.has_content_of(wanted) else StepKind.WRITE, path, wanted)
    elif wanted.kind == "link":
        yield RevertStep(StepKind.LINK, path, wanted)


def _order(step: RevertStep) -> tuple[int, int, str]:
    """Return the sort key: folders are made from above, and removed and closed from below."""
    depth = step.path.count("/")
    return step.do, depth if step.do is StepKind.MAKE_FOLDER else -depth, step.path
