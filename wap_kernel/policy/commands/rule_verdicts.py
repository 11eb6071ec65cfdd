"""Build the verdicts on commands, with their reasons and suggestions. Pure."""

from __future__ import annotations

from dataclasses import replace

from wap_kernel.model.policy import CommandRule, ShellPolicy, VerdictKind
from wap_kernel.policy.commands.rule_match import CommandFacts
from wap_kernel.policy.verdict import Verdict


def adapt_to_layer(shell: ShellPolicy) -> ShellPolicy:
    """Return the restrictions that count where a Layer confines the command and policy judges its effect."""
    changes: dict[str, object] = {"rules": tuple(rule for rule in shell.rules if not rule.unless_layered)}
    for field in ("unknown", "unanalysable"):
        if shell.unless_layered and getattr(shell, field) is VerdictKind.ASK:
            changes[field] = VerdictKind.ALLOW
    return shell.model_copy(update=changes)


def rule_name(rule: CommandRule) -> str:
    return " ".join(filter(None, (rule.command, "|".join(rule.having))))


def apply_rule(answer: VerdictKind, rule: CommandRule, name: str) -> Verdict:
    if answer is VerdictKind.DENY:
        return replace(deny_blocked(name), rule=rule_name(rule), suggestion=rule.reason)
    asks = f'Command "{name}" needs approval by the rule "{rule_name(rule)}"'
    texts = {
        VerdictKind.ALLOW: f'Command "{name}" is allowed by the rule "{rule_name(rule)}"',
        VerdictKind.ASK: "Destructive command requires approval" if rule.destructive else asks,
    }
    return Verdict(
        answer,
        rule_name(rule),
        texts[answer],
        rule.reason,
        network=rule.network,
        grantable=rule.grantable,
        destructive=rule.destructive,
        previewable=not rule.network,
    )


def deny_blocked(name: str) -> Verdict:
    return Verdict(
        VerdictKind.DENY, "blocked", f"Command '{name}' is blocked", f"Remove {name} from command", grantable=False
    )


def deny_not_allowed(name: str, shell: ShellPolicy) -> Verdict:
    suggestion = "Allowed commands: " + (", ".join(shell.allowed_commands or ()) or "none")
    return Verdict(
        VerdictKind.DENY,
        "allowedCommands",
        f'Command "{name}" is not in allowed commands',
        suggestion,
        grantable=False,
    )


def evaluate_unanalysable(problems: list[str], shell: ShellPolicy, facts: CommandFacts) -> Verdict:
    causes = ", ".join(dict.fromkeys(problems))
    reason = f"The command cannot be analysed: {causes}"
    suggestion = "Write plain commands joined by && || ; | with literal words."
    # A line that cannot be parsed may run more than what is allowed.
    answer = VerdictKind.DENY if shell.allowed_commands is not None else shell.unanalysable
    verdict = Verdict(answer, "unanalysable", reason, suggestion, grantable=False, previewable=True)
    return verdict if facts.confined else raise_strictness(shell.unconfined, verdict, "")


def raise_strictness(least: VerdictKind, verdict: Verdict, why: str) -> Verdict:
    """Return `verdict`, or one of the kind `least` if that is stricter; `why` ends its reason."""
    if verdict.kind.strictness >= least.strictness:
        return verdict
    reason = f"{verdict.reason}, {why}" if why else verdict.reason
    return replace(verdict, kind=least, rule="unconfined", reason=reason, suggestion="A sandbox would confine it.")
