"""Judge a ChangeSet: refuse single changes, and ask about the others where policy says so. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from wap_kernel.model.changes import Change, ChangeSet
from wap_kernel.model.errors import PermissionDenied
from wap_kernel.model.paths import Access
from wap_kernel.policy.effective import EffectivePolicy
from wap_kernel.policy.effects.judgement import EffectFacts, EffectJudgement, RefusedChange
from wap_kernel.policy.paths.guard import PolicyGuard

__all__ = ["EffectFacts", "EffectJudgement", "RefusedChange", "judge_changes"]


def judge_changes(changes: ChangeSet, policy: EffectivePolicy, facts: EffectFacts) -> EffectJudgement:
    """Return which of `changes` are refused, and whether a person is asked about the others."""
    guard = PolicyGuard(facts.protected, policy)
    return EffectJudgement(tuple(refused for change in changes for refused in _refuse(change, guard)))


def _refuse(change: Change, guard: PolicyGuard) -> Iterator[RefusedChange]:
    if change.after.kind == "special":
        yield RefusedChange(change.path, "effects.special", "Devices, pipes and sockets are not applied")
        return
    try:
        guard.check(change.path, Access.WRITE, folder=change.after.kind == "folder")
    except PermissionDenied as refusal:
        yield RefusedChange(change.path, str(refusal.details.get("rule", "policy")), refusal.message)
