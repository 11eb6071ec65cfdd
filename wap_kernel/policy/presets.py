"""Load the presets: policies as data in `presets/*.json`, with examples of what they mean.

A preset is written as any policy is, with two additions: a group `{"commands": ["ls", "cat"], "verdict": "allow"}`
stands for one rule a command, and `examples` are checked when the preset loads, so that a change of the data that does
not mean what its author thinks shows before the server relies on it.
"""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from wap_kernel.model.changes import ABSENT, Change, ChangeKind, ChangeSet, FileImage
from wap_kernel.model.errors import InternalError, InvalidArgument
from wap_kernel.model.paths import Access
from wap_kernel.model.policy import Policy, VerdictKind
from wap_kernel.policy.commands.evaluate import evaluate_script
from wap_kernel.policy.effective import EffectivePolicy
from wap_kernel.policy.effects.judge import EffectFacts, judge_changes
from wap_kernel.policy.paths.protected import ProtectedPaths
from wap_kernel.policy.shell.parser import parse_command

PRESETS = ("restrictive", "standard", "permissive")
DEFAULT = "standard"

_FOLDER = Path(__file__).with_name("presets")

ExampleEffect = dict[Literal["created", "changed", "deleted"], tuple[str, ...]]


class PresetExample(BaseModel):
    """A command or a path, and the verdict that the preset gives on it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    verdict: VerdictKind
    command: str | None = None
    confined: bool = True
    layered: bool = False
    """True where the command runs on a Layer."""
    shared: bool = False
    """True where an agent asks to run the command in the workspace itself."""
    path: str | None = None
    access: Literal["read", "write"] = "read"
    effect: ExampleEffect | None = None
    """Files that a command created, changed or deleted. A refused change is a denial."""

    def evaluate(self, policy: Policy) -> VerdictKind:
        if self.command is not None:
            return self._evaluate_command(self.command, policy)
        if self.effect is not None:
            return _evaluate_effect(self.effect, EffectivePolicy((policy,)))
        effective = EffectivePolicy((policy,))
        refusal = effective.refusal(self.path or ".", Access[self.access.upper()])
        if refusal is None and self.access == "write" and effective.find_obeyed(self.path or "."):
            return VerdictKind.ASK
        return refusal.kind if refusal else VerdictKind.ALLOW

    def _evaluate_command(self, command: str, policy: Policy) -> VerdictKind:
        if not policy.shell.enabled:
            return VerdictKind.DENY
        facts = ExampleFacts(self.confined, layered=self.layered)
        kind = evaluate_script(parse_command(command), policy.shell, facts).kind
        return max(kind, policy.shell.shared, key=lambda each: each.strictness) if self.shared else kind


def _evaluate_effect(effect: ExampleEffect, policy: EffectivePolicy) -> VerdictKind:
    file = FileImage("file", size=0)
    images: dict[str, tuple[FileImage, FileImage]] = {
        "created": (ABSENT, file),
        "changed": (file, file),
        "deleted": (file, ABSENT),
    }
    changes = [Change(path, ChangeKind(kind), *images[kind]) for kind, paths in effect.items() for path in paths]
    protected = ProtectedPaths(hidden=frozenset(), read_only=frozenset())
    facts = EffectFacts(protected, read=lambda _: b"", existed=lambda _: False)
    judgement = judge_changes(ChangeSet(tuple(changes)), policy, facts)
    if judgement.refused:
        return VerdictKind.DENY
    return VerdictKind.ALLOW if judgement.ask is None else judgement.ask.kind


class ExampleFacts:
    """The facts of a machine with every program installed, so that examples mean the same everywhere."""

    home = "/home/user"
    root = "/home/user/work"

    def __init__(self, confined: bool, *, layered: bool = False) -> None:
        self.confined = confined
        self.layered = layered

    def resolve(self, name: str, /) -> str | None:
        folder, _, base = name.rpartition("/")
        return f"/usr/bin/{base}" if folder in ("", "/usr/bin") and base else None

    def is_missing(self, name: str, /) -> bool:
        return False


@lru_cache(maxsize=len(PRESETS))
def load_preset(name: str) -> Policy:
    """Return the preset. Raise InvalidArgument for an unknown one, InternalError if it contradicts its examples."""
    if name not in PRESETS:
        raise InvalidArgument(f"There is no preset {name!r}.", hint=f"Presets: {', '.join(PRESETS)}.")
    return read_preset((_FOLDER / f"{name}.json").read_text(encoding="utf-8"))


def read_preset(text: str) -> Policy:
    """Return the policy in `text`, after a check of its examples."""
    data = json.loads(text)
    examples = [PresetExample.model_validate(each) for each in data.pop("examples")]
    shell = data.get("shell", {})
    shell["rules"] = [rule for group in shell.get("rules", ()) for rule in _rules(group)]
    policy = Policy.model_validate(data)
    for example in examples:
        if (kind := example.evaluate(policy)) is not example.verdict:
            expected = example.model_dump_json(exclude_defaults=True)
            raise InternalError(f"The preset {policy.name} answers {kind.value} where its example says {expected}.")
    return policy


def _rules(group: dict[str, Any]) -> list[dict[str, Any]]:
    common = {name: value for name, value in group.items() if name != "commands"}
    return [{**common, "command": command} for command in group["commands"]]
