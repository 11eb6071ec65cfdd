"""Refuse the changes that cannot be applied without a refused one: a file in a folder that is not made. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from wap_kernel.model.changes import Change, ChangeKind, ChangeSet
from wap_kernel.model.paths import render_path
from wap_kernel.policy.effects.judgement import RefusedChange

_MADE = (ChangeKind.CREATED, ChangeKind.CHANGED, ChangeKind.MOVED)


def refuse_dependents(changes: ChangeSet, refused: dict[str, RefusedChange]) -> None:
    """Add to `refused` what depends on it: changes below a folder that is not made, deletions above what stays."""
    by_path = {change.path: change for change in changes}
    pending = [by_path[path] for path in refused]
    while pending:
        found = [*_below(changes, pending), *_above(by_path, pending)]
        pending = []
        for change, cause in found:
            if change.path not in refused:
                reason = f"{refused[cause.path].reason} ({render_path(cause.path)})"
                refused[change.path] = RefusedChange(change.path, refused[cause.path].rule, reason)
                pending.append(change)


def _below(changes: ChangeSet, refused: list[Change]) -> Iterator[tuple[Change, Change]]:
    """Yield the changes in folders that are not made, or that stay where they were; each with its cause."""
    bases = {change.path: change for change in refused if change.after.kind == "folder" and change.kind in _MADE}
    bases |= {change.source: change for change in refused if change.source is not None}
    for change in changes if bases else ():
        for path in (change.path, *list_ancestors(change.path)):
            if path in bases and bases[path] is not change:
                yield change, bases[path]
                break


def _above(by_path: dict[str, Change], refused: list[Change]) -> Iterator[tuple[Change, Change]]:
    """Yield the folders that would be deleted or replaced although a part of them stays; each with its cause."""
    for cause in refused:
        stays = cause.source if cause.source is not None else cause.path
        for path in list_ancestors(stays) if cause.before.kind != "absent" or cause.source is not None else ():
            change = by_path.get(path)
            if change is not None and change.after.kind != "folder":
                yield change, cause


def list_ancestors(path: str) -> Iterator[str]:
    """Yield the folders above `path`, the nearest first, without the root."""
    while "/" in path:
        path = path.rpartition("/")[0]
        yield path
