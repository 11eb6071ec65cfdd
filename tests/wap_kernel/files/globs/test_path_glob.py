"""Selecting globs: exact, and folders on the way to something selected are known."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from wcmatch import glob

from wap_kernel.files.globs.sets import IncludeSet
from wap_kernel.model.errors import InvalidArgument

CASES = [
    # pattern, path, selected
    ("**/*", "a", True),
    ("**/*", "a/b/.c", True),
    ("**", "a/b", True),
    ("**/*.py", "main.py", True),
    ("**/*.py", "a/b/main.py", True),
    ("**/*.py", "a/b/main.pyc", False),
    ("src/*.ts", "src/a.ts", True),
    ("src/*.ts", "src/x/a.ts", False),
    ("src/*.ts", "lib/src/a.ts", False),
    ("src/**", "src/x/y", True),
    ("src/**", "src", True),
    ("src/**", "srcs/x", False),
    ("src", "src", True),
    ("src", "src/x", False),
    ("./src/*", "src/x", True),
    ("a/**/z", "a/z", True),
    ("a/**/z", "a/b/c/z", True),
    ("a/**/**/z", "a/b/z", True),
    ("*", ".hidden", True),
    ("*", "a/b", False),
    ("*.{md,rst}", "a.rst", True),
    ("{src,test}/**", "test/x", True),
    ("[ab].txt", "a.txt", True),
    ("[!ab].txt", "a.txt", False),
    ("a?c", "abc", True),
    (r"\*.py", "*.py", True),
    (r"\*.py", "a.py", False),
    ("A", "a", False),
    ("x", "x\n", False),
    ("*.py", "new\nline.py", True),
]


@pytest.mark.parametrize(("pattern", "path", "selected"), CASES)
def test_one_pattern(pattern: str, path: str, selected: bool) -> None:
    assert IncludeSet([pattern]).matches(path) is selected


@pytest.mark.parametrize(
    ("patterns", "folder", "leads", "covers"),
    [
        (["src/*.ts"], ".", True, False),
        (["src/*.ts"], "src", True, False),
        (["src/*.ts"], "src/x", False, False),
        (["src/*.ts"], "lib", False, False),
        (["src/**"], "src/x", True, True),
        (["**/*.py"], "any/where", True, False),
        (["**/*"], "any", True, True),
        (["a/**/z/*"], "a/b/c", True, False),
        (["src"], "src", False, False),
        ([], ".", False, False),
    ],
)
def test_folders_on_the_way(patterns: list[str], folder: str, leads: bool, covers: bool) -> None:
    selected = IncludeSet(patterns)
    assert selected.leads_on(folder) is leads
    assert selected.covers(folder) is covers


def test_entries_are_left_out_unless_they_are_selected_or_folders_that_lead_on() -> None:
    selected = IncludeSet(["src/**/*.py", "*.md"])
    names = ["src", "lib", "a.md", "b.txt"]
    assert selected.unselected(".", names, lambda: {"src", "lib"}) == {"lib", "b.txt"}
    assert selected.unselected(".", names, frozenset) == {"src", "lib", "b.txt"}
    assert selected.unselected("src", ["x", "y.py", "z.c"], lambda: {"x"}) == {"z.c"}


def test_asking_for_kinds_is_left_to_where_they_matter() -> None:
    def must_not_be_asked() -> set[str]:
        raise AssertionError

    assert IncludeSet(["src/**"]).unselected("src", ["a", "b"], must_not_be_asked) == set()
    assert IncludeSet(["src/*.py"]).unselected("src", ["a", "b.py"], must_not_be_asked) == {"a"}


def test_only_what_selects_everything_is_everything() -> None:
    assert IncludeSet(["**/*"]).everything and IncludeSet(["a", "**"]).everything and IncludeSet(["**/**/*"]).everything
    assert not IncludeSet(["*"]).everything and not IncludeSet(["**/*.*"]).everything


@pytest.mark.parametrize("pattern", ["{a,b}" * 12, "x" * 1001, "nul\0", "*a*a*a*a*b", "{1..100000}"])
def test_patterns_that_cost_too_much_are_refused(pattern: str) -> None:
    with pytest.raises(InvalidArgument):
        IncludeSet([pattern])


@pytest.mark.parametrize("pattern", ["../*", "a/../b", "/a", "[", "a[b", "x/[!]", "{a,../b}", "[]"])
def test_patterns_that_match_nothing_are_refused(pattern: str) -> None:
    with pytest.raises(InvalidArgument, match="matches nothing"):
        IncludeSet([pattern])


@pytest.mark.parametrize("pattern", [r"\[", "[]]", "[[]", "a..b", "...", "[!a]", r"[\]]"])
def test_patterns_that_match_odd_names_are_fine(pattern: str) -> None:
    IncludeSet([pattern])


names = st.text(st.sampled_from("ab."), min_size=1, max_size=3).filter(lambda name: name.strip(".") != "")
paths = st.lists(names, min_size=1, max_size=4).map("/".join)
parts = st.one_of(st.just("**"), names, st.text(st.sampled_from("ab.*?"), min_size=1, max_size=3)).filter(
    lambda part: part.strip(".") != "" and (part == "**" or "**" not in part)
)
patterns = st.lists(parts, min_size=1, max_size=4).map("/".join)


@given(patterns, paths)
def test_agrees_with_wcmatch(pattern: str, path: str) -> None:
    flags = glob.GLOBSTAR | glob.DOTMATCH | glob.FORCEUNIX
    expected = glob.globmatch(path, pattern, flags=flags) or glob.globmatch(path + "/", pattern, flags=flags)
    assert IncludeSet([pattern]).matches(path) is expected


@given(st.lists(patterns, max_size=3), paths)
def test_every_folder_above_a_selected_path_leads_on(chosen: list[str], path: str) -> None:
    selected = IncludeSet(chosen)
    above = [".", *("/".join(path.split("/")[:end]) for end in range(1, path.count("/") + 1))]
    if selected.matches(path):
        assert all(selected.leads_on(folder) for folder in above)
    if any(selected.covers(folder) for folder in above):
        assert selected.matches(path)
