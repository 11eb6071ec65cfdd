"""Resolve the lowest versions that pyproject.toml declares, for every Python, and our versions with those of others."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

if sys.version_info >= (3, 11):
    import tomllib
else:  # pytest brings it there
    import tomli as tomllib

PROJECT = Path(__file__).resolve().parents[1]
METADATA = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]
PYTHONS = [
    version
    for classifier in METADATA["classifiers"]
    if re.fullmatch(r"3\.\d+", version := classifier.rpartition(" :: ")[2])
]

OTHERS = ("jupyter-ai==3.2.0", "notebook-intelligence", "jupyter-mcp-server", "jupyter-collaboration")
"""Extensions of the same server that people have beside ours."""

pytestmark = pytest.mark.download


def test_the_declared_pythons_begin_with_the_lowest() -> None:
    assert METADATA["requires-python"] == f">={PYTHONS[0]}"


@pytest.mark.parametrize("python", PYTHONS)
def test_the_lowest_versions_go_together(python: str) -> None:
    """Let uv take the lowest version of each direct dependency; it fails where another one does not allow it."""
    pinned = _resolve(
        "--resolution", "lowest-direct", "--python-version", python, "--extra", "github", "pyproject.toml"
    )
    missing = {name for name in map(_name, METADATA["dependencies"]) if name not in pinned}
    assert missing == set()


@pytest.mark.parametrize("others", [*((name,) for name in OTHERS), OTHERS], ids=" ".join)
def test_the_extensions_of_others_install_beside_ours(others: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "others.in").write_text("\n".join(others))
    pinned = _resolve("pyproject.toml", str(tmp_path / "others.in"))
    wanted = {_name(requirement) for requirement in (*METADATA["dependencies"], *others)}
    assert wanted <= pinned.keys()


def _resolve(*arguments: str) -> dict[str, str]:
    """Return the version of each distribution that uv takes; it fails where there is no answer."""
    command = [sys.executable, "-m", "uv", "pip", "compile", "--quiet", "--no-header", "--no-annotate", *arguments]
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return dict(line.split("==") for line in done.stdout.split() if "==" in line)


def _name(requirement: str) -> str:
    return re.split(r"[\[<>=~! ]", requirement)[0].lower().replace("_", "-")
