"""Layers together: minima, intersections, and how they are shown."""

from __future__ import annotations

from wap_kernel.model.policy import EffectsPolicy, FilesystemPolicy, NetworkPolicy, Policy, ShellPolicy, VerdictKind
from wap_kernel.policy.effective import EffectivePolicy

WIDE = Policy(
    name="wide",
    filesystem=FilesystemPolicy(max_file_size=100, max_edit_size=5),
    shell=ShellPolicy(max_timeout_ms=1000, env_allowlist=("PATH", "HOME", "LANG")),
    effects=EffectsPolicy(obeyed_files=(".vscode", ".envrc"), max_deletions=50, max_bytes=7),
)
NARROW = Policy(
    name="narrow",
    filesystem=FilesystemPolicy(access="read", max_file_size=10),
    shell=ShellPolicy(enabled=False, preview=False, env_allowlist=("HOME", "TZ")),
    network=NetworkPolicy(access="none"),
    effects=EffectsPolicy(obeyed_files=(".envrc",), max_deletions=5, unkept=VerdictKind.ASK),
    confirmation_required=("runCommand",),
)


def test_nothing_said_is_nothing_restricted() -> None:
    effective = EffectivePolicy((Policy(),))
    assert (effective.access, effective.shell_enabled, effective.allows_network()) == ("read-write", True, True)
    assert effective.max_file_size is effective.max_edit_size is effective.max_timeout_ms is None
    assert effective.env_allowlist is None and effective.broken is None
    assert EffectivePolicy(()).access == "read-write"


def test_the_strictest_of_each() -> None:
    for effective in (
        EffectivePolicy((WIDE, NARROW)),
        EffectivePolicy((NARROW, WIDE)),
        EffectivePolicy((WIDE,)).with_layer(NARROW),
    ):
        assert (effective.access, effective.max_file_size, effective.max_edit_size) == ("read", 10, 5)
        assert (effective.max_timeout_ms, effective.env_allowlist) == (1000, {"HOME"})
        assert not effective.shell_enabled and not effective.preview
        assert set(effective.effects.obeyed_files) == {".vscode", ".envrc"}
        assert (effective.effects.max_deletions, effective.effects.max_changes, effective.effects.max_bytes) == (
            5,
            None,
            7,
        )
        assert effective.effects.unkept is VerdictKind.ASK


def test_the_network_needs_every_layer_or_its_rule() -> None:
    effective = EffectivePolicy((WIDE, NARROW))
    assert not effective.allows_network()
    assert not effective.allows_network([True, False])
    assert effective.allows_network([False, True])


def test_as_data() -> None:
    assert EffectivePolicy((WIDE, NARROW)).to_dict() == {
        "layers": [
            {
                "name": "wide",
                "filesystem": {"maxFileSize": 100, "maxEditSize": 5},
                "shell": {"maxTimeoutMs": 1000, "envAllowlist": ["PATH", "HOME", "LANG"]},
                "effects": {"obeyedFiles": [".vscode", ".envrc"], "maxDeletions": 50, "maxBytes": 7},
            },
            {
                "name": "narrow",
                "filesystem": {"access": "read", "maxFileSize": 10},
                "shell": {"enabled": False, "preview": False, "envAllowlist": ["HOME", "TZ"]},
                "network": {"access": "none"},
                "effects": {"obeyedFiles": [".envrc"], "maxDeletions": 5, "unkept": "ask"},
                "confirmationRequired": ["runCommand"],
            },
        ],
        "effective": {
            "access": "read",
            "maxFileSize": 10,
            "maxEditSize": 5,
            "shell": False,
            "maxTimeoutMs": 1000,
            "envAllowlist": ["HOME"],
            "preview": False,
            "effects": {"obeyedFiles": [".vscode", ".envrc"], "maxDeletions": 5, "maxBytes": 7, "unkept": "ask"},
            "network": "none",
            "confirmationRequired": ["runCommand"],
        },
    }
    assert EffectivePolicy((Policy(name="x", broken="why"),)).to_dict()["effective"]["broken"] == (
        "The policy x cannot be used: why"
    )


def test_obeyed_files_folder_by_folder() -> None:
    effective = EffectivePolicy((WIDE, NARROW))
    assert effective.find_obeyed("a/.VSCode/tasks.json") == ".vscode"
    assert effective.find_obeyed("vscode/tasks.json") is None
    assert set(effective.obeyed_among(".", [".envrc", "a"])) == {".envrc"}
    assert set(effective.obeyed_among("a/.vscode", ["x", "y"])) == {"x", "y"}
    assert set(effective.obeyed_among("a", ["x", "y"])) == set()
