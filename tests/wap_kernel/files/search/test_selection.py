"""What is searched: exclusions, globs, links, odd names, and what nobody may see."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.support.file_trees import Tree, grow
from tests.support.guards import NoJournal, OpenGuard
from tests.support.searchers import WAYS, Search, found, make_searcher
from wap_kernel.files.contained.root import Root
from wap_kernel.model.command import Deadline
from wap_kernel.model.errors import FileNotFound, InvalidArgument, PermissionDenied
from wap_kernel.model.operations import SearchFiles
from wap_kernel.model.paths import Access
from wap_kernel.model.results import Limits


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


def test_starts_that_are_refused(search: Search) -> None:
    with pytest.raises(FileNotFound):
        search("x", "missing")
    with pytest.raises(InvalidArgument):
        search("x", *(["."] * 101))
    with pytest.raises(InvalidArgument):
        search("x", context_lines=-1)


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
    """A named file is beyond the limit of rg itself, which would read all of it."""
    grow(ws, {"f": b"needle\n", "big": b"needle\n"})
    os.truncate(ws / "big", 10 * 1024**3)
    assert search(query, "big", regex=regex).total_matches == 0
    assert [match.path for match in search(query, "big", "f", regex=regex).matches] == ["f"]
    assert [match.path for match in search(query, regex=regex).matches] == ["f"]
    with pytest.raises(InvalidArgument):
        search("(", "big", regex=True)
