"""Search, the three ways it is done: in process, by rg under Landlock, by rg on descriptors. One answer."""

from __future__ import annotations

import os
import re
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.file_trees import Tree, grow, includes, is_selected, trees
from tests.support.guards import NoJournal
from tests.support.searchers import OPEN, WAYS, Search, found, make_searcher
from wap_kernel.files.contained.root import Root
from wap_kernel.files.search import searcher as searching
from wap_kernel.files.search.ripgrep_search import LONG
from wap_kernel.model.command import Deadline
from wap_kernel.model.errors import InvalidArgument
from wap_kernel.model.operations import SearchFiles
from wap_kernel.model.results import Limits


def test_sorted_by_path_and_line_with_context(ws: Path, search: Search) -> None:
    grow(ws, {"b": b"x needle\n", "a": {"f": b"1\n2\n3 needle\n4\n5 needle needle\n"}, "a-b": b"needle"})
    result = search("needle")
    assert found(result) == [
        *(("a-b", 1, "needle"), ("a/f", 3, "3 needle"), ("a/f", 5, "5 needle needle"), ("b", 1, "x needle")),
    ]
    assert (result.total_matches, result.is_truncated) == (4, False)
    assert (result.matches[1].context_before, result.matches[1].context_after) == (["1", "2"], ["4", "5 needle needle"])
    assert search("needle", context_lines=0).matches[1].context_before == []


@pytest.mark.parametrize("regex", [False, True])
def test_the_total_is_exact_past_the_limit(ws: Path, search: Search, regex: bool) -> None:
    grow(ws, {f"f{number:02}": b"hit\n" * number for number in range(12)})
    result = search("h[i]t" if regex else "hit", usual=5, regex=regex)
    assert found(result) == [(path, line, "hit") for path, line in [("f01", 1), *_lines("f02", 2), *_lines("f03", 2)]]
    assert (result.total_matches, result.is_truncated) == (66, True)


def _lines(path: str, number: int) -> list[tuple[str, int]]:
    return [(path, line) for line in range(1, number + 1)]


QUERIES = [
    # query, options, content, matching lines
    ("a.c", {}, b"abc\na.c\n", [2]),
    ("a.c", {"regex": True}, b"abc\na.c\n", [1, 2]),
    ("ABC", {"case_sensitive": False}, b"abc\nxAbCx\nab\n", [1, 2]),
    ("É", {"case_sensitive": False}, "é\n".encode(), [1]),
    ("end$", {"regex": True}, b"end\r\nend\nend \nend", [1, 2, 4]),
    ("^$", {"regex": True}, b"a\n\nb\n", [2]),
    ("-e", {}, b"a -e b\n", [1]),
    ("--files", {}, b"x --files\n", [1]),
    ("-e", {"regex": True}, b"a -e b\n", [1]),
    ("$HOME", {}, b"echo $HOME\n", [1]),
    ("x\\n", {}, b"x\\n\n", [1]),
    ("caf", {}, b"caf\xe9\n", [1]),
    ("é", {}, "é\r\n".encode(), [1]),
    ("\\w+\\s\\d", {"regex": True}, b"ab 1\nab\n", [1]),
    ("(?i)todo|fixme", {"regex": True}, b"ToDo\nFIXME\nx\n", [1, 2]),
]


@pytest.mark.parametrize(("query", "options", "content", "lines"), QUERIES)
def test_queries(
    ws: Path, search: Search, query: str, options: dict[str, object], content: bytes, lines: list[int]
) -> None:
    (ws / "f").write_bytes(content)
    result = search(query, **options)
    assert [match.line for match in result.matches] == lines
    assert result.total_matches == len(lines)


def test_texts_are_lines_without_their_ending_and_with_bad_bytes_replaced(ws: Path, search: Search) -> None:
    (ws / "f").write_bytes(b"before \xff\r\nneedle \xff\r\nafter")
    match = search("needle").matches[0]
    assert (match.match_text, match.context_before, match.context_after) == (
        "needle \ufffd",
        ["before \ufffd"],
        ["after"],
    )


@pytest.mark.parametrize("regex", [False, True])
@pytest.mark.parametrize("lines_before", [0, 300])
@pytest.mark.parametrize(
    ("before", "after", "excerpt"),
    [
        (10, 100, "a" * 10 + "needle" + "b" * 100),
        (1000, 994, "a" * 1000 + "needle" + "b" * 994),
        (10, 5000, "a" * 10 + "needle" + "b" * 1981 + "..."),
        (3000, 10, "..." + "a" * 1981 + "needle" + "b" * 10),
        (3000, 5000, "..." + "a" * 500 + "needle" + "b" * 1488 + "..."),
        (1994, 1, "..." + "a" * 1990 + "needle" + "b"),
        (900_000, 100_000, "..." + "a" * 500 + "needle" + "b" * 1488 + "..."),
    ],
)
def test_of_a_long_line_the_part_around_the_match_is_returned(
    ws: Path, search: Search, regex: bool, lines_before: int, before: int, after: int, excerpt: str
) -> None:
    """Characters are counted, not bytes, and a line ending is no part of the line; in small and in large files."""
    for first in ("a", "é", "😀"):
        line = f"{first * before}needle{'b' * after}\r\n"
        (ws / "f").write_text(("-" * 999 + "\n") * lines_before + line + "end\n", newline="")
        (match,) = search("n[e]edle" if regex else "needle", regex=regex).matches
        if len(first.encode()) * before < LONG:  # further along a pattern's match is not looked for
            assert (match.column, match.match_text) == (before + 1, excerpt.replace("a", first))
        assert len(match.match_text) <= 2000


@pytest.mark.parametrize("way", ["literal", "regex", "end of the file"])
def test_a_literal_at_the_end_of_5_mb_without_a_line_ending(ws: Path, search: Search, way: str) -> None:
    (ws / "f").write_bytes(b"a" * (5_000_000 if way == "literal" else 500_000) + b"needle")
    query = {"literal": "needle", "regex": "n[e]edle", "end of the file": "$"}[way]
    (match,) = search(query, regex=way != "literal").matches
    assert match.match_text == "..." + "a" * 1991 + "needle"


def test_context_lines_are_cut_as_well(ws: Path, search: Search) -> None:
    (ws / "f").write_bytes(b"a" * 2001 + b"\nneedle\n" + b"b" * 2000)
    (match,) = search("needle").matches
    assert (match.context_before, match.context_after) == (["a" * 1997 + "..."], ["b" * 2000])


@pytest.mark.parametrize("regex", [False, True])
def test_the_callers_own_limit_replaces_the_usual_one(
    ws: Path, search: Search, monkeypatch: pytest.MonkeyPatch, regex: bool
) -> None:
    grow(ws, {"a": b"hit\n" * 4, "b": b"hit\n" * 5})
    query = "h[i]t" if regex else "hit"
    for own, shown in [(2, 2), (7, 7), (10**9, 9), (None, 5)]:
        result = search(query, usual=5, limit=own, regex=regex)
        assert (len(result.matches), result.total_matches, result.is_truncated) == (shown, 9, shown < 9)
    monkeypatch.setattr(searching, "MAX_MATCHES", 6)
    assert len(search(query, regex=regex, limit=7).matches) == 6
    with pytest.raises(InvalidArgument):
        search(query, regex=regex, limit=0)


@pytest.mark.parametrize("text", ["\u212aelvin", "mea\u017fure", "K", "\u017f", "k", "s", "straße", "ÉÀ", "İi"])
def test_case_is_folded_as_rg_does_it_in_every_way(ws: Path, search: Search, text: str) -> None:
    """The Kelvin sign and the long s are letters of ASCII to Unicode."""
    (ws / "f").write_text("KELVIN\nkelvin\n\u212aelvin\nMEASURE\nmea\u017fure\nSTRAẞE\nstraße\néà\nİI\nii\n")
    expected = search(f"(?i:{text})", regex=True)
    assert expected.total_matches > 0
    for options in ({}, {"regex": True}):
        result = search(text, case_sensitive=False, **options)
        assert [dict(match) for match in result.matches] == [dict(match) for match in expected.matches]


def test_nothing_else_in_unicode_is_another_case_of_ascii(ws: Path, search: Search) -> None:
    characters = [chr(number) for number in range(0x80, 0x110000) if not 0xD800 <= number < 0xE000]
    (ws / "f").write_text("\n".join(characters), newline="")
    result = search("[a-z]", regex=True, case_sensitive=False)
    assert [match.match_text for match in result.matches] == ["\u017f", "\u212a"]
    assert search("q", case_sensitive=False).total_matches == 0


@pytest.mark.parametrize("query", ["", "a\nb", "a\r", "a\0b", "x" * 10_001, "\ud800"])
@pytest.mark.parametrize("regex", [False, True])
def test_queries_that_are_refused(search: Search, query: str, regex: bool) -> None:
    with pytest.raises(InvalidArgument):
        search(query, regex=regex)


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("(?=a)", "look-around"),
        (r"(a)\1", "backreferences"),
        ("(", "unclosed group"),
        ("[z-a]", "invalid character class range"),
        (r"\p{Foo}", "Unicode property not found"),
        (r"a\nb", "is not allowed"),
        (r"a\r", "is not allowed"),
        ("a{1000}{1000}{1000}", "size limit"),
    ],
)
def test_a_bad_regular_expression_says_why(search: Search, query: str, reason: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        search(query, regex=True)
    assert reason in caught.value.message
    assert "Rust" in caught.value.text and "--" not in caught.value.text


def test_a_catastrophic_pattern_is_none_in_rg(ws: Path, search: Search) -> None:
    (ws / "f").write_bytes(b"a" * 5000 + b"b\n")
    assert search("(a+)+$", regex=True).total_matches == 0


@pytest.mark.parametrize("way", WAYS)
@settings(max_examples=25, deadline=None)
@given(trees, st.sampled_from(["needle", "a", "é", " "]), st.booleans(), st.booleans(), st.integers(1, 6), includes)
def test_the_same_as_a_reference(
    way: str,
    tree: Tree,
    query: str,
    regex: bool,
    case_sensitive: bool,
    limit: int,
    include: tuple[str, ...] | None,
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        grow(Path(folder), tree)
        expected = _reference(folder, query, case_sensitive, include)
        root = Root(folder, guard=OPEN, journal=NoJournal())
        searcher = make_searcher(root, way)
        try:
            operation = SearchFiles(
                paths=(".",),
                query=f"(?:{query})" if regex else query,
                regex=regex,
                case_sensitive=case_sensitive,
                context_lines=1,
                include=include,
                limit=limit,
            )
            result = searcher.search(root, OPEN, operation, Limits(), Deadline(60))
        finally:
            searcher.close()
            root.close()
        assert [tuple(dict(match).values()) for match in result.matches] == expected[:limit]
        assert result.total_matches == len(expected)
        assert result.is_truncated == (len(expected) > limit)


def _reference(
    folder: str, query: str, case_sensitive: bool, include: tuple[str, ...] | None
) -> list[tuple[str, int, int, str, list[str], list[str]]]:
    pattern = re.compile(re.escape(query), 0 if case_sensitive else re.IGNORECASE)
    found = []
    for base, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if name not in ("dist", "build")]
        for name in files:
            data = Path(base, name).read_bytes()
            lines = data.split(b"\n")
            texts = [line.removesuffix(b"\r").decode("utf-8", "replace") for line in lines[:-1]]
            texts += [lines[-1].decode("utf-8", "replace")] if lines[-1] else []
            path = os.path.relpath(os.path.join(base, name), folder)
            for at, text in enumerate(texts if b"\0" not in data and is_selected(path, include) else []):
                if match := pattern.search(text):
                    around = texts[max(0, at - 1) : at], texts[at + 1 : at + 2]
                    found.append((path, at + 1, match.start() + 1, text, *around))
    return sorted(found)
