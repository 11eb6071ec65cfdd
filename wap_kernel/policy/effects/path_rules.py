"""Judge the paths of changes by the policy and the protected paths, folder by folder. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial

from wap_kernel.model.changes import Change
from wap_kernel.model.errors import PathClosed
from wap_kernel.model.paths import Access, join_path, render_path
from wap_kernel.policy.effects.judgement import EffectFacts, RefusedChange
from wap_kernel.policy.effects.repositories import GitFolder
from wap_kernel.policy.paths.guard import PolicyGuard

SPECIAL = "effects.special"


def refuse_paths(
    changes: Iterable[Change], guard: PolicyGuard, facts: EffectFacts, git: Mapping[str, GitFolder]
) -> dict[str, RefusedChange]:
    """Return the changes that write where the policy or a protected path forbids it.

    `git` has the paths in a `.git`: it is closed to the file tools and open to git, so the folder that holds the `.git`
    counts instead.
    """
    refused: dict[str, RefusedChange] = {}
    for change in changes:
        if change.after.kind == "special":
            reason = f"{render_path(change.path)} is a device, a pipe or a socket"
            refused[change.path] = RefusedChange(change.path, SPECIAL, reason)
        elif (refusal := _check_tree(change, guard, facts)) is not None:
            refused[change.path] = _name(change, refusal)
    refused.update(_refuse_in_git(changes, guard, git))
    for folder, entries in group_by_folder(change for change in changes if change.path not in git).items():
        if check_path(guard, folder, is_folder=True) is None:
            folders = partial(_list_folders, entries)
            hidden = guard.hidden_among(folder, tuple(entries), folders)
            names: Iterable[str] = {*hidden, *guard.read_only_among(folder, tuple(entries), folders)}
        else:
            names = entries
        for name in names:
            change = entries[name]
            closed = check_path(guard, change.path, is_folder=_is_folder(change))
            if closed is not None:
                refused.setdefault(change.path, _name(change, closed))
    return refused


def group_by_folder(changes: Iterable[Change]) -> dict[str, dict[str, Change]]:
    """Return the changes by folder and by name."""
    found: dict[str, dict[str, Change]] = {}
    for change in changes:
        folder, _, name = change.path.rpartition("/")
        found.setdefault(folder or ".", {})[name] = change
    return found


def check_path(guard: PolicyGuard, path: str, *, is_folder: bool) -> PathClosed | None:
    """Return the error of a write to `path`, or None."""
    try:
        guard.check(path, Access.WRITE, folder=is_folder)
    except PathClosed as refusal:
        return refusal
    return None


def _refuse_in_git(
    changes: Iterable[Change], guard: PolicyGuard, git: Mapping[str, GitFolder]
) -> Iterator[tuple[str, RefusedChange]]:
    tops = {folder.top for folder in git.values()}
    closed = {top: refusal for top in tops if (refusal := check_path(guard, top, is_folder=True)) is not None}
    for change in changes if closed else ():
        if change.path in git and git[change.path].top in closed:
            yield change.path, _name(change, closed[git[change.path].top])


def _check_tree(change: Change, guard: PolicyGuard, facts: EffectFacts) -> PathClosed | None:
    """Return the error of a change that brings a whole tree to a path: a moved folder, or what a link leads to.

    A moved folder is judged where it was and where it is. `.config -> mine` makes `mine/git` the person's settings.
    """
    source, path = change.source, change.path
    try:
        if change.after.kind == "link":
            guard.check_tree(path)
        if source is None:
            return None
        guard.check(source, Access.WRITE, folder=True)
        guard.check_tree(source)
        guard.check_tree(path)
        if guard.may_hold(source) or guard.may_hold(path):
            for below in facts.list_below(source):
                guard.check(join_path(source, below), Access.WRITE)
                guard.check(join_path(path, below), Access.WRITE)
    except PathClosed as refusal:
        return refusal
    return None


def _list_folders(entries: Mapping[str, Change]) -> set[str]:
    return {name for name, change in entries.items() if _is_folder(change)}


def _is_folder(change: Change) -> bool:
    return (change.after if change.after.kind != "absent" else change.before).kind == "folder"


def _name(change: Change, refusal: PathClosed) -> RefusedChange:
    return RefusedChange(change.path, str(refusal.details.get("rule", "policy")), refusal.message)
