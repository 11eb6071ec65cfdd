"""Which programs can be relied on."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from wap_kernel.policy.commands.program_lookup import BUILTINS, Programs, suggest_program


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """`system` and `ws/.venv/bin` cannot be written by an agent, the rest of `ws` can."""
    root = Path(os.path.realpath(tmp_path))
    for name in ("system/git", "system/ls", "ws/bin/ls", "ws/.venv/bin/python", "ws/git"):
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("#!/bin/sh\n")
        path.chmod(0o755)
    (root / "system/data").write_text("")
    (root / "system/outward").symlink_to(root / "ws/git")
    (root / "system/git2").symlink_to("git")
    (root / "ws/inward").symlink_to(root / "system/git")
    return root


@pytest.mark.parametrize(
    ("path", "name", "expected"),
    [
        ("{}/system", "git", "system/git"),
        ("{}/system", "git2", "system/git"),
        ("{}/missing:{}/system", "git", "system/git"),
        ("{}/system", "{}/system/git", "system/git"),
        ("{}/system", "{}/system/../system/git", "system/git"),
        ("{}/system:{}/ws/bin", "ls", "system/ls"),
        ("{}/ws/.venv/bin:{}/system", "python", "ws/.venv/bin/python"),
        ("{}/ws/.venv/bin:{}/system", "ls", "system/ls"),
        ("{}/ws/bin:{}/system", "ls", None),
        ("{}/ws/bin:{}/system", "git", None),
        (":{}/system", "git", None),
        ("bin:{}/system", "git", None),
        ("{}/system", "missing", None),
        ("{}/system", "data", None),
        ("{}/system", "outward", None),
        ("{}/system", "./git", None),
        ("{}/system", "system/git", None),
        ("{}/system", "{}/ws/git", None),
        ("{}/system", "{}/ws/inward", None),
        ("{}/system", "{}/system", None),
        ("{}/system", "", None),
    ],
)
def test_resolve(machine: Path, path: str, name: str, expected: str | None) -> None:
    programs = Programs(
        path.replace("{}", str(machine)), untrusted=[str(machine / "ws")], protected=[str(machine / "ws/.venv")]
    )
    found = programs.resolve(name.replace("{}", str(machine)))
    assert found == (str(machine / expected) if expected else None)


def test_a_program_that_comes_and_goes(machine: Path) -> None:
    programs = Programs(str(machine / "system"), untrusted=[])
    assert programs.resolve("new") is None
    (machine / "system/git").rename(machine / "system/new")
    assert programs.resolve("new") == str(machine / "system/new")
    assert programs.resolve("git") is None


def test_what_is_missing_and_what_is_known(machine: Path) -> None:
    """A program that cannot be trusted exists all the same."""
    programs = Programs(f"{machine}/ws/bin:{machine}/nowhere:{machine}/system", untrusted=[str(machine / "ws")])
    assert [programs.is_missing(name) for name in ("ls", "git", "data", "frob")] == [False, False, True, True]
    assert programs.list_names() == BUILTINS | {"ls", "git", "git2", "outward"}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        *(("gti", "git"), ("sl", "ls"), ("pyhton3", "python3"), ("grpe", "grep"), ("pytset", "pytest")),
        *(("git-status", None), ("frobnicate", None), ("x", None), ("", None), ("git", None), ("cta", "cat")),
    ],
)
def test_a_program_is_suggested_only_where_one_is_near(name: str, expected: str | None) -> None:
    known = frozenset("git ls python3 grep pytest cat cut node make".split())
    assert suggest_program(name, known) == expected
