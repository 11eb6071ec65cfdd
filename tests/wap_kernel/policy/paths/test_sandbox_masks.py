"""What a sandbox must hide and keep, found in a workspace as it is on the disk."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.file_trees import grow
from tests.support.guards import NoJournal
from wap_kernel.files.contained.root import Root
from wap_kernel.model.command import Confinement, Deadline
from wap_kernel.model.errors import PermissionDenied
from wap_kernel.model.policy import FilesystemPolicy, Policy
from wap_kernel.policy.effective import EffectivePolicy
from wap_kernel.policy.paths import sandbox_masks
from wap_kernel.policy.paths.guard import PolicyGuard
from wap_kernel.policy.paths.protected import ProtectedPaths

PROTECTED = ProtectedPaths(hidden=frozenset({("state",)}), read_only=frozenset({("home", ".rprofile")}))


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Root]:
    found = Root(str(tmp_path), guard=PROTECTED, journal=NoJournal())
    yield found
    found.close()


def find(root: Root, *, is_read_only: bool = False, network: bool = False, **filesystem: Any) -> Confinement:
    policy = Policy(filesystem=FilesystemPolicy(**filesystem))
    guard = PolicyGuard(PROTECTED, EffectivePolicy((policy,)))
    return sandbox_masks.find_masks(
        root, guard, (), Deadline(60), network=network, is_read_only=is_read_only
    ).confinement


REPOSITORY: dict[str, Any] = {"HEAD": b"", "config": b"", "hooks": {"pre-commit": b""}, "objects": {"ab": {"c": b""}}}


def test_nothing_to_mask(root: Root, tmp_path: Path) -> None:
    grow(tmp_path, {"a": {"b": b""}, "c": b""})
    assert find(root) == Confinement()
    assert find(root, network=True) == Confinement(network=True)


def test_denied_paths_are_hidden_as_high_up_as_they_are_denied(root: Root, tmp_path: Path) -> None:
    grow(tmp_path, {".env": b"", "a": {".ENV": b"", "x.key": {"in": b""}, "ok": b""}, "secret": {"a": b"", "b": b""}})
    found = find(root, denied_paths=(".env", "*.key", "secret/**"))
    assert sorted(found.hidden) == [".env", "a/.ENV", "a/x.key", "secret"]
    assert (found.read_only, found.pinned) == ((), ())


def test_what_is_protected_always(root: Root, tmp_path: Path) -> None:
    grow(tmp_path, {"state": {"token": b""}, "home": {".Rprofile": b""}, "a": {".cws-policy.json": b"{}"}})
    found = find(root)
    assert found.hidden == ("state",)
    assert sorted(found.read_only) == ["a/.cws-policy.json", "home/.Rprofile"]


@pytest.mark.parametrize("denied", [(), (".git/**",), ("**/.git/**",), ("*",)])
def test_git_is_never_hidden_but_pinned(root: Root, tmp_path: Path, denied: tuple[str, ...]) -> None:
    grow(tmp_path, {".git": {**REPOSITORY, "modules": {"deep": {"sub": REPOSITORY}}, "worktrees": {"w": REPOSITORY}}})
    found = find(root, denied_paths=denied)
    assert found.hidden == ()
    assert found.pinned == (".git",)
    expected = [
        f"{folder}/{name}"
        for folder in (".git", ".git/modules/deep/sub", ".git/worktrees/w")
        for name in ("config", "hooks")
    ]
    assert sorted(found.read_only) == sorted(expected)


def test_a_git_file_is_read_only_and_nested_repositories_count(root: Root, tmp_path: Path) -> None:
    grow(tmp_path, {"sub": {".git": b"gitdir: ../x"}, "other": {".git": REPOSITORY}})
    found = find(root, denied_paths=(".git/**",))
    assert (found.hidden, found.pinned) == ((), ("other/.git",))
    assert sorted(found.read_only) == ["other/.git/config", "other/.git/hooks", "sub/.git"]


def test_read_only_patterns_and_what_is_denied_inside(root: Root, tmp_path: Path) -> None:
    grow(tmp_path, {"data": {"raw.csv": b"", ".env": b""}, "b": b""})
    found = find(root, denied_paths=(".env",), read_only_paths=("data/**",))
    assert (found.hidden, found.read_only) == (("data/.env",), ("data",))
    assert find(root, is_read_only=True).read_only == (".",)


def test_a_denied_link_is_hidden_with_what_it_leads_to(root: Root, tmp_path: Path) -> None:
    grow(tmp_path, {"a": {"b": b""}})
    (tmp_path / ".env").symlink_to("a/b")
    (tmp_path / "other").symlink_to("a/b")
    assert find(root, denied_paths=(".env",)).hidden == (".env",)  # providers follow it


@pytest.mark.parametrize("kind", ["file", "link"])
def test_a_repository_that_lies_elsewhere_is_guarded_there(root: Root, tmp_path: Path, kind: str) -> None:
    grow(tmp_path, {"data": REPOSITORY, "sub": {}})
    if kind == "file":
        (tmp_path / "sub" / ".git").write_text("gitdir: ../data\n")
    else:
        (tmp_path / "sub" / ".git").symlink_to("../data")
    found = find(root)
    assert found.pinned == (("data",) if kind == "file" else ("data", "sub"))  # a link is found where its folder stays
    assert sorted(found.read_only) == ["data/config", "data/hooks", "sub/.git"]


def test_what_git_would_obey_and_is_not_there_is_told(root: Root, tmp_path: Path) -> None:
    grow(tmp_path, {".git": {"HEAD": b"", "config": b""}, "home": {}})
    guard = PolicyGuard(PROTECTED, EffectivePolicy((Policy(),)))
    found = sandbox_masks.find_masks(
        root, guard, ("home/.profile", "state"), Deadline(60), network=False, is_read_only=False
    )
    expected = {".git/commondir", ".git/config.worktree", ".git/hooks", "home/.profile", "state"}
    assert set(found.absent) == expected


def test_too_many_guards_are_refused(root: Root, tmp_path: Path) -> None:
    grow(
        tmp_path,
        {
            f"{number}": {".git": {"HEAD": b"", "config": b""}}
            for number in range(sandbox_masks.MAX_READ_ONLY_MOUNTS // 2)
        },
    )
    assert len(find(root).pinned) == sandbox_masks.MAX_READ_ONLY_MOUNTS // 2
    grow(tmp_path, {"one more": {".git": {"HEAD": b"", "config": b""}}})
    with pytest.raises(PermissionDenied, match="git repositories"):
        find(root)


def test_only_what_is_allowed_stays(root: Root, tmp_path: Path) -> None:
    grow(tmp_path, {"src": {"a.py": b"", "b.txt": b""}, "docs": {"c.md": b""}, "d.py": b""})
    assert sorted(find(root, allowed_paths=("src/**/*.py",)).hidden) == ["d.py", "docs", "src/b.txt"]


def test_too_many_are_refused_by_the_pattern_behind_most(root: Root, tmp_path: Path) -> None:
    grow(tmp_path, {"keys": {f"{number}.key": b"" for number in range(sandbox_masks.MAX_MASKS)}})
    assert len(find(root, denied_paths=("*.key", ".env")).hidden) == sandbox_masks.MAX_MASKS
    (tmp_path / ".env").touch()
    with pytest.raises(PermissionDenied) as caught:
        find(root, denied_paths=("*.key", ".env"))
    assert "*.key (200 of them)" in caught.value.text
    assert find(root, denied_paths=("keys/**", ".env")).hidden
