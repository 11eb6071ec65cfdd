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

from wap_kernel.model.errors import InternalError, InvalidArgument
from wap_kernel.model.paths import Access
from wap_kernel.model.policy import Policy, VerdictKind
from wap_kernel.policy.commands.evaluate import evaluate_script
from wap_kernel.policy.effective import EffectivePolicy
from wap_kernel.policy.shell.parser import parse_command

PRESETS = ("restrictive", "standard", "permissive")
DEFAULT = "standard"

_FOLDER = Path(__file__).with_name("presets")


class PresetExample(BaseModel):
    """A command or a path, and the verdict that the preset gives on it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    verdict: VerdictKind
    command: str | None = None
    confined: bool = True
    path: str | None = None
    access: Literal["read", "write"] = "read"

    def evaluate(self, policy: Policy) -> VerdictKind:
        if self.command is not None:
            if not policy.shell.enabled:
                return VerdictKind.DENY
            return evaluate_script(parse_command(self.command), policy.shell, ExampleFacts(self.confined)).kind
        refusal = EffectivePolicy((policy,)).refusal(self.path or ".", Access[self.access.upper()])
        return refusal.kind if refusal else VerdictKind.ALLOW


class ExampleFacts:
    """The facts of a machine with every program installed, so that examples mean the same everywhere."""

    home = "/home/user"
    root = "/home/user/work"

    def __init__(self, confined: bool) -> None:
        self.confined = confined

    def resolve(self, name: str, /) -> str | None:
        folder, _, base = name.rpartition("/")
        return f"/usr/bin/{base}" if folder in ("", "/usr/bin") and base else None


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
