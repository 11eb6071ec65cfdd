"""The presets hold what they promise, and their examples are really checked."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from wap_kernel.model.errors import InternalError, InvalidArgument
from wap_kernel.model.policy import VerdictKind
from wap_kernel.policy import presets

MIB = 1024 * 1024


@pytest.mark.parametrize(
    ("name", "access", "size", "shell", "seconds", "network"),
    [
        ("restrictive", "read", 1 * MIB, False, 60, "none"),
        ("standard", "read-write", 10 * MIB, True, 600, "none"),
        ("permissive", "read-write", 100 * MIB, True, 3600, "full"),
    ],
)
def test_what_a_preset_promises(name: str, access: str, size: int, shell: bool, seconds: int, network: str) -> None:
    policy = presets.load_preset(name)
    assert policy.name == name
    assert (policy.filesystem.access, policy.filesystem.max_file_size) == (access, size)
    assert (policy.shell.enabled, policy.shell.max_timeout_ms, policy.network.access) == (
        shell,
        seconds * 1000,
        network,
    )


def test_there_are_no_other_presets() -> None:
    folder = Path(presets.__file__).with_name("presets")
    assert {path.stem for path in folder.glob("*.json")} == set(presets.PRESETS)
    with pytest.raises(InvalidArgument, match="no preset 'lax'"):
        presets.load_preset("lax")


def test_a_group_is_one_rule_for_each_command() -> None:
    text = {"shell": {"rules": [{"commands": ["a", "b c"], "verdict": "ask", "network": True}]}, "examples": []}
    rules = presets.read_preset(json.dumps(text)).shell.rules
    assert [(rule.command, rule.verdict, rule.network) for rule in rules] == [
        ("a", VerdictKind.ASK, True),
        ("b c", VerdictKind.ASK, True),
    ]


@pytest.mark.parametrize(
    "example",
    [
        {"command": "sudo id", "verdict": "allow"},
        {"command": "ls", "verdict": "deny"},
        {"path": ".env", "access": "read", "verdict": "allow"},
        {"path": "a.py", "access": "write", "verdict": "deny"},
        {"path": ".envrc", "access": "write", "verdict": "allow"},
        {"command": "chmod +x a", "layered": True, "verdict": "deny"},
        {"command": "chmod +x a", "verdict": "allow"},
        {"command": "ls", "shared": True, "verdict": "allow"},
        {"effect": {"created": [".envrc"]}, "verdict": "allow"},
        {"effect": {"deleted": [".env"]}, "verdict": "allow"},
        {"effect": {"changed": ["a.py"]}, "verdict": "ask"},
    ],
)
def test_a_preset_that_contradicts_its_examples_does_not_load(example: dict[str, Any]) -> None:
    data = {
        "name": "wrong",
        "filesystem": {"deniedPaths": [".env"]},
        "shell": {
            "blockedCommands": ["sudo"],
            "rules": [{"commands": ["chmod"], "verdict": "deny", "unlessLayered": True}],
            "shared": "ask",
        },
        "effects": {"obeyedFiles": [".envrc"]},
        "examples": [example],
    }
    with pytest.raises(InternalError, match="The preset wrong answers"):
        presets.read_preset(json.dumps(data))


def test_of_every_preset_the_laxer_one_allows_what_the_stricter_allows() -> None:
    """Every command and every effect that is an example anywhere, in every preset."""
    folder = Path(presets.__file__).with_name("presets")
    examples = [
        each for name in presets.PRESETS for each in json.loads((folder / f"{name}.json").read_text())["examples"]
    ]
    for example in (each for each in examples if "path" not in each):
        for layered in (False, True):
            case = presets.PresetExample.model_validate({**example, "layered": layered})
            answers = [case.evaluate(presets.load_preset(name)).strictness for name in presets.PRESETS]
            assert answers == sorted(answers, reverse=True), case
