"""What the primitives hear about paths: protected first, then the layers, in one answer."""

from __future__ import annotations

import pytest

from wap_kernel.model.errors import PermissionDenied
from wap_kernel.model.paths import Access
from wap_kernel.model.policy import FilesystemPolicy, Policy
from wap_kernel.policy.effective import EffectivePolicy
from wap_kernel.policy.paths.guard import PolicyGuard
from wap_kernel.policy.paths.protected import ProtectedPaths

PROTECTED = ProtectedPaths(hidden=frozenset({("run",)}), read_only=frozenset({("share",)}))


def guard(*sections: FilesystemPolicy, broken: str | None = None) -> PolicyGuard:
    layers = [Policy(name=f"layer{number}", filesystem=section) for number, section in enumerate(sections, start=1)]
    return PolicyGuard(PROTECTED, EffectivePolicy((*layers, *([Policy(name="bad", broken=broken)] if broken else []))))


DENYING = FilesystemPolicy(denied_paths=("*.env", "conf/prod/*.yml"), read_only_paths=("data/raw/**",))
SELECTING = FilesystemPolicy(allowed_paths=("src/**/*.py", "*.md"))
CASES = [
    # layers, path, access, folder, text and rule of the refusal
    ((DENYING,), "a.py", "write", False, None, None),
    ((DENYING,), ".ENV", "read", False, 'Path ".ENV" is denied by policy', "layer1: *.env"),
    (
        (DENYING,),
        "conf/prod/a.yml",
        "read",
        False,
        'Path "conf/prod/a.yml" is denied by policy',
        "layer1: conf/prod/*.yml",
    ),
    ((DENYING,), "data/raw/x", "read", False, None, None),
    ((DENYING,), "data/raw/x", "write", False, 'Path "data/raw/x" is read-only', "layer1: data/raw/**"),
    ((DENYING,), "run/x.env", "read", False, "The path is protected: run/x.env", "protected"),
    ((DENYING,), "share/x", "write", False, "The path is read-only: share/x", "protected"),
    ((SELECTING, DENYING), "src/x.env", "read", False, 'Path "src/x.env" is denied by policy', "layer2: *.env"),
    ((SELECTING,), "src/a/b.py", "write", False, None, None),
    ((SELECTING,), "lib/b.py", "read", False, 'Path "lib/b.py" is not in allowed paths', "layer1: allowedPaths"),
    ((SELECTING,), "src/a.txt", "read", False, 'Path "src/a.txt" is not in allowed paths', "layer1: allowedPaths"),
    ((SELECTING,), "src/a", "read", True, None, None),
    ((SELECTING,), "src/a", "read", False, 'Path "src/a" is not in allowed paths', "layer1: allowedPaths"),
    ((SELECTING,), "src/new", "write", True, None, None),
    ((SELECTING,), "lib", "read", True, 'Path "lib" is not in allowed paths', "layer1: allowedPaths"),
    ((SELECTING,), ".", "read", True, None, None),
    (
        (FilesystemPolicy(allowed_paths=()),),
        "a",
        "read",
        False,
        'Path "a" is not in allowed paths',
        "layer1: allowedPaths",
    ),
    ((FilesystemPolicy(access="read"),), "a", "read", False, None, None),
    ((FilesystemPolicy(access="read"),), "a", "write", False, "Filesystem is read-only", "filesystem.access"),
    ((FilesystemPolicy(access="none"),), "a", "read", False, "Filesystem access is disabled", "filesystem.access"),
]


@pytest.mark.parametrize(("layers", "path", "access", "folder", "text", "rule"), CASES)
def test_one_path(
    layers: tuple[FilesystemPolicy, ...], path: str, access: str, folder: bool, text: str | None, rule: str | None
) -> None:
    asked = guard(*layers)
    if text is None:
        asked.check(path, Access(access), folder=folder)
    else:
        with pytest.raises(PermissionDenied) as caught:
            asked.check(path, Access(access), folder=folder)
        assert (caught.value.message, caught.value.details["rule"]) == (text, rule)


def test_a_broken_layer_closes_everything() -> None:
    closed = guard(DENYING, broken="line 1")
    with pytest.raises(PermissionDenied, match="The policy bad cannot be used: line 1"):
        closed.check("a", Access.READ)
    assert set(closed.hidden_among(".", ["a", "b"])) == {"a", "b"}


def test_a_bad_pattern_from_wherever_it_comes_closes_everything() -> None:
    closed = guard(DENYING, FilesystemPolicy(denied_paths=("[a",)))
    with pytest.raises(PermissionDenied, match="The policy layer2 cannot be used"):
        closed.check("a", Access.READ)


def test_what_is_not_listed() -> None:
    names = ["a.py", ".ENV", "RUN", "conf", "src", "b.md", "share"]
    assert set(guard().hidden_among(".", names)) == {"RUN"}
    assert set(guard(DENYING).hidden_among(".", names)) == {".ENV", "RUN"}
    assert set(guard(DENYING).hidden_among("conf/prod", ["a.yml", "a.json"])) == {"a.yml"}
    narrowed = guard(DENYING, SELECTING)
    assert set(narrowed.hidden_among(".", names, lambda: {"conf", "src", "share"})) == {*names} - {"src", "b.md"}
    assert set(narrowed.hidden_among(".", names)) == {*names} - {"b.md"}


def test_what_is_listed_but_cannot_be_changed() -> None:
    names = ["raw", ".git", ".CWS-policy.json", "x"]
    assert set(guard(DENYING).read_only_among("data", names)) == {"raw", ".git", ".CWS-policy.json"}
    assert set(guard(DENYING).read_only_among(".", ["share", "x"])) == {"share"}


@pytest.mark.parametrize(
    ("section", "folder", "may_hold"),
    [
        (FilesystemPolicy(denied_paths=("*.env",)), "conf", False),
        (DENYING, "conf", True),
        (DENYING, "data", True),
        (DENYING, "other", False),
        (SELECTING, "src", True),
        (FilesystemPolicy(allowed_paths=("src/**",)), "src/a", False),
        (FilesystemPolicy(allowed_paths=("**/*",)), "src/a", False),
    ],
)
def test_whether_a_move_must_look_below(section: FilesystemPolicy, folder: str, may_hold: bool) -> None:
    assert guard(section).may_hold(folder) is may_hold


def test_what_is_protected_is_told_as_before() -> None:
    asked = guard(DENYING)
    assert asked.hidden_names(".") == PROTECTED.hidden_names(".") == {"run"}
    assert asked.names_leading_to_hidden(".") == frozenset()
    with pytest.raises(PermissionDenied):
        asked.check_tree("share")
