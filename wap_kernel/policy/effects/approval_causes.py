"""Find what a person must approve of the changes that are applied: obeyed files, and more than policy allows. Pure."""

from __future__ import annotations

from collections.abc import Collection, Container, Iterator, Sequence

from wap_kernel.model.changes import Change, ChangeKind, ChangeSet
from wap_kernel.model.paths import render_path
from wap_kernel.policy.effective import EffectivePolicy
from wap_kernel.policy.effects.judgement import ApprovalCause
from wap_kernel.policy.effects.path_rules import group_by_folder
from wap_kernel.policy.verdict import Verdict, VerdictKind

MAX_NAMED = 3
"""Paths that a reason names."""

OBEYED_RULE = "effects.obeyedFiles"
DELETIONS_RULE = "effects.maxDeletions"
UNKEPT_RULE = "effects.unkept"


def ask_about_changes(causes: Sequence[ApprovalCause], subject: str) -> Verdict | None:
    """Return the verdict that asks, with every cause in its reason; None without a cause."""
    if not causes:
        return None
    reason = "; it ".join(cause.reason for cause in causes)
    return Verdict(VerdictKind.ASK, causes[0].rule, f"{subject} {reason}", grantable=False)


def find_causes(
    changes: ChangeSet, policy: EffectivePolicy, unkept: Collection[str], git: Container[str]
) -> tuple[ApprovalCause, ...]:
    """Return the causes to ask about `changes`.

    `git` has the paths in a `.git`. Git deletes objects that it has packed; those are no deletions of files.
    """
    return tuple(_find_causes(changes, policy, unkept, git))


def _find_causes(
    changes: ChangeSet, policy: EffectivePolicy, unkept: Collection[str], git: Container[str]
) -> Iterator[ApprovalCause]:
    effects = policy.effects
    obeyed = _find_obeyed(changes, policy, git) if effects.obeyed_files else ()
    if obeyed:
        reason = f"changes {_count_files(len(obeyed))} that other programs obey: {_name_paths(obeyed)}"
        yield ApprovalCause(OBEYED_RULE, reason, frozenset(obeyed))
    if effects.max_deletions is not None:
        deleted = [change.path for change in changes if _is_deletion(change) and change.path not in git]
        if len(deleted) > effects.max_deletions:
            reason = f"deletes {_count_files(len(deleted))} that were there before: {_name_paths(deleted)}"
            yield ApprovalCause(DELETIONS_RULE, reason, frozenset(deleted))
    if effects.max_changes is not None:
        changed = sum("folder" not in (change.before.kind, change.after.kind) for change in changes)
        if changed > effects.max_changes:
            yield ApprovalCause("effects.maxChanges", f"changes {_count_files(changed)}")
    if effects.max_bytes is not None and changes.added_bytes > effects.max_bytes:
        yield ApprovalCause("effects.maxBytes", f"writes {changes.added_bytes:,} bytes")
    if effects.unkept is VerdictKind.ASK and unkept:
        lost = [change.path for change in changes if change.path in unkept]
        if lost:
            reason = f"changes {_count_files(len(lost))} that undo cannot bring back: {_name_paths(lost)}"
            yield ApprovalCause(UNKEPT_RULE, reason, frozenset(lost))


def _find_obeyed(changes: ChangeSet, policy: EffectivePolicy, git: Container[str]) -> list[str]:
    """Return the obeyed files among the changes; a folder only where nothing in it changed."""
    found = [
        entries[name]
        for folder, entries in group_by_folder(change for change in changes if change.path not in git).items()
        for name in policy.obeyed_among(folder, tuple(entries))
    ]
    found += [change for change in changes if change.source is not None and policy.find_obeyed(change.source)]
    files = {change.path for change in found if "folder" not in (change.before.kind, change.after.kind)}
    return sorted(files or {change.path for change in found})


def _is_deletion(change: Change) -> bool:
    return change.kind is ChangeKind.DELETED and change.before.kind != "folder"


def _count_files(number: int) -> str:
    return "1 file" if number == 1 else f"{number:,} files"


def _name_paths(paths: Sequence[str]) -> str:
    named = ", ".join(map(render_path, paths[:MAX_NAMED]))
    return named if len(paths) <= MAX_NAMED else f"{named}, ..."
