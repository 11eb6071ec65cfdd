"""Exclusions: as gitignore reads them, with braces, `dir/**` for the folder itself, and honoured starts."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.time_limits import cpu_time
from wap_kernel.files.globs.parse import MAX_COSTLY
from wap_kernel.files.globs.sets import DEFAULT_PATTERNS, ExcludePatterns, ExcludeSet
from wap_kernel.model.errors import InvalidArgument
from wap_kernel.model.limits import DEFAULT_EXCLUSIONS


def exclusions_of(patterns: Iterable[str], start: str = ".") -> ExcludeSet:
    return ExcludeSet(ExcludePatterns(patterns), start)


def covers(exclusions: ExcludeSet, path: str) -> bool:
    """Return whether the file `path` or a folder on the way to it is excluded."""
    return exclusions.covers_folder(path.rpartition("/")[0] or ".") or exclusions.excludes(path, is_folder=False)


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
    assert exclusions_of([pattern]).excludes(path.removesuffix("/"), path.endswith("/")) is excluded


def test_defaults_are_all_folder_names() -> None:
    exclusions = ExcludeSet(DEFAULT_PATTERNS)
    assert exclusions.only_names
    assert {"node_modules", ".git", "__pycache__"} < exclusions.folder_names
    assert len(exclusions.folder_names) == len(DEFAULT_EXCLUSIONS)


def test_a_folder_covers_everything_below() -> None:
    exclusions = exclusions_of(["**/node_modules/**", "*.egg-info", "build/x"])
    assert covers(exclusions, "a/node_modules/b/c.js")
    assert covers(exclusions, "a/p.egg-info/PKG/x")
    assert covers(exclusions, "build/x/y")
    assert not covers(exclusions, "a/node_modules")
    assert not covers(exclusions, "build/y")


def test_the_last_match_wins_but_not_inside_an_excluded_folder() -> None:
    exclusions = exclusions_of(["*.log", "!keep.log", "out/", "!out/keep.log"])
    assert covers(exclusions, "a.log")
    assert not covers(exclusions, "keep.log")
    assert covers(exclusions, "out/keep.log")


@pytest.mark.parametrize(
    ("patterns", "kept"),
    [
        (["*", "!*/", "!*.py"], ["sub/a.py", "top.py"]),
        (["*", "!sub", "!sub/a.py"], ["sub/a.py"]),
        (["*", "!sub/", "!sub/a.*"], ["sub/a.py", "sub/a.txt"]),
        (["/*", "!/sub"], ["sub/a.py", "sub/a.txt"]),
        (["sub/*", "!sub/a.py"], ["sub/a.py", "top.py"]),
        (["sub/", "!sub/a.py"], ["top.py"]),
        (["**", "!**/"], []),
    ],
)
def test_what_is_taken_back(patterns: list[str], kept: list[str]) -> None:
    exclusions = exclusions_of(patterns)
    assert [path for path in ("sub/a.py", "sub/a.txt", "top.py") if not covers(exclusions, path)] == kept


parts = st.sampled_from(["*", "a", "b", "a*", "*.b", "?"])
lines = st.builds("{}{}{}{}".format, *map(st.sampled_from, (["", "!"], ["", "/"])), parts, st.sampled_from(["", "/"]))
deep = st.builds("{}{}/{}".format, st.sampled_from(["", "!"]), parts, parts)
FOLDERS, NAMES = ("", "a/", "b/", "a/b/", "ab/a/"), ("c", "x.b", "abc")


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("repository")
    subprocess.run(["git", "init", "-q", root], check=True)
    for folder in FOLDERS:
        for name in NAMES:
            (root / folder).mkdir(parents=True, exist_ok=True)
            (root / folder / name).touch()
    return root


@given(patterns=st.lists(lines | deep, max_size=4))
def test_git_says_the_same(repository: Path, patterns: list[str]) -> None:
    (repository / ".git/info/exclude").write_text("\n".join(patterns))
    listing = ["git", "-C", repository, "ls-files", "-z", "--others", "--exclude-standard"]
    kept = subprocess.run(listing, check=True, capture_output=True, text=True).stdout.split("\0")[:-1]
    exclusions = exclusions_of(patterns)
    files = [folder + name for folder in FOLDERS for name in NAMES]
    assert {path for path in files if not covers(exclusions, path)} == set(kept)


@pytest.mark.parametrize("pattern", ["**/node_modules/**", "node_modules/**", "node_modules", "node_*/**"])
def test_a_start_inside_an_excluded_folder_is_honoured(pattern: str) -> None:
    exclusions = exclusions_of([pattern], "node_modules/x")
    assert not covers(exclusions, "node_modules/x/index.js")
    assert covers(exclusions, "node_modules/x/node_modules/y/index.js")


def test_a_pattern_that_does_not_cover_the_start_stays_relative_to_the_root() -> None:
    exclusions = exclusions_of(["a/b/secret/**"], "a/b")
    assert covers(exclusions, "a/b/secret/x")
    assert not covers(exclusions, "a/b/a/b/secret/x")


@pytest.mark.parametrize(
    "pattern",
    [
        *("{a,b}" * 12, "x" * 1001, "nul\0", "trailing\\", "**/a/**/b/**/c", "*a*a*a*a*b", "/a*a*a*a*b", "{1..100000}"),
        *("[z-a]", "[a-\\]", "{" * 300 + "a" + "}" * 300, "{a," * 300),
    ],
)
def test_patterns_that_are_wrong_or_cost_too_much_are_refused(pattern: str) -> None:
    with pytest.raises(InvalidArgument):
        exclusions_of([pattern])


def test_too_many_patterns_are_refused() -> None:
    with pytest.raises(InvalidArgument):
        exclusions_of([f"a{number}" for number in range(1001)])


@pytest.mark.parametrize("pattern", ["**/a*a*a*{0}z", "/a*a*a*{0}z", "a/**/b/**/{0}"])
def test_many_expensive_patterns_are_refused(pattern: str) -> None:
    """Each alone is bearable."""
    patterns = [pattern.format(number) for number in range(MAX_COSTLY + 1)]
    ExcludePatterns(patterns[1:])
    with pytest.raises(InvalidArgument):
        ExcludePatterns(patterns)
    with pytest.raises(InvalidArgument):
        ExcludePatterns([pattern.format("{1..200}")])


def test_many_cheap_patterns_are_fine() -> None:
    ExcludePatterns([f"**/cache*{number}*" for number in range(300)] + [f"*.x{number}" for number in range(300)])


@pytest.mark.parametrize("pattern", ["**/a/**/*a*b", "**/a*/**/*b", "*a*a*b", "/a*a*a*b"])
def test_the_most_expensive_patterns_allowed_are_bearable(pattern: str) -> None:
    with cpu_time(20):
        exclusions_of([pattern]).excludes("a/" * 1900 + "a" * 255, is_folder=False)


names = st.text(st.sampled_from("ab.-"), min_size=1, max_size=3).filter(lambda name: name.strip(".") != "")
trees = st.lists(names, min_size=1, max_size=4).map("/".join)


@given(trees, st.sets(names, max_size=3))
def test_folder_names_and_pathspec_agree(path: str, excluded: set[str]) -> None:
    by_names = exclusions_of([f"**/{name}/**" for name in excluded])
    by_pathspec = exclusions_of([*(f"**/{name}/**" for name in excluded), "!nothing-like-it"])
    assert by_names.only_names and (by_pathspec.folder_names == frozenset())
    assert covers(by_names, path) == covers(by_pathspec, path) == any(part in excluded for part in path.split("/")[:-1])
