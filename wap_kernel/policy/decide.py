"""The verdict on an operation: allow, ask or deny, with the rule and the reason. Pure.

Every layer is asked and the strictest answer counts, so that one more layer can only narrow and their order is of no
importance. What a person granted then turns ask into allow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from wap_kernel.model.errors import Code, PermissionDenied, WapError
from wap_kernel.model.operations import (
    CopyFile,
    GitAction,
    GitTransfer,
    ModifyFile,
    Operation,
    ReadFile,
    RunCommand,
    WriteFile,
)
from wap_kernel.model.path_access import Access, PathAccess
from wap_kernel.model.policy import Grant, Policy
from wap_kernel.model.tool_names import find_confirming_tool
from wap_kernel.policy.commands.evaluate import judge, judge_commands
from wap_kernel.policy.commands.mentions import Mentions, Sought
from wap_kernel.policy.commands.path_arguments import judge_arguments
from wap_kernel.policy.commands.redirections import judge_redirections
from wap_kernel.policy.commands.rule_match import split
from wap_kernel.policy.effective import EffectivePolicy
from wap_kernel.policy.git_remotes import PROTECTED, RULE, Remote, Verb, questions, refusal
from wap_kernel.policy.grants import covered, grant_for_git, grant_for_operation
from wap_kernel.policy.paths.protected import ProtectedPaths
from wap_kernel.policy.shell.parser import Script, parse
from wap_kernel.policy.shell.syntax import SimpleCommand
from wap_kernel.policy.verdict import Verdict, VerdictKind
from wap_kernel.providers.process import environment

__all__ = ["ALLOWED", "VerdictKind", "Facts", "PathAccess", "Verdict", "decide", "grant_for"]

ALLOWED = Verdict(VerdictKind.ALLOW, "default", "Nothing forbids it.")
ALLOWED_WITH_NETWORK = replace(ALLOWED, network=True)


@dataclass(frozen=True)
class Facts:
    """What a decision must know of the machine."""

    touches: tuple[PathAccess, ...]
    """What the operation reaches, resolved."""
    confined: bool
    """Whether a sandbox confines commands."""
    resolve: Callable[[str], str | None]
    """The real path of a program, see `Programs`."""
    home: str
    root: str
    size: int | None = None
    """Bytes of the file that is read, changed, added to or copied, if there is one."""
    protected: ProtectedPaths | None = None
    protected_branches: tuple[str, ...] = PROTECTED
    """Patterns of branches to which a push is a question of its own."""
    remotes: tuple[str, ...] = ()
    """Patterns of the remotes that may be reached. Without any, git itself says that there is none."""


@dataclass(frozen=True)
class _Said:
    """One layer's verdict, and the commands that it is about."""

    verdict: Verdict
    commands: tuple[SimpleCommand, ...] = ()
    layer: Policy | None = None


def decide(operation: Operation, effective: EffectivePolicy, facts: Facts, grants: Iterable[Grant] = ()) -> Verdict:
    """The strictest of all verdicts. The primitives ask about paths again when they act."""
    script = _script(operation)
    said = _said(operation, script, effective, facts)
    denied = next((each.verdict for each in said if each.verdict.kind is VerdictKind.DENY), None)
    if denied is not None:
        return replace(denied, grantable=False, network=False)
    network = isinstance(operation, RunCommand) and _network(said, script, effective, facts)
    asked = [each for each in said if each.verdict.kind is VerdictKind.ASK]
    if not asked:
        return ALLOWED_WITH_NETWORK if network else ALLOWED
    grants = tuple(grants)
    grant = _grant(operation, script, effective, facts, asked)
    if covered(grants, grant):
        return Verdict(
            VerdictKind.ALLOW, "grant", f"A person allowed it here: {asked[0].verdict.reason}", network=network
        )
    left = next(each for each in asked if not covered(grants, _grant(operation, script, effective, facts, [each])))
    # A transfer by git is the server's own, so it has the network wherever it is not denied.
    about = _about_network(network or isinstance(operation, GitAction)) if left.verdict.network else None
    suggestion = left.verdict.suggestion or about
    return replace(left.verdict, network=network, grantable=grant is not None, suggestion=suggestion)


def _about_network(opens: bool) -> str:
    """Whether a command gets what its own rule opens to it. One layer's rules cannot tell."""
    if opens:
        return "It gets the network once it is approved."
    return (
        "It gets no network, also when it is approved: a layer of the policy or another command of the line forbids it."
    )


def grant_for(operation: Operation, effective: EffectivePolicy, facts: Facts) -> Grant | None:
    """The narrowest grant with which `decide` would allow `operation`. None: there is none, or it needs none."""
    script = _script(operation)
    said = _said(operation, script, effective, facts)
    asked = [each for each in said if each.verdict.kind is VerdictKind.ASK]
    is_denied = any(each.verdict.kind is VerdictKind.DENY for each in said)
    return None if is_denied or not asked else _grant(operation, script, effective, facts, asked)


def _grant(
    operation: Operation, script: Script, effective: EffectivePolicy, facts: Facts, asked: Sequence[_Said]
) -> Grant | None:
    """What has to be granted for all of `asked`."""
    if isinstance(operation, GitAction):
        return _git_grant(operation, asked)
    needs_commands = isinstance(operation, RunCommand)
    if not all(each.verdict.grantable and (each.commands or not needs_commands) for each in asked):
        return None
    commands = tuple(dict.fromkeys(command for each in asked for command in each.commands))
    grant = grant_for_operation(operation, facts.touches, script, commands)
    return None if grant is None or _names_blocked(grant, effective) else grant


def _git_grant(operation: GitAction, asked: Sequence[_Said]) -> Grant | None:
    """For one action, remote and branch. Both are named in the call: what the repository calls `origin` or its current
    branch may be another tomorrow. What else git does depends on what stands in the repository by then."""
    is_named = operation.url is not None and (operation.branch is not None or operation.action != "push")
    if operation.action not in ("fetch", "pull", "push") or not is_named:
        return None
    if not all(each.verdict.grantable for each in asked):
        return None
    return grant_for_git(operation)


def _names_blocked(grant: Grant, effective: EffectivePolicy) -> bool:
    entries = (entry for policy in effective.layers for entry in policy.shell.blocked_commands)
    words = [word for form in grant.commands if form.options is None for word in form.words[1:]]
    return Mentions(words).first(Sought(split(entry)[:1]) for entry in entries) is not None


def _script(operation: Operation) -> Script:
    if isinstance(operation, RunCommand):
        return replace(parse(operation.line), given=tuple(operation.environment.values()))
    return parse(operation.line) if isinstance(operation, GitAction) else Script(())


def _said(operation: Operation, script: Script, effective: EffectivePolicy, facts: Facts) -> list[_Said]:
    if effective.broken is not None:
        return [_Said(effective.broken)]
    said = [_Said(verdict) for verdict in (*_paths(facts, effective), *_sizes(operation, effective, facts))]
    if isinstance(operation, RunCommand):
        said += _command(operation, script, effective, facts)
    if isinstance(operation, GitAction):
        said += map(_Said, _git(operation, script, effective, facts))
    for policy in effective.layers:
        if operation.confirmed and policy.is_workspace_policy:
            continue
        if (tool := find_confirming_tool(policy.confirmation_required, operation)) is not None:
            reason = f"{tool} needs confirmation by {policy.name}"
            commands = () if script.problems else script.commands  # a grant is for what is known to run
            said.append(_Said(Verdict(VerdictKind.ASK, "confirmationRequired", reason), commands))
    return said


# -- files


def _paths(facts: Facts, effective: EffectivePolicy) -> Iterator[Verdict]:
    for touch in facts.touches:
        refusal = _refusal(touch, effective, facts)
        if refusal is not None:
            yield refusal


def _refusal(touch: PathAccess, effective: EffectivePolicy, facts: Facts) -> Verdict | None:
    if facts.protected is not None:
        try:
            facts.protected.check(touch.path, touch.access)
        except PermissionDenied as refusal:
            return Verdict(VerdictKind.DENY, "protected", refusal.message, refusal.hint, closes_path=True)
    return effective.refusal(touch.path, touch.access, folder=touch.folder)


def _sizes(operation: Operation, effective: EffectivePolicy, facts: Facts) -> Iterator[Verdict]:
    limit = effective.max_file_size
    size = _size_of_file(operation, facts.size or 0)
    if limit is not None and size > limit:
        next_step = _SHOW_A_PART if isinstance(operation, ReadFile) else _SMALLER
        yield _too_large("maxFileSize", f"The file has {size} bytes, and policy allows {limit}", next_step)
    limit, brought = effective.max_edit_size, operation.content_size
    if limit is not None and brought > limit:
        yield _too_large("maxEditSize", f"The change brings {brought} bytes, and policy allows {limit}", _SMALLER)


def _size_of_file(operation: Operation, size: int) -> int:
    """The most that is read, or that the file then has as far as that is known beforehand."""
    if isinstance(operation, WriteFile):
        return operation.content_size + (size if operation.mode == "append" else 0)
    return size if isinstance(operation, (ReadFile, ModifyFile, CopyFile)) else 0


_SMALLER = "Work on a smaller file or in smaller steps."
_SHOW_A_PART = "Show a part of it with a command, such as: sed -n 1,100p FILE"


def _too_large(rule: str, reason: str, next_step: str) -> Verdict:
    return Verdict(VerdictKind.DENY, rule, reason, next_step, Code.SIZE_LIMIT_EXCEEDED)


# -- commands


def _command(operation: RunCommand, script: Script, effective: EffectivePolicy, facts: Facts) -> Iterator[_Said]:
    if not effective.shell_enabled:
        yield _Said(Verdict(VerdictKind.DENY, "shell.enabled", "Shell is disabled"))
        return
    allowed = effective.env_allowlist
    for name, value in operation.environment.items():
        try:
            environment.check_variable(name, value)
        except WapError as refusal:
            yield _Said(Verdict.of_refusal(refusal, "environment"))
        if allowed is not None and name not in allowed:
            reason = f'Environment variable "{name}" is not in the allowed variables'
            suggestion = f"Allowed variables: {', '.join(sorted(allowed)) or 'none'}"
            yield _Said(Verdict(VerdictKind.DENY, "envAllowlist", reason, suggestion))
    for policy in effective.layers:
        for judged in judge_commands(script, policy.shell, facts):
            yield _Said(judged.verdict, (judged.command,), policy)

    def refuse(touch: PathAccess) -> Verdict | None:
        return _refusal(touch, effective, facts)

    cwd = facts.touches[0].path if facts.touches else operation.cwd
    for verdict in judge_redirections(script, cwd, effective, facts, refuse):
        yield _Said(verdict)
    for verdict in judge_arguments(script, cwd, effective, facts, refuse):
        yield _Said(verdict)


def _git(operation: GitAction, script: Script, effective: EffectivePolicy, facts: Facts) -> Iterator[Verdict]:
    """By the rules for the same words in a shell, so that one policy speaks for both."""
    if not effective.shell_enabled:
        yield Verdict(VerdictKind.DENY, "shell.enabled", "Shell is disabled")
        return
    if (closed := _refusal(PathAccess(operation.folder, Access.READ, folder=True), effective, facts)) is not None:
        yield closed
        return
    if operation.url is not None and facts.remotes and (refused := refusal(operation.url, facts.remotes)) is not None:
        yield Verdict(VerdictKind.DENY, RULE, refused.message, refused.hint)
    # First, so that a person who is asked about both is told of this.
    if operation.action == "push":
        where = Remote(operation.url or "the remote", protected=facts.protected_branches)
        for question in questions("push", where, operation.branch, force=operation.force, delete=operation.delete):
            if question.verb.asks:
                answer = VerdictKind.DENY if _is_blocked(question.verb, effective) else VerdictKind.ASK
                yield Verdict(answer, question.verb.value, f"It would {question.text}", grantable=False)
    # Hooks, filters and helpers are off, so nothing of the workspace runs whether or not a sandbox is around it.
    facts = replace(facts, confined=True)
    is_local = not isinstance(operation, GitTransfer)
    granting = []
    for policy in effective.layers:
        verdicts = [judged.verdict for judged in judge_commands(script, policy.shell, facts)]
        granting.append(any(verdict.network for verdict in verdicts))
        for verdict in verdicts:
            # What no rule is about is known all the same: it changes files, which are asked about as files.
            if not (is_local and verdict.rule == "unknown" and verdict.kind is VerdictKind.ASK):
                yield verdict
    if not (is_local or effective.allows_network(granting)):
        yield Verdict(VerdictKind.DENY, "network.access", "Network access is disabled")
    yield from judge_arguments(
        script, operation.folder, effective, facts, lambda touch: _refusal(touch, effective, facts)
    )


def _is_blocked(verb: Verb, effective: EffectivePolicy) -> bool:
    """Whether a layer blocks it by the verb's own name, among the commands: `git.push.force`."""
    return any(verb.value in policy.shell.blocked_commands for policy in effective.layers)


def _network(said: Sequence[_Said], script: Script, effective: EffectivePolicy, facts: Facts) -> bool:
    """Whether every layer opens the network, itself or by the rules for all commands of the script."""
    granting = [any(each.verdict.network and each.layer is policy for each in said) for policy in effective.layers]
    if not effective.allows_network(granting):
        return False  # nearly always; to ask the rules about the script as a whole costs as much again
    pairs = zip(granting, effective.layers, strict=True)
    return effective.allows_network([rule and judge(script, policy.shell, facts).network for rule, policy in pairs])
