"""A policy from JSON: both forms, presets with changes, and whatever is wrong refuses everything and says where."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wap_kernel.model.limits import MAX_POLICY_BYTES
from wap_kernel.model.policy import Policy, VerdictKind
from wap_kernel.policy import presets
from wap_kernel.policy.effective import EffectivePolicy
from wap_kernel.policy.parse import merge_policy, parse_policy

SPEC = {
    "allowedPaths": ["**/*"],
    "deniedPaths": [".git/**", "node_modules/**"],
    "maxFileSize": 10485760,
    "maxEditSize": 1048576,
    "allowedCommands": ["python3", "npm", "make"],
    "envAllowlist": ["PATH", "HOME"],
    "confirmationRequired": ["runCommand"],
}
"""The example of the Coding Environment catalogue."""

SECTIONED = {
    "filesystem": {
        "allowedPaths": ["**/*"],
        "deniedPaths": [".git/**", "node_modules/**"],
        "maxFileSize": 10485760,
        "maxEditSize": 1048576,
    },
    "shell": {"allowedCommands": ["python3", "npm", "make"], "envAllowlist": ["PATH", "HOME"]},
    "confirmationRequired": ["runCommand"],
}


def read(fields: Any) -> Policy:
    return parse_policy(json.dumps(fields).encode(), "test")


def test_the_flat_form_of_the_specification() -> None:
    policy = read(SPEC)
    assert policy.broken is None and policy.name == "test"
    assert policy.filesystem.denied_paths == (".git/**", "node_modules/**")
    assert policy.filesystem.max_file_size == 10485760
    assert policy.shell.allowed_commands == ("python3", "npm", "make")
    assert policy.shell.env_allowlist == ("PATH", "HOME")
    assert policy.confirmation_required == ("runCommand",)


def test_both_forms_say_the_same_also_mixed() -> None:
    mixed = {**SPEC, "filesystem": {"access": "read"}}
    assert read(SPEC) == read(SECTIONED)
    assert read(mixed).filesystem == read(SPEC).filesystem.model_copy(update={"access": "read"})
    assert read(dict(reversed(mixed.items()))) == read(mixed)


def test_an_empty_policy_restricts_nothing() -> None:
    assert read({}) == Policy(name="test")


BROKEN = [
    # bytes, where it is wrong
    (b"", "line 1, column 1"),
    (b'{\n  "maxFileSize": 1,\n}', "line 2, column 19" if sys.version_info >= (3, 13) else "line 3, column 1"),
    (b'// no comments\n{"maxFileSize": 1}', "line 1, column 1"),
    (b"{maxFileSize: 1}", "line 1, column 2"),
    (b"[]", "not an object"),
    (b"null", "not an object"),
    (b"\xff\xfe", "byte 0"),
    (b"[" * 200_000, "nested too deeply"),
    (b" " * MAX_POLICY_BYTES + b"{}", "larger"),
    (b'{"maxFileSize": ' + b"1" * 5000 + b"}", "number"),
    (b'{"maxFileSize": NaN}', "NaN"),
    (b'{"maxFileSize": 1, "maxFileSize": 2}', "maxFileSize: the field occurs twice"),
    (b'{"shell": {"enabled": false, "enabled": true}}', "enabled: the field occurs twice"),
    (b'{"maxFileSize": 1, "filesystem": {"maxFileSize": 2}}', "maxFileSize: the field occurs twice"),
    (b'{"filesystem": {"maxFileSize": 2}, "maxFileSize": 1}', "maxFileSize: the field occurs twice"),
    (b'{"maxFileSize": "1"}', "filesystem.maxFileSize"),
    (b'{"maxFileSize": true}', "filesystem.maxFileSize"),
    (b'{"maxFileSize": 1.5}', "filesystem.maxFileSize"),
    (b'{"maxFileSize": 0}', "filesystem.maxFileSize"),
    (b'{"deniedPaths": "x"}', "filesystem.deniedPaths"),
    (b'{"deniedPaths": [1]}', "filesystem.deniedPaths.0"),
    (b'{"deniedPaths": null}', "filesystem.deniedPaths"),
    (b'{"deniedPaths": ["\\ud800"]}', "JSON"),
    (b'{"filesystem": []}', "filesystem"),
    (b'{"filesystem": {"access": "write"}}', "filesystem.access"),
    (b'{"shell": {"enabled": "yes"}}', "shell.enabled"),
    (b'{"shell": {"unknown": "maybe"}}', "shell.unknown"),
    (b'{"shell": {"rules": [{"command": "x"}]}}', "shell.rules.0.verdict"),
    (b'{"deniedPath": ["x"]}', "deniedPath: unknown field"),
    (b'{"name": "standard"}', "name: unknown field"),
    (b'{"broken": null}', "broken: unknown field"),
    (b'{"colour": null}', "envAllowlist, preset"),
    (b'{"filesystem": {"max_file_size": 1}}', "max_file_size: unknown field"),
    (b'{"filesystem": {"deniedPath": []}}', "filesystem.deniedPath"),
    (b'{"deniedPaths": ["[a"]}', "filesystem.deniedPaths: The pattern"),
    (b'{"filesystem": {"readOnlyPaths": ["../x"]}}', "filesystem.readOnlyPaths: The pattern"),
    (b'{"allowedPaths": ["*a*a*a*a*"]}', "filesystem.allowedPaths: The pattern"),
    (b'{"allowedPaths": ["/src/**"]}', "filesystem.allowedPaths"),
    (b'{"allowedPaths": ["!src/**"]}', "filesystem.allowedPaths"),
    (b'{"confirmationRequired": ["runComand"]}', "unknown tool 'runComand'"),
    (b'{"preset": "wide-open"}', "preset: unknown preset"),
    (b'{"preset": ["standard"]}', "preset: unknown preset"),
    (b'{"preset": "../standard"}', "preset: unknown preset"),
    (b"\xef\xbb\xbf\xef\xbb\xbf{}", "line 1, column 1"),
    ('{"maxFileSize": 1}'.encode("utf-16"), "byte 0"),
    (b'{"maxFileSize": 1}\0', "line 1, column 19"),
    (b'{"maxFileSize": 1, "maxFile\\u0053ize": 2}', "maxFileSize: the field occurs twice"),
    (b'{"maxFileSize": 1e999}', "filesystem.maxFileSize"),
    (b'{"filesystem": ' + b'{"a": ' * 50_000 + b"}" * 50_001, "nested too deeply"),
    (b'{"deniedPaths": ["~/x"]}', "filesystem.deniedPaths: The pattern begins with ~"),
    (b'{"allowedCommands": [""]}', "shell.allowedCommands.0: Value error, the command names no program"),
    (b'{"shell": {"blockedCommands": [" "]}}', "shell.blockedCommands.0: Value error, the command names no program"),
    (b'{"shell": {"rules": [{"command": " ", "verdict": "ask"}]}}', "shell.rules.0.command"),
    (b'{"shell": {"rules": [{"command": "x", "verdict": "ask", "if": 1}]}}', "shell.rules.0.if"),
    (b'{"shell": {"preview": "yes"}}', "shell.preview"),
    (b'{"shell": {"shared": true}}', "shell.shared"),
    (b'{"effects": []}', "effects: it is not an object"),
    (b'{"effects": {"maxDeletions": -1}}', "effects.maxDeletions"),
    (b'{"effects": {"unkept": "never"}}', "effects.unkept"),
    (b'{"effects": {"obeyedFiles": ["[a"]}}', "effects.obeyedFiles: The pattern"),
    (b'{"effects": {"deletions": 1}}', "effects.deletions"),
]


@pytest.mark.parametrize(("data", "where"), BROKEN)
def test_what_is_wrong_refuses_everything_and_says_where(data: bytes, where: str) -> None:
    policy = parse_policy(data, "test")
    assert policy.broken is not None and where in policy.broken
    assert policy == Policy(name="test", broken=policy.broken)


@given(st.binary(max_size=50))
def test_any_bytes_are_a_policy_or_a_broken_one(data: bytes) -> None:
    assert isinstance(parse_policy(data, "test"), Policy)


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
fields = st.sampled_from([*SPEC, "filesystem", "shell", "network", "effects", "preset", "access", "rules"])


@given(st.dictionaries(fields, st.one_of(values, st.dictionaries(fields, values, max_size=3)), max_size=4))
def test_any_object_is_a_policy_or_a_broken_one(found: dict[str, Any]) -> None:
    assert isinstance(read(found), Policy)
    assert isinstance(merge_policy(Policy(), found), Policy)


# -- presets with changes


def test_a_preset_by_name() -> None:
    standard = presets.load_preset("standard")
    assert read({"preset": "standard"}) == standard.model_copy(update={"name": "test"})


def test_scalars_replace_path_lists_are_joined_allowed_lists_replace() -> None:
    base = read(
        {
            **SPEC,
            "filesystem": {"access": "read", "readOnlyPaths": ["a"]},
            "shell": {"blockedCommands": ["sudo"], "unknown": "deny"},
        }
    )
    merged = merge_policy(
        base,
        {
            "allowedPaths": ["src/**"],
            "deniedPaths": ["*.pem", ".git/**"],
            "maxFileSize": 1,
            "allowedCommands": ["ls"],
            "confirmationRequired": ["writeFile"],
            "filesystem": {"access": "read-write", "readOnlyPaths": ["b"]},
            "shell": {"blockedCommands": ["su"]},
        },
    )
    assert merged.broken is None and merged.name == "test"
    assert merged.filesystem.allowed_paths == ("src/**",)
    assert merged.filesystem.denied_paths == (".git/**", "node_modules/**", "*.pem")
    assert merged.filesystem.read_only_paths == ("a", "b")
    assert (merged.filesystem.max_file_size, merged.filesystem.max_edit_size) == (1, 1048576)
    assert merged.filesystem.access == "read-write"
    assert merged.shell.allowed_commands == ("ls",)
    assert merged.shell.blocked_commands == ("sudo", "su")
    assert merged.shell.unknown is VerdictKind.DENY
    assert merged.confirmation_required == ("runCommand", "writeFile")


def test_obeyed_files_are_joined_and_can_be_taken_back() -> None:
    standard = presets.load_preset("standard")
    merged = merge_policy(standard, {"effects": {"obeyedFiles": [".zed", "!.vscode"], "maxChanges": 7}})
    assert merged.effects.obeyed_files == (*standard.effects.obeyed_files, ".zed", "!.vscode")
    assert (merged.effects.max_changes, merged.effects.max_deletions) == (7, standard.effects.max_deletions)
    effective = EffectivePolicy((merged,))
    assert [effective.find_obeyed(path) for path in (".zed/a", ".vscode/a", ".envrc")] == [".zed", None, ".envrc"]


def test_a_rule_about_the_same_commands_replaces_and_others_are_added() -> None:
    rm = {"command": "rm", "verdict": "ask"}
    root = {"command": "rm", "verdict": "deny", "targets": ["/"]}
    recursive = {"command": "rm", "verdict": "deny", "having": ["-r", "-R"]}
    merged = merge_policy(
        read({"shell": {"rules": [rm, root, recursive]}}),
        {
            "shell": {
                "rules": [
                    {"command": "rm", "verdict": "allow"},
                    {"command": "rm", "verdict": "ask", "having": ["-R", "-r"]},
                    {"command": "ls", "verdict": "allow"},
                ]
            }
        },
    )
    found = [(rule.command, rule.verdict.value, len(rule.having), len(rule.targets)) for rule in merged.shell.rules]
    assert found == [("rm", "allow", 0, 0), ("rm", "deny", 0, 1), ("rm", "ask", 2, 0), ("ls", "allow", 0, 0)]


def test_wrong_changes_break_the_preset_and_a_broken_preset_stays_broken() -> None:
    assert "maxFileSize" in (merge_policy(read(SPEC), {"maxFileSize": "big"}).broken or "")
    assert "WapExtension.preset" in (merge_policy(read(SPEC), {"preset": "permissive"}).broken or "")
    assert "preset" not in (merge_policy(read(SPEC), {"colour": "red"}).broken or "")
    assert "not JSON" in (merge_policy(read(SPEC), {"deniedPaths": {1, 2}}).broken or "")
    assert merge_policy(Policy(broken="why"), {"maxFileSize": 1}).broken == "why"
