"""Judge a ChangeSet: refuse single changes, and ask about the others where policy says so. Pure.

The cost is that of the changes: patterns are matched folder by folder, and files are read only in repositories.
"""

from __future__ import annotations

from wap_kernel.model.changes import ChangeSet
from wap_kernel.model.policy import VerdictKind
from wap_kernel.policy.effective import EffectivePolicy
from wap_kernel.policy.effects.approval_causes import UNKEPT_RULE, ask_about_changes, find_causes
from wap_kernel.policy.effects.closure import refuse_dependents
from wap_kernel.policy.effects.judgement import EffectFacts, EffectJudgement, RefusedChange
from wap_kernel.policy.effects.path_rules import refuse_paths
from wap_kernel.policy.effects.repositories import Repositories
from wap_kernel.policy.effects.repository_rules import judge_repositories
from wap_kernel.policy.paths.guard import PolicyGuard

__all__ = ["EffectFacts", "EffectJudgement", "RefusedChange", "judge_changes"]


def judge_changes(changes: ChangeSet, policy: EffectivePolicy, facts: EffectFacts) -> EffectJudgement:
    """Return which of `changes` are refused, and whether a person is asked about the others."""
    git = judge_repositories(changes, Repositories(changes, facts), facts)
    refused = refuse_paths(changes, PolicyGuard(facts.protected.snapshot(), policy), facts, git.inside) | git.refused
    if policy.effects.unkept is VerdictKind.DENY:
        refused |= {
            change.path: RefusedChange(change.path, UNKEPT_RULE, "Undo cannot bring back what was there before")
            for change in changes
            if change.path in facts.unkept
        }
    if refused:
        refuse_dependents(changes, refused)
    applied = ChangeSet(tuple(change for change in changes if change.path not in refused)) if refused else changes
    causes = find_causes(applied, policy, facts.unkept, git.inside)
    return EffectJudgement(
        refused=tuple(refused[change.path] for change in changes if change.path in refused),
        ask=ask_about_changes(causes, facts.subject),
        causes=causes,
        allows_loss=policy.effects.unkept is VerdictKind.ALLOW,
        rewritten={path: content for path, content in git.rewritten.items() if path not in refused},
        omitted=tuple(each for each in git.omitted if each.path not in refused),
    )
