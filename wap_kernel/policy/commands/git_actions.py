"""Evaluate git actions by the rules for the same words in a shell. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from wap_kernel.model.git.operations import GitAction, GitTransfer
from wap_kernel.model.paths import Access, PathAccess
from wap_kernel.policy.commands.evaluate import evaluate_commands
from wap_kernel.policy.commands.path_arguments import evaluate_arguments
from wap_kernel.policy.effective import EffectivePolicy
from wap_kernel.policy.facts import Facts, refuse_access
from wap_kernel.policy.git_remotes import REMOTES_RULE, Remote, RemoteVerb, list_remote_effects, refuse_remote
from wap_kernel.policy.shell.parser import Script
from wap_kernel.policy.verdict import Verdict, VerdictKind


def evaluate_git_action(
    operation: GitAction, script: Script, policy: EffectivePolicy, facts: Facts
) -> Iterator[Verdict]:
    """Evaluate the rules for the same words in a shell, so that one policy speaks for both."""
    if not policy.shell_enabled:
        yield Verdict(VerdictKind.DENY, "shell.enabled", "Shell is disabled")
        return
    if (closed := refuse_access(PathAccess(operation.folder, Access.READ, folder=True), policy, facts)) is not None:
        yield closed
        return
    if operation.url is not None and facts.remotes and (error := refuse_remote(operation.url, facts.remotes)):
        yield Verdict(VerdictKind.DENY, REMOTES_RULE, error.message, error.hint)
    # First, so that a person who decides on both reads this one.
    if operation.action == "push":
        remote = Remote(operation.url or "the remote", protected=facts.protected_branches)
        for effect in list_remote_effects(
            "push", remote, operation.branch, force=operation.force, delete=operation.delete
        ):
            if effect.verb.asks:
                kind = VerdictKind.DENY if _is_blocked(effect.verb, policy) else VerdictKind.ASK
                yield Verdict(kind, effect.verb.value, f"It would {effect.text}", grantable=False)
    # Hooks, filters and helpers are off, so nothing of the workspace runs whether or not a sandbox is around it.
    # The server runs git itself, so its words count as they do without a Layer.
    facts = replace(facts, confined=True, layered=False)
    is_local = not isinstance(operation, GitTransfer)
    granting = []
    for layer in policy.layers:
        verdicts = [each.verdict for each in evaluate_commands(script, layer.shell, facts)]
        granting.append(any(verdict.network for verdict in verdicts))
        for verdict in verdicts:
            # A local action that no rule names is known all the same: it changes files, and those are checked as files.
            if not (is_local and verdict.rule == "unknown" and verdict.kind is VerdictKind.ASK):
                yield verdict
    if not (is_local or policy.allows_network(granting)):
        yield Verdict(VerdictKind.DENY, "network.access", "Network access is disabled")
    yield from evaluate_arguments(
        script, operation.folder, policy, facts, lambda access: refuse_access(access, policy, facts)
    )


def _is_blocked(verb: RemoteVerb, policy: EffectivePolicy) -> bool:
    """Return whether a layer blocks the verb by its own name among the commands: `git.push.force`."""
    return any(verb.value in layer.shell.blocked_commands for layer in policy.layers)
