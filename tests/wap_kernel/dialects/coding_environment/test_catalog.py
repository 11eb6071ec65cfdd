"""The catalog: its examples, every argument, and results with its names."""

from __future__ import annotations

import base64
import hashlib
import os
from typing import Any

import pytest

from tests.support.coding_environment import Coding, play

CATALOG_EXAMPLES: dict[str, dict[str, Any]] = {
    "readFile": {"workspaceRoot": ".", "path": "README.md"},
    "writeFile": {
        "workspaceRoot": ".",
        "path": "test.txt",
        "contents": "Hello, World!\n",
        "options": {"atomic": True, "createIfMissing": True},
    },
    "listFiles": {
        "workspaceRoot": ".",
        "path": ".",
        "options": {"recursive": False, "globs": ["**/*.py"], "maxEntries": 1000},
    },
    "searchFiles": {
        "workspaceRoot": ".",
        "query": "def ",
        "options": {"regex": False, "caseSensitive": False, "globs": ["**/*.py"], "maxResults": 100},
    },
    "runCommand": {
        "workspaceRoot": ".",
        "command": "python3",
        "args": ["-c", "print('test output...')"],
        "options": {"cwd": ".", "timeout": 60, "confirmed": True},
    },
}
CATALOG_RESULTS = {
    "readFile": {"path", "size", "mtime", "hash", "isBinary", "content"},
    "writeFile": {"path", "size", "hash"},
    "listFiles": {"path", "entries", "count"},
    "searchFiles": {"query", "results", "count"},
    "runCommand": {"command", "args", "exitCode", "stdout", "stderr", "durationMs"},
}

ADDED = {"runId", "isolation"}
"""Fields that the catalog does not have: the run that undoes the call, and where a command wrote."""


def _project(coding: Coding) -> None:
    (coding.root / "README.md").write_text("# README\n...")
    (coding.root / "file.py").write_text("import os\n\n  def hello():\n")
    (coding.root / "src").mkdir()
    (coding.root / "src" / "main.py").write_text("DEF = 1\ndef main():\n")
    (coding.root / "src" / "notes.txt").write_text("def not code\n")


@pytest.mark.parametrize("tool", CATALOG_EXAMPLES)
def test_the_examples_of_the_catalog(coding: Coding, tool: str) -> None:
    _project(coding)

    async def scenario(coding: Coding) -> None:
        answer = await coding.call(tool, CATALOG_EXAMPLES[tool])
        assert set(answer) - ADDED == CATALOG_RESULTS[tool]

    play(coding, scenario)


def test_read_file(coding: Coding) -> None:
    _project(coding)
    os.utime(coding.root / "README.md", (1704110400, 1704110400))

    async def scenario(coding: Coding) -> None:
        assert await coding.call("readFile", {"path": "README.md"}) == {
            "path": "README.md",
            "size": 12,
            "mtime": "2024-01-01T12:00:00.000Z",
            "hash": "sha256:" + hashlib.sha256(b"# README\n...").hexdigest(),
            "isBinary": False,
            "content": "# README\n...",
        }

    play(coding, scenario)


@pytest.mark.parametrize("data", [b"\x89PNG\0\1", b"caf\xe9\n", bytes(range(256))])
def test_what_is_not_utf8_text_is_read_as_base64(coding: Coding, data: bytes) -> None:
    (coding.root / "image").write_bytes(data)

    async def scenario(coding: Coding) -> None:
        answer = await coding.call("readFile", {"path": "image"})
        assert answer["isBinary"] and base64.b64decode(answer["content"]) == data and answer["size"] == len(data)

    play(coding, scenario)


@pytest.mark.parametrize("text", ["", "\ufeffmark\r\n", "ünï 😀\n", "a\x1b[31m\x07"])
def test_text_is_read_as_it_is(coding: Coding, text: str) -> None:
    (coding.root / "a").write_bytes(text.encode())

    async def scenario(coding: Coding) -> None:
        answer = await coding.call("readFile", {"path": "a"})
        assert (answer["isBinary"], answer["content"], answer["size"]) == (False, text, len(text.encode()))

    play(coding, scenario)


def test_a_file_larger_than_waps_own_limit_is_read_whole(coding: Coding) -> None:
    (coding.root / "big.txt").write_bytes(b"x" * (3 * 1024 * 1024))

    async def scenario(coding: Coding) -> None:
        assert (await coding.call("readFile", {"path": "big.txt"}))["size"] == 3 * 1024 * 1024

    play(coding, scenario)


@pytest.mark.parametrize("options", [{}, {"atomic": False}, {"atomic": True}, {"createIfMissing": True}, None])
def test_write_file_makes_folders_and_replaces(coding: Coding, options: dict[str, Any] | None) -> None:
    async def scenario(coding: Coding) -> None:
        for contents in ("first", "zweite Fassung: ü"):
            sent = {"path": "a/b/c.txt", "contents": contents, **({} if options is None else {"options": options})}
            written = await coding.call("writeFile", sent)
            read = await coding.call("readFile", {"path": "a/b/c.txt"})
            assert written.pop("runId").startswith("run_")
            assert written == {"path": "a/b/c.txt", "size": len(contents.encode()), "hash": read["hash"]}
            assert (coding.root / "a/b/c.txt").read_text() == contents

    play(coding, scenario)


def test_what_has_changed_since_it_was_written_is_not_overwritten(coding: Coding) -> None:
    async def scenario(coding: Coding) -> None:
        first = (await coding.call("writeFile", {"path": "a", "contents": "first"}))["hash"]
        second = {"path": "a", "contents": "second", "options": {"expectedHash": first}}
        current = (await coding.call("writeFile", second))["hash"]
        error = await coding.refuse("writeFile", second)
        assert (error.code, error.data["code"], error.data["currentHash"]) == (-32603, "CONFLICT", current)
        for tool, more in (("editFile", {"oldText": "second", "newText": "x"}), ("deleteFile", {})):
            failed = await coding.fail(tool, {"path": "a", "expectedHash": first, **more})
            assert (failed["code"], failed["details"]["currentHash"]) == ("CONFLICT", current)
        assert (coding.root / "a").read_text() == "second"

    play(coding, scenario)


def test_without_create_if_missing_a_missing_folder_is_an_error(coding: Coding) -> None:
    async def scenario(coding: Coding) -> None:
        options = {"createIfMissing": False}
        error = await coding.refuse("writeFile", {"path": "a/b.txt", "contents": "", "options": options})
        assert (error.code, error.data["code"]) == (-32602, "FILE_NOT_FOUND")
        assert not (coding.root / "a").exists()
        await coding.call("writeFile", {"path": "b.txt", "contents": "new", "options": options})

    play(coding, scenario)


def test_list_files(coding: Coding) -> None:
    _project(coding)
    (coding.root / "link").symlink_to("src")
    os.utime(coding.root / "file.py", (1704110400, 1704110400))

    async def scenario(coding: Coding) -> None:
        answer = await coding.call("listFiles", {})
        assert (answer["path"], answer["count"]) == (".", 4)
        assert {entry["path"]: entry["type"] for entry in answer["entries"]} == {
            "README.md": "file",
            "file.py": "file",
            "link": "link",
            "src": "dir",
        }
        assert answer["entries"][1] == {
            "name": "file.py",
            "path": "file.py",
            "type": "file",
            "size": 26,
            "mtime": "2024-01-01T12:00:00.000Z",
        }
        below = await coding.call("listFiles", {"path": "src"})
        assert [entry["path"] for entry in below["entries"]] == ["src/main.py", "src/notes.txt"]
        assert [entry["name"] for entry in below["entries"]] == ["main.py", "notes.txt"]

    play(coding, scenario)


LISTED = [
    ({"recursive": True}, ["README.md", "file.py", "src", "src/main.py", "src/notes.txt"]),
    ({"globs": ["**/*.py"]}, ["file.py"]),
    ({"recursive": True, "globs": ["**/*.py"]}, ["file.py", "src/main.py"]),
    ({"recursive": True, "globs": ["*.py"]}, ["file.py"]),
    ({"recursive": True, "globs": ["src/*.{py,txt}", "README.md"]}, ["README.md", "src/main.py", "src/notes.txt"]),
    ({"recursive": True, "globs": []}, []),
    ({"globs": None, "recursive": None, "maxEntries": None}, ["README.md", "file.py", "src"]),
]


@pytest.mark.parametrize(("options", "expected"), LISTED)
def test_what_is_listed(coding: Coding, options: dict[str, Any], expected: list[str]) -> None:
    _project(coding)

    async def scenario(coding: Coding) -> None:
        outcome = await coding.outcome("listFiles", {"options": options})
        assert outcome.structured is not None
        assert [entry["path"] for entry in outcome.structured["entries"]] == expected
        assert outcome.structured["count"] == len(expected)

    play(coding, scenario)


def test_a_listing_that_is_cut_says_so(coding: Coding) -> None:
    _project(coding)

    async def scenario(coding: Coding) -> None:
        answer = await coding.call("listFiles", {"options": {"recursive": True, "maxEntries": 2}})
        assert (answer["count"], answer["truncated"], answer["total"]) == (2, True, 5)

    play(coding, scenario)


def test_a_listing_of_more_than_waps_own_limit_is_whole(coding: Coding) -> None:
    for number in range(600):
        (coding.root / f"{number}.txt").touch()

    async def scenario(coding: Coding) -> None:
        answer = await coding.call("listFiles", {})
        assert answer["count"] == 600 and "truncated" not in answer

    play(coding, scenario)


def test_search_files(coding: Coding) -> None:
    _project(coding)

    async def scenario(coding: Coding) -> None:
        answer = await coding.call("searchFiles", {"query": "def ", "options": {"globs": ["**/*.py"]}})
        assert answer == {
            "query": "def ",
            "results": [
                {"path": "file.py", "line": 3, "column": 3, "text": "  def hello():"},
                {"path": "src/main.py", "line": 1, "column": 1, "text": "DEF = 1"},
                {"path": "src/main.py", "line": 2, "column": 1, "text": "def main():"},
            ],
            "count": 3,
        }

    play(coding, scenario)


FOUND = [
    ({"query": "def "}, 4),
    ({"query": "def ", "options": {"caseSensitive": True}}, 3),
    ({"query": "d.f"}, 0),
    ({"query": "^d.f", "options": {"regex": True}}, 3),
    ({"query": "^d.f", "options": {"regex": True, "caseSensitive": True}}, 2),
    ({"query": "def", "options": {"globs": ["*.py"]}}, 1),
    ({"query": "def", "options": {"globs": []}}, 0),
    ({"query": "nowhere"}, 0),
]


@pytest.mark.parametrize(("arguments", "count"), FOUND)
def test_what_is_found(coding: Coding, arguments: dict[str, Any], count: int) -> None:
    _project(coding)

    async def scenario(coding: Coding) -> None:
        answer = await coding.call("searchFiles", arguments)
        assert answer["count"] == len(answer["results"]) == count

    play(coding, scenario)


def test_a_search_that_is_cut_says_so(coding: Coding) -> None:
    (coding.root / "a.txt").write_text("needle\n" * 150)

    async def scenario(coding: Coding) -> None:
        whole = await coding.call("searchFiles", {"query": "needle"})
        assert whole["count"] == 150 and "truncated" not in whole
        cut = await coding.call("searchFiles", {"query": "needle", "options": {"maxResults": 7}})
        assert (cut["count"], cut["truncated"], cut["total"]) == (7, True, 150)

    play(coding, scenario)


def test_run_command(coding: Coding) -> None:
    _project(coding)

    async def scenario(coding: Coding) -> None:
        script = "import os, sys; print(os.getcwd(), os.environ['A']); sys.stderr.write('e'); sys.exit(3)"
        arguments = {
            "command": "python3",
            "args": ["-c", script],
            "options": {"cwd": "src", "env": {"A": "b"}, "timeout": 50.5},
        }
        answer = await coding.call("runCommand", arguments)
        assert answer.pop("durationMs") >= 0
        assert answer == {
            "command": "python3",
            "args": ["-c", script],
            "exitCode": 3,
            "stdout": f"{coding.root}/src b\n",
            "stderr": "e",
            "isolation": "shared",
        }
        assert (await coding.call("runCommand", {"command": "true"}))["args"] == []

    play(coding, scenario)


def test_no_shell_reads_the_arguments(coding: Coding) -> None:
    words = ["; touch x", "$(id)", "`id`", "*", "~", "a b", "", "'", '"', "\\", "\n", "| cat", "> x", "&&"]

    async def scenario(coding: Coding) -> None:
        answer = await coding.call("runCommand", {"command": "printf", "args": ["[%s]", *words]})
        assert answer["stdout"] == "".join(f"[{word}]" for word in words)
        assert list(coding.root.iterdir()) == []

    play(coding, scenario)


def test_output_that_is_cut_says_so(coding: Coding) -> None:
    async def scenario(coding: Coding) -> None:
        answer = await coding.call("runCommand", {"command": "seq", "args": ["400000"]})
        assert answer["truncated"] and answer["stdoutBytes"] == 2_688_895 and answer["stderrBytes"] == 0
        assert answer["stdout"].startswith("1\n2\n") and answer["stdout"].endswith("400000\n")

    play(coding, scenario)


# -- workspaceRoot


@pytest.mark.parametrize("as_named", ["sub", "./sub/", "sub/inner/..", "{root}/sub", "link"])
def test_every_tool_stays_in_its_workspace_root_and_speaks_of_paths_from_there(coding: Coding, as_named: str) -> None:
    (coding.root / "sub" / "inner").mkdir(parents=True)
    (coding.root / "link").symlink_to("sub")
    (coding.root / "outer.txt").write_text("needle\n")
    root = as_named.format(root=coding.root)

    async def scenario(coding: Coding) -> None:
        async def call(tool: str, **arguments: Any) -> dict[str, Any]:
            return await coding.call(tool, {"workspaceRoot": root, **arguments})

        assert (await call("writeFile", path="inner/a.txt", contents="needle\n"))["path"] == "inner/a.txt"
        assert (coding.root / "sub/inner/a.txt").exists()
        assert (await call("readFile", path=f"{coding.root}/sub/inner/a.txt"))["path"] == "inner/a.txt"
        listing = await call("listFiles", options={"recursive": True})
        assert [entry["path"] for entry in listing["entries"]] == ["inner", "inner/a.txt"]
        assert [found["path"] for found in (await call("searchFiles", query="needle"))["results"]] == ["inner/a.txt"]
        assert (await call("runCommand", command="pwd"))["stdout"] == f"{coding.root}/sub\n"
        inner = await call("runCommand", command="pwd", options={"cwd": "inner"})
        assert inner["stdout"] == f"{coding.root}/sub/inner\n"
        edited = await call("editFile", path="inner/a.txt", oldText="needle", newText="pin")
        assert edited["path"] == "inner/a.txt"
        assert edited["diff"] == "--- a/inner/a.txt\n+++ b/inner/a.txt\n@@ -1 +1 @@\n-needle\n+pin\n"
        assert [file["path"] for file in (await call("globFiles", pattern="**/*"))["files"]] == ["inner/a.txt"]
        assert (await call("deleteFile", path="inner/a.txt"))["path"] == "inner/a.txt"
        assert (await call("getWorkspaceInfo"))["workspaceRoot"] == "sub"

    play(coding, scenario)


def test_names_that_are_not_utf8_are_shown_escaped(coding: Coding) -> None:
    os.mkdir(os.fsencode(coding.root) + b"/f\xff")
    (coding.root / os.fsdecode(b"f\xff") / "a.txt").write_text("needle")

    async def scenario(coding: Coding) -> None:
        listing = await coding.call("listFiles", {"options": {"recursive": True}})
        assert [entry["path"] for entry in listing["entries"]] == ["f\\xff", "f\\xff/a.txt"]
        assert (await coding.call("searchFiles", {"query": "needle"}))["results"][0]["path"] == "f\\xff/a.txt"

    play(coding, scenario)
