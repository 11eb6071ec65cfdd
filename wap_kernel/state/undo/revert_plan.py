"""What it takes to undo a run: steps in an order that works, and where a later change would be lost. Pure.

Half of it may have been done before, by a revert that was interrupted: what is as it was needs no step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import IntEnum

from wap_kernel.state.undo.change_store import Change
from wap_kernel.state.undo.file_image import Image


class Do(IntEnum):
    """In this order: what is in the way goes first, and folders are closed when all is in them."""

    REMOVE = 1
    REMOVE_FOLDER = 2
    MAKE_FOLDER = 3
    WRITE = 4
    LINK = 5
    SET_MODE = 6
    SET_FOLDER_MODE = 7


@dataclass(frozen=True)
class Step:
    do: Do
    path: str
    wanted: Image


@dataclass
class Plan:
    steps: list[Step] = field(default_factory=list)
    conflicts: list[str] = field(default_factory=list)
    """What stands there now is not what the run left there."""
    lost: list[str] = field(default_factory=list)
    """What stood there was not kept."""
    changes: dict[str, Change] = field(default_factory=dict)
    """Those that the steps undo, by path."""


def plan(
    changes: Iterable[Change],
    current: Mapping[str, Image],
    has_content: Callable[[Image], bool] = lambda image: image.can_be_restored,
) -> Plan:
    """`current`: what stands at the changed paths now, hashed. `has_content`: whether it can still be put back."""
    made = Plan()
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


def is_as_left(change: Change, now: Image) -> bool:
    """Whether nothing but the run, or a revert of it that was interrupted, has changed what stands there."""
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


def _steps(path: str, wanted: Image, now: Image) -> Iterator[Step]:
    if now.kind == "folder" and wanted.kind != "folder":
        yield Step(Do.REMOVE_FOLDER, path, wanted)
    elif now.kind not in ("folder", "absent") and wanted.kind in ("folder", "absent"):
        yield Step(Do.REMOVE, path, wanted)
    if wanted.kind == "folder":
        if now.kind != "folder":
            yield Step(Do.MAKE_FOLDER, path, wanted)
        yield Step(Do.SET_FOLDER_MODE, path, wanted)
    elif wanted.kind == "file":
        yield Step(Do.SET_MODE if now.has_content_of(wanted) else Do.WRITE, path, wanted)
    elif wanted.kind == "link":
        yield Step(Do.LINK, path, wanted)


def _order(step: Step) -> tuple[int, int, str]:
    """Folders are made from above and removed and closed from below; files go before the folders that they are in."""
    depth = step.path.count("/")
    return step.do, depth if step.do is Do.MAKE_FOLDER else -depth, step.path
