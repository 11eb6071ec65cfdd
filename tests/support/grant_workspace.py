"""What a grant is asked about: a workspace with two links in it, and a policy that asks about nearly every command."""

from __future__ import annotations

from typing import Any

from wap_kernel.model.operations import Operation, RunCommand
from wap_kernel.model.policy import CommandRule, Grant, Policy, ShellPolicy
from wap_kernel.policy.decide import Facts, Verdict, VerdictKind, decide, judge
from wap_kernel.policy.effective import EffectivePolicy

LINKS = {"link.txt": "important.py", "here": "sub"}
"""What the paths of the workspace resolve to."""


def facts(operation: Operation, links: dict[str, str]) -> Facts:
    return Facts(
        accesses=tuple(touch.with_path(links.get(touch.path, touch.path)) for touch in operation.path_accesses()),
        confined=True,
        resolve=lambda name: f"/usr/bin/{name}" if "/" not in name else None,
        home="/home/u",
        root="/home/u/ws",
    )


def verdict(operation: Operation, *layers: Policy, grants: tuple[Grant, ...] = (), **links: str) -> Verdict:
    return decide(operation, EffectivePolicy(layers), facts(operation, {**LINKS, **links}), grants)


def grantable(operation: Operation, *layers: Policy) -> Grant | None:
    return judge(operation, EffectivePolicy(layers), facts(operation, LINKS)).grant


def granted(operation: Operation, *layers: Policy) -> Grant:
    """As it comes back from the state folder."""
    grant = grantable(operation, *layers)
    assert grant is not None
    return Grant.model_validate_json(grant.model_dump_json())


def run(command: str, **more: Any) -> RunCommand:
    return RunCommand(command=command, **more)


def shell(*rules: CommandRule, **fields: Any) -> Policy:
    return Policy(name="layer", shell=ShellPolicy(rules=rules, **fields))


def rule(command: str, answer: str, **more: Any) -> CommandRule:
    return CommandRule(command=command, verdict=VerdictKind(answer), **more)


ASKING = shell(*(rule(program, "allow") for program in ("ls", "cat", "echo", "cd", "find")), unknown=VerdictKind.ASK)
"""What cannot be analysed is allowed, so that it is left to the grants to refuse it."""
