"""Decide on an operation: allow, ask or deny, with the rule and the reason. Pure.

Every layer has a say and the strictest verdict counts, so that one more layer can only narrow the policy and the order
of the layers does not matter. A grant, by which a person allowed the same before, then turns ask into allow.

An operation is judged once: `judge` parses its command line, evaluates the rules, and returns a `Judgement` with all
that later steps need (the verdict to enforce, the grant to offer).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from wap_kernel.model.errors import Code, WapError
from wap_kernel.model.git.operations import GitAction
from wap_kernel.model.operations import CopyFile, ModifyFile, Operation, ReadFile, RunCommand, WriteFile
from wap_kernel.model.paths import Access, PathAccess
from wap_kernel.model.policy import Grant, Policy
from wap_kernel.model.tool_names import find_confirming_tool
from wap_kernel.policy.commands.evaluate import CommandVerdict, evaluate_commands, opens_network
from wap_kernel.policy.commands.git_actions import evaluate_git_action
from wap_kernel.policy.commands.mentions import CommandPattern, Mentions
from wap_kernel.policy.commands.path_arguments import evaluate_arguments
from wap_kernel.policy.commands.redirections import evaluate_redirections
from wap_kernel.policy.commands.rule_match import split_words
from wap_kernel.policy.effective import EffectivePolicy
from wap_kernel.policy.effects.approval_causes import DELETIONS_RULE, MAX_NAMED, OBEYED_RULE, UNKEPT_RULE
from wap_kernel.policy.facts import Facts, refuse_access
from wap_kernel.policy.grants import covers, grant_for_git, grant_for_operation
from wap_kernel.policy.shell.parser import Script, parse_command
from wap_kernel.policy.shell.syntax import SimpleCommand
from wap_kernel.policy.verdict import Verdict, VerdictKind
from wap_kernel.providers.process import environment

__all__ = ["ALLOWED", "Facts", "Judgement", "PathAccess", "Verdict", "VerdictKind", "decide", "judge"]

ALLOWED = Verdict(VerdictKind.ALLOW, "default", "Nothing forbids it.")
ALLOWED_WITH_NETWORK = replace(ALLOWED, network=True)


@dataclass(frozen=True)
class Judgement:
    """The verdict on one operation, and the grant that a person can give."""

    operation: Operation
    verdict: Verdict
    grant: Grant | None = None
    """The narrowest grant with which the operation is allowed. None: no grant can allow it, or it needs none."""


@dataclass(frozen=True)
class _Finding:
    """One of the verdicts that count, with the commands and the layer that it is about."""

    verdict: Verdict
    commands: tuple[SimpleCommand, ...] = ()
    layer: Policy | None = None


def decide(operation: Operation, policy: EffectivePolicy, facts: Facts, grants: Iterable[Grant] = ()) -> Verdict:
    """Return the strictest of all verdicts on `operation`. The guard checks the paths again when files are opened."""
    return judge(operation, policy, facts, grants).verdict


def judge(operation: Operation, policy: EffectivePolicy, facts: Facts, grants: Iterable[Grant] = ()) -> Judgement:
    """Return the verdict on `operation` and the grant that would allow it."""
    script = _parse_script(operation)
    if isinstance(operation, RunCommand) and operation.isolation == "shared":
        facts = replace(facts, layered=False)
    findings = _collect_findings(operation, script, policy, facts)
    denied = next((each.verdict for each in findings if each.verdict.kind is VerdictKind.DENY), None)
    if denied is not None:
        return Judgement(operation, replace(denied, grantable=False, network=False))
    network = isinstance(operation, RunCommand) and _opens_network(findings, policy, facts)
    asking = sorted(
        (each for each in findings if each.verdict.kind is VerdictKind.ASK),
        key=lambda each: not each.verdict.destructive,
    )
    if not asking:
        return Judgement(operation, ALLOWED_WITH_NETWORK if network else ALLOWED)
    grants = tuple(grants)
    grant = _grant_for(operation, script, policy, facts, asking)
    if covers(grants, grant):
        reason = f"A person allowed it here: {asking[0].verdict.reason}"
        return Judgement(operation, Verdict(VerdictKind.ALLOW, "grant", reason, network=network), grant)
    left = next(each for each in asking if not covers(grants, _grant_for(operation, script, policy, facts, [each])))
    # The server itself transfers for git, so a transfer has the network wherever it is not denied.
    about = _describe_network(network or isinstance(operation, GitAction)) if left.verdict.network else None
    suggestion = left.verdict.suggestion or about
    verdict = replace(
        left.verdict,
        network=network,
        grantable=grant is not None,
        suggestion=suggestion,
        previewable=facts.layered
        and policy.preview
        and (policy.allows_network() or not network)
        and all(each.verdict.previewable for each in asking),
    )
    return Judgement(operation, verdict, grant)


def _describe_network(is_open: bool) -> str:
    """Say whether a command gets the network that its own rule opens. The rules of one layer cannot tell."""
    if is_open:
        return "It gets the network once it is approved."
    return (
        "It gets no network, also when it is approved: a layer of the policy or another command of the line forbids it."
    )


# -- grants


def _grant_for(
    operation: Operation, script: Script, policy: EffectivePolicy, facts: Facts, asking: Sequence[_Finding]
) -> Grant | None:
    """Return the grant that covers all of `asking`."""
    if isinstance(operation, GitAction):
        return _grant_for_git(operation, asking)
    needs_commands = isinstance(operation, RunCommand)
    if not all(each.verdict.grantable and (each.commands or not needs_commands) for each in asking):
        return None
    commands = tuple(dict.fromkeys(command for each in asking for command in each.commands))
    grant = grant_for_operation(operation, facts.accesses, script, commands)
    return None if grant is None or _names_blocked(grant, policy) else grant


def _grant_for_git(operation: GitAction, asking: Sequence[_Finding]) -> Grant | None:
    """Return the grant for one action, remote and branch.

    The call must name both: what the repository calls `origin` or its current branch may be another one tomorrow. What
    the other actions of git do depends on what the repository holds by then.
    """
    is_named = operation.url is not None and (operation.branch is not None or operation.action != "push")
    if operation.action not in ("fetch", "pull", "push") or not is_named:
        return None
    if not all(each.verdict.grantable for each in asking):
        return None
    return grant_for_git(operation)


def _names_blocked(grant: Grant, policy: EffectivePolicy) -> bool:
    entries = [entry for layer in policy.layers for entry in layer.shell.blocked_commands]
    denying = (rule for layer in policy.layers for rule in layer.shell.rules if rule.verdict is VerdictKind.DENY)
    entries += [rule.command for rule in denying if not (rule.having or rule.targets)]
    words = [word for form in grant.commands if form.options is None for word in form.words[1:]]
    return Mentions(words).first(CommandPattern(split_words(entry)[:1]) for entry in entries) is not None


# -- findings


def _parse_script(operation: Operation) -> Script:
    if isinstance(operation, RunCommand):
        return replace(parse_command(operation.line), variable_values=tuple(operation.environment.values()))
    return parse_command(operation.line) if isinstance(operation, GitAction) else Script(())


def _collect_findings(operation: Operation, script: Script, policy: EffectivePolicy, facts: Facts) -> list[_Finding]:
    """Return every verdict on `operation`. `EffectivePolicy.only_guard_decides` relies on what is asked here."""
    if policy.broken is not None:
        return [_Finding(policy.broken)]
    findings = [
        _Finding(verdict)
        for verdict in (
            *_check_paths(facts, policy),
            *_check_sizes(operation, policy, facts),
            *_check_obeyed_files(facts, policy),
            *_check_deletions(facts, policy),
            *_check_unkept(facts, policy),
        )
    ]
    if isinstance(operation, RunCommand):
        findings += _evaluate_command(operation, script, policy, facts)
    if isinstance(operation, GitAction):
        findings += map(_Finding, evaluate_git_action(operation, script, policy, facts))
    if not policy.only_guard_decides:
        findings += _require_confirmation(operation, script, policy)
    return findings


def _require_confirmation(operation: Operation, script: Script, policy: EffectivePolicy) -> Iterator[_Finding]:
    for layer in policy.layers:
        if operation.confirmed and layer.is_workspace_policy:
            continue
        if (tool := find_confirming_tool(layer.confirmation_required, operation)) is not None:
            reason = f"{tool} needs confirmation by {layer.name}"
            commands = () if script.problems else script.commands  # a grant is for what is known to run
            yield _Finding(Verdict(VerdictKind.ASK, "confirmationRequired", reason), commands)


# -- files


def _check_paths(facts: Facts, policy: EffectivePolicy) -> Iterator[Verdict]:
    for access in facts.accesses:
        refusal = refuse_access(access, policy, facts)
        if refusal is not None:
            yield refusal


def _check_sizes(operation: Operation, policy: EffectivePolicy, facts: Facts) -> Iterator[Verdict]:
    limit = policy.max_file_size
    size = _file_size(operation, facts.size or 0)
    if limit is not None and size > limit:
        next_step = _SHOW_A_PART if isinstance(operation, ReadFile) else _SMALLER
        yield _too_large("maxFileSize", f"The file has {size} bytes, and policy allows {limit}", next_step)
    limit, brought = policy.max_edit_size, operation.content_size
    if limit is not None and brought > limit:
        yield _too_large("maxEditSize", f"The change brings {brought} bytes, and policy allows {limit}", _SMALLER)


def _check_obeyed_files(facts: Facts, policy: EffectivePolicy) -> Iterator[Verdict]:
    """Yield a verdict that asks where the operation changes a file that other programs obey."""
    for access in facts.accesses:
        if access.access is Access.WRITE and (pattern := policy.find_obeyed(access.path)) is not None:
            reason = f'Other programs obey "{access.path}", so a change of it needs approval'
            yield Verdict(VerdictKind.ASK, OBEYED_RULE, reason, f'It matches "{pattern}" in effects.obeyedFiles.')


def _check_deletions(facts: Facts, policy: EffectivePolicy) -> Iterator[Verdict]:
    """Yield a verdict that asks where the operation deletes a folder with many files, as for a command that does."""
    limit = policy.effects.max_deletions if facts.deletes else None
    if limit is not None and facts.deletes > limit:
        path = facts.accesses[0].path
        reason = f'It deletes more than {limit} files: those in "{path}"'
        yield Verdict(VerdictKind.ASK, DELETIONS_RULE, reason, grantable=False)


def _check_unkept(facts: Facts, policy: EffectivePolicy) -> Iterator[Verdict]:
    """Yield the verdict on an operation that destroys what undo cannot bring back, as for a command that does."""
    if facts.unkept and policy.effects.unkept is not VerdictKind.ALLOW:
        named = ", ".join(f'"{path}"' for path in facts.unkept[:MAX_NAMED])
        more = ", ..." if len(facts.unkept) > MAX_NAMED else ""
        reason = f"Undo cannot bring back what it replaces or deletes: {named}{more}"
        yield Verdict(policy.effects.unkept, UNKEPT_RULE, reason, _STATE_ELSEWHERE, grantable=False, destructive=True)


def _file_size(operation: Operation, size: int) -> int:
    """Return the most bytes that are read, or that the file then has as far as that is known before it is written."""
    if isinstance(operation, WriteFile):
        return operation.content_size + (size if operation.mode == "append" else 0)
    return size if isinstance(operation, (ReadFile, ModifyFile, CopyFile)) else 0


_STATE_ELSEWHERE = "The state folder lies on another filesystem, where large files are not kept."
_SMALLER = "Work on a smaller file or in smaller steps."
_SHOW_A_PART = "Show a part of it with a command, such as: sed -n 1,100p FILE"


def _too_large(rule: str, reason: str, next_step: str) -> Verdict:
    return Verdict(VerdictKind.DENY, rule, reason, next_step, Code.SIZE_LIMIT_EXCEEDED)


# -- commands

_SHARED = "The command writes into the workspace directly, and its changes cannot be undone"
_USE_LAYER = "Leave out isolation, unless the command must live with the files: a server, a watcher, a long training."


def _evaluate_command(
    operation: RunCommand, script: Script, policy: EffectivePolicy, facts: Facts
) -> Iterator[_Finding]:
    if not policy.shell_enabled:
        yield _Finding(Verdict(VerdictKind.DENY, "shell.enabled", "Shell is disabled"))
        return
    allowed = policy.env_allowlist
    for name, value in operation.environment.items():
        try:
            environment.check_variable(name, value)
        except WapError as refusal:
            yield _Finding(Verdict.from_error(refusal, "environment"))
        if allowed is not None and name not in allowed:
            reason = f'Environment variable "{name}" is not in the allowed variables'
            suggestion = f"Allowed variables: {', '.join(sorted(allowed)) or 'none'}"
            yield _Finding(Verdict(VerdictKind.DENY, "envAllowlist", reason, suggestion))
    for layer in policy.layers:
        if operation.isolation == "shared" and facts.by_agent:
            yield _Finding(Verdict(layer.shell.shared, "shell.shared", _SHARED, _USE_LAYER, grantable=False))
        for each in evaluate_commands(script, layer.shell, facts):
            yield _Finding(each.verdict, (each.command,), layer)

    def refuse(access: PathAccess) -> Verdict | None:
        return refuse_access(access, policy, facts)

    cwd = facts.accesses[0].path if facts.accesses else operation.cwd
    for verdict in evaluate_redirections(script, cwd, policy, facts, refuse):
        yield _Finding(verdict)
    for verdict in evaluate_arguments(script, cwd, policy, facts, refuse):
        yield _Finding(verdict)


def _opens_network(findings: Sequence[_Finding], policy: EffectivePolicy, facts: Facts) -> bool:
    """Return whether every layer opens the network, by itself or by its rules for all commands of the script."""

    def is_granted(layer: Policy) -> bool:
        verdicts = [CommandVerdict(each.commands[0], each.verdict) for each in findings if each.layer is layer]
        return opens_network(verdicts, layer.shell, facts)

    return policy.allows_network([is_granted(layer) for layer in policy.layers])
