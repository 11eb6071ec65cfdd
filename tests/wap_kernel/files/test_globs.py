"""Exclusions: as gitignore reads them, with braces, `dir/**` for the folder itself, and honoured starts."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wap_kernel.errors import InvalidArgument
from wap_kernel.files.globs import DEFAULT_EXCLUSIONS, Exclusions

CASES = [
    # pattern, path ("x/" is a folder), excluded
    ("**/node_modules/**", "node_modules/", True),
    ("**/node_modules/**", "a/b/node_modules/", True),
    ("**/node_modules/**", "a/node_modules", False),
    ("**/node_modules/**", "node_modules2/", False),
    ("dir/**", "dir/", True),
    ("dir/**", "dir", False),
    ("dir/**", "a/dir/", False),
    ("a/dir/**", "a/dir/", True),
    ("dir/", "a/dir/", True),
    ("dir/", "a/dir", False),
    ("*.py", "main.py", True),
    ("*.py", "a/b/main.py", True),
    ("*.py", "a/main.pyc", False),
    ("*.py", "folder.py/", True),
    ("docs/*.md", "docs/a.md", True),
    ("docs/*.md", "docs/x/a.md", False),
    ("docs/*.md", "x/docs/a.md", False),
    ("**/*.log", "top.log", True),
    ("a/**/z", "a/z", True),
    ("a/**/z", "a/b/c/z", True),
    ("a/**/**/z", "a/b/c/z", True),
    ("/top", "top", True),
    ("/top", "a/top", False),
    ("./top", "top", True),
    ("*.{js,ts}", "a/x.ts", True),
    ("*.{js,ts}", "a/x.css", False),
    ("{dist,out}/**", "out/", True),
    ("[ab].txt", "a.txt", True),
    ("[!ab].txt", "a.txt", False),
    ("[!ab].txt", "c.txt", True),
    ("a?c", "abc", True),
    ("a?c", "a/c", False),
    (r"\*.py", "*.py", True),
    (r"\*.py", "a.py", False),
    ("../**", "a", False),
    ("../**", "a/", False),
    ("**", "a", True),
    ("/**", "a/", True),
    ("", "a", False),
    ("# comment", "# comment", False),
    ("*.py", "new\nline/x.py", True),
    ("x", "x\n", False),
    ("*.py", "caf\udce9.py", True),
]


@pytest.mark.parametrize(("pattern", "path", "excluded"), CASES)
def test_one_pattern(pattern: str, path: str, excluded: bool) -> None:
    assert Exclusions([pattern]).excludes(path.removesuffix("/"), path.endswith("/")) is excluded


def test_defaults_are_all_folder_names() -> None:
    exclusions = Exclusions(DEFAULT_EXCLUSIONS)
    assert exclusions.only_names
    assert {"node_modules", ".git", "__pycache__"} < exclusions.folder_names
    assert len(exclusions.folder_names) == len(DEFAULT_EXCLUSIONS)


def test_a_folder_covers_everything_below() -> None:
    exclusions = Exclusions(["**/node_modules/**", "*.egg-info", "build/x"])
    assert exclusions.covers("a/node_modules/b/c.js")
    assert exclusions.covers("a/p.egg-info/PKG/x")
    assert exclusions.covers("build/x/y")
    assert not exclusions.covers("a/node_modules")
    assert not exclusions.covers("build/y")


def test_the_last_match_wins_but_not_inside_an_excluded_folder() -> None:
    exclusions = Exclusions(["*.log", "!keep.log", "out/", "!out/keep.log"])
    assert exclusions.covers("a.log")
    assert not exclusions.covers("keep.log")
    assert exclusions.covers("out/keep.log")


@pytest.mark.parametrize("pattern", ["**/node_modules/**", "node_modules/**", "node_modules", "node_*/**"])
def test_a_start_inside_an_excluded_folder_is_honoured(pattern: str) -> None:
    exclusions = Exclusions([pattern], "node_modules/x")
    assert not exclusions.covers("node_modules/x/index.js")
    assert exclusions.covers("node_modules/x/node_modules/y/index.js")


def test_a_pattern_that_does_not_cover_the_start_stays_relative_to_the_root() -> None:
    exclusions = Exclusions(["a/b/secret/**"], "a/b")
    assert exclusions.covers("a/b/secret/x")
    assert not exclusions.covers("a/b/a/b/secret/x")


@pytest.mark.parametrize(
    "pattern", ["{a,b}" * 12, "x" * 1001, "nul\0", "trailing\\", "**/a/**/b/**/c", "*a*a*a*a*b", "{1..100000}"]
)
def test_patterns_that_cost_too_much_are_refused(pattern: str) -> None:
    with pytest.raises(InvalidArgument):
        Exclusions([pattern])


def test_too_many_patterns_are_refused() -> None:
    with pytest.raises(InvalidArgument):
        Exclusions([f"a{number}" for number in range(1001)])


@pytest.mark.parametrize("pattern", ["**/a/**/*a*b", "**/a*/**/*b", "*a*a*b"])
def test_the_most_expensive_patterns_allowed_are_bearable(pattern: str) -> None:
    begin = time.process_time()
    Exclusions([pattern]).excludes("a/" * 1900 + "a" * 255, is_folder=False)
    assert time.process_time() - begin < 5


names = st.text(st.sampled_from("ab.-"), min_size=1, max_size=3).filter(lambda name: name.strip(".") != "")
trees = st.lists(names, min_size=1, max_size=4).map("/".join)


@given(trees, st.sets(names, max_size=3))
def test_folder_names_and_pathspec_agree(path: str, excluded: set[str]) -> None:
    by_names = Exclusions([f"**/{name}/**" for name in excluded])
    by_pathspec = Exclusions([*(f"**/{name}/**" for name in excluded), "!nothing-like-it"])
    assert by_names.only_names and (by_pathspec.folder_names == frozenset())
    assert by_names.covers(path) == by_pathspec.covers(path) == any(part in excluded for part in path.split("/")[:-1])
