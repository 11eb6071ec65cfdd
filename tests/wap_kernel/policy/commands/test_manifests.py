"""The command lines that a line takes from a package's own files."""

from __future__ import annotations

import json

import pytest

from wap_kernel.policy.commands.manifests import list_inner_lines, list_manifests

PACKAGE = json.dumps(
    {"scripts": {"preinstall": "a", "build": "b", "prebuild": "c", "postbuild": "d", "other": "e", "prepare": "f"}}
)


@pytest.mark.parametrize(
    ("words", "expected"),
    [({"npm", "ci"}, {"a", "f"}), ({"npm", "run", "build"}, {"a", "b", "c", "d", "f"}), (set(), {"a", "f"})],
)
def test_scripts_that_run(words: set[str], expected: set[str]) -> None:
    assert {*list_inner_lines("package.json", PACKAGE.encode(), words)} == expected


@pytest.mark.parametrize(
    "content", [b"", b"[]", b"{", b'{"scripts": []}', b'{"scripts": {"install": 1}}', b"[" * 99_999]
)
def test_a_package_that_is_none_runs_nothing(content: bytes) -> None:
    assert [*list_inner_lines("package.json", content, {"npm"})] == []


def test_requirements_in_the_workspace() -> None:
    content = b"# ./no\nnumpy>=1.0\n./pkg\n-e other\n-r more.txt\nx @ file:///workspace/x\nwheel-1.whl\npandas\n"
    lines = [*list_inner_lines("requirements.txt", content, {"pip"})]
    names = ["./pkg", "-e other", "-r more.txt", "x @ file:///workspace/x", "wheel-1.whl"]
    assert lines == [f"pip install {name}" for name in names]
    assert [*list_inner_lines("requirements.txt", content, {"cat"})] == []
    assert [*list_inner_lines("notes.md", content, {"pip"})] == []


def test_manifests() -> None:
    assert "Makefile" in list_manifests("make")
    assert "package-lock.json" in list_manifests("npm")
    assert list_manifests("ls") == ()
