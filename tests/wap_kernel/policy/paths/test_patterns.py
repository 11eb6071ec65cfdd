"""Denied patterns: as gitignore reads them, without case and kind; the fast way gives the same answers as the slow."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wap_kernel.files.globs.sets import ExcludePatterns, ExcludeSet
from wap_kernel.model.errors import InvalidArgument
from wap_kernel.policy.paths.patterns import PathPatterns

CASES = [
    # patterns, path, the pattern that covers it
    ([".env"], ".env", ".env"),
    ([".env"], "a/b/.env", ".env"),
    ([".env"], "a/.ENV", ".env"),
    ([".Env"], "a/.env", ".Env"),
    ([".env"], ".env/deep/x", ".env"),
    ([".env"], ".envrc", None),
    ([".env.*"], "x/.env.local", ".env.*"),
    (["*.pem"], "keys/a.PEM", "*.pem"),
    (["*.pem"], "a.pem.txt", None),
    (["**/.git/**"], ".git", "**/.git/**"),
    (["**/.git/**"], "sub/.git/config", "**/.git/**"),
    (["secrets/**"], "secrets", "secrets/**"),
    (["secrets/**"], "a/secrets/x", None),
    (["conf/prod/*.yml"], "conf/prod/a.yml", "conf/prod/*.yml"),
    (["conf/prod/*.yml"], "conf/prod/sub/a.yml", None),
    (["/top"], "a/top", None),
    (["a/**/z"], "a/b/c/z/x", "a/**/z"),
    (["*.{key,p12}"], "x.p12", "*.{key,p12}"),
    (["[ab]*.txt"], "B1.txt", "[ab]*.txt"),
    (["[!a-z]*"], "Upper", "[!a-z]*"),
    (["[!a-z]*"], "lower", None),
    ([r"\[x]"], "[x]", r"\[x]"),
    ([r"\[x]"], "x", None),
    (["*"], "anything", "*"),
    (["**"], ".", None),
    (["*.log", "!keep.log"], "keep.log", None),
    (["*.log", "!keep.log"], "other.log", "*.log"),
    (["!keep.log", "*.log"], "keep.log", "*.log"),
    (["out/", "!out/keep"], "out/keep", "out/"),
    (["x*", "!xy/"], "xy", "x*"),
    (["x*", "!xy/"], "xy/z", None),
    (["\u017fecret"], "SECRET", "\u017fecret"),
    (["stra\u00dfe"], "STRASSE", "stra\u00dfe"),
    (["*.pem"], "new\nline/x.pem", "*.pem"),
    (["*.pem"], "caf\udce9.pem", "*.pem"),
]


@pytest.mark.parametrize(("patterns", "path", "pattern"), CASES)
def test_what_covers_a_path(patterns: list[str], path: str, pattern: str | None) -> None:
    assert PathPatterns(patterns).find(path) == pattern


@pytest.mark.parametrize(
    "pattern",
    ["", "/", "!", "# x", " x", "x ", "../x", "a/../b", "[ab", "[[:alpha:]]", r"[\]]", "[z-a]", "a/**/", "a\\"],
)
def test_what_gitignore_would_read_as_nothing_is_refused(pattern: str) -> None:
    with pytest.raises(InvalidArgument):
        PathPatterns([pattern])


@pytest.mark.parametrize(
    ("patterns", "folder", "may_hold"),
    [
        (["*.env", "**/.git/**", "*.pem"], "a/b", False),
        (["conf/prod/*.yml"], "conf", True),
        (["conf/prod/*.yml"], "conf/prod", True),
        (["conf/prod/*.yml"], "conf/test", False),
        (["conf/prod/*.yml"], "other", False),
        (["/top"], "a", False),
        (["**/secrets/*.json"], "a", False),
        (["**/secrets/*.json"], "a/secrets", True),
        (["a/**/z"], "a/b/c", True),
        (["*.env", "!public/*.env"], "a", True),
    ],
)
def test_whether_moving_a_folder_may_free_something(patterns: list[str], folder: str, may_hold: bool) -> None:
    assert PathPatterns(patterns).may_hold(folder) is may_hold


names = st.text(st.sampled_from("abA.é"), min_size=1, max_size=4).filter(lambda name: name.strip(".") != "")
lower = st.text(st.sampled_from("ab.x"), min_size=1, max_size=4).filter(lambda name: name.strip(".") != "")
parts = st.one_of(st.just("**"), lower, st.text(st.sampled_from("ab.*?"), min_size=1, max_size=4)).filter(
    lambda part: part.strip(".") != "" and (part == "**" or "**" not in part)
)
bodies = st.lists(parts, min_size=1, max_size=3).map("/".join).filter(lambda body: body.strip("*/"))
patterns = st.tuples(bodies, st.sampled_from(["", "/", "/**"])).map("".join)
lists = st.lists(patterns, max_size=4)


def accepted(patterns: list[str]) -> bool:
    try:
        PathPatterns(patterns)
    except InvalidArgument:
        return False
    return True


@given(lists.filter(accepted), st.lists(st.booleans(), min_size=4, max_size=4), st.lists(lower, min_size=1, max_size=4))
def test_agrees_with_pathspec(patterns: list[str], negated: list[bool], path: list[str]) -> None:
    patterns = [("!" if negate else "") + pattern for pattern, negate in zip(patterns, negated, strict=False)]
    reference = ExcludeSet(ExcludePatterns(patterns)).covers_folder("/".join(path))
    assert (PathPatterns(patterns).find("/".join(path), folder=True) is not None) is reference


@given(lists.filter(accepted), st.lists(names, max_size=3), st.lists(names, max_size=30, unique=True))
def test_many_names_at_once_get_the_same_answers(patterns: list[str], folder: list[str], entries: list[str]) -> None:
    excluded = PathPatterns(patterns)
    above = "/".join(folder) or "."
    if excluded.find(above, folder=True) is None:
        expected = {name for name in entries if excluded.find("/".join((*folder, name))) is not None}
        assert excluded.among(above, entries, frozenset) == expected


@given(lists.filter(accepted), names, names, st.lists(names, min_size=1, max_size=3))
def test_what_is_closed_stays_closed_when_a_folder_moves(
    patterns: list[str], old: str, new: str, below: list[str]
) -> None:
    excluded = PathPatterns(patterns)
    if not excluded.may_hold(old) and excluded.find(old) is None and excluded.find("/".join((old, *below))) is not None:
        assert excluded.find("/".join((new, *below))) is not None
