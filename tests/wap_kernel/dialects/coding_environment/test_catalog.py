"""The catalog: its examples, every argument, and results with its names."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import os
import random
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest
from PIL import Image

from tests.support.coding_environment import Coding, play
from wap_kernel.dialects.coding_environment.tools import CodingTool
from wap_kernel.model.limits import CODING_MAX_IMAGE_BYTES, CODING_MAX_TEXT_BYTES

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


def test_listings_and_searches_come_in_pages(coding: Coding) -> None:
    for number in range(5):
        (coding.root / f"{number}.txt").write_text("word\n")

    async def collect(tool: str, items: str, build: Callable[[str | None], dict[str, Any]]) -> list[str]:
        found: list[str] = []
        cursor: str | None = None
        while True:
            page = await coding.call(tool, build(cursor))
            assert len(page[items]) <= 2
            found += [item["path"] for item in page[items]]
            if (cursor := page.get("nextCursor")) is None:
                return found
            assert page["truncated"] and page["total"] == 5

    def options(limit: str, cursor: str | None) -> dict[str, Any]:
        return {limit: 2, **({} if cursor is None else {"cursor": cursor})}

    async def scenario(coding: Coding) -> None:
        names = [f"{number}.txt" for number in range(5)]
        listed = await collect("listFiles", "entries", lambda cursor: {"options": options("maxEntries", cursor)})
        searched = await collect(
            "searchFiles", "results", lambda cursor: {"query": "word", "options": options("maxResults", cursor)}
        )
        globbed = await collect("globFiles", "files", lambda cursor: {"pattern": "*", **options("maxResults", cursor)})
        assert listed == searched == names
        assert sorted(globbed) == names

    play(coding, scenario)


def test_a_long_file_is_read_in_parts(coding: Coding) -> None:
    text = "".join(f"line {number}\n" for number in range(1, 60_001))
    (coding.root / "long.txt").write_text(text)

    async def scenario(coding: Coding) -> None:
        whole = await coding.call("readFile", {"path": "long.txt"})
        assert whole["truncated"] and whole["totalLines"] == 60_000 and whole["startLine"] == 1
        assert len(whole["content"]) <= CODING_MAX_TEXT_BYTES
        assert f"startLine {whole['endLine'] + 1}" in whole["note"]
        rest = await coding.call("readFile", {"path": "long.txt", "startLine": whole["endLine"] + 1, "endLine": 30_000})
        assert whole["content"] + rest["content"] == "".join(text.splitlines(True)[:30_000])
        assert "truncated" not in rest and rest["hash"] == whole["hash"]

    play(coding, scenario)


def test_large_arguments_do_not_block_the_event_loop(coding: Coding, monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[bool] = []
    parse = CodingTool.parse

    def note(tool: CodingTool[Any], body: bytes) -> Any:
        threads.append(threading.current_thread() is threading.main_thread())
        return parse(tool, body)

    monkeypatch.setattr(CodingTool, "parse", note)

    async def scenario(coding: Coding) -> None:
        for arguments in ({"query": "x" * 100_000}, {"query": "x", "options": {"globs": ["y" * 100_000]}}):
            await coding.refuse("searchFiles", arguments)
        await coding.call("searchFiles", {"query": "x"})

    play(coding, scenario)
    assert threads == [False, False, True]


def test_a_long_line_that_was_cut_is_named(coding: Coding) -> None:
    """The rest of it is not among the lines that follow."""
    (coding.root / "long.txt").write_text(("x" * 300_000 + "\n") * 3)

    async def scenario(coding: Coding) -> None:
        for line, then in ((1, " Read on with startLine 2."), (3, "")):
            read = await coding.call("readFile", {"path": "long.txt", "startLine": line})
            assert (read["truncated"], read["endLine"], len(read["content"])) == (True, line, CODING_MAX_TEXT_BYTES)
            cut = f"Line {line} was truncated after {CODING_MAX_TEXT_BYTES} bytes; a command can read the rest of it."
            assert read["note"] == cut + then

    play(coding, scenario)


def _png(width: int, height: int, *, is_noise: bool = False) -> bytes:
    target = io.BytesIO()
    data = random.Random(0).randbytes(3 * width * height) if is_noise else bytes(3 * width * height)
    Image.frombytes("RGB", (width, height), data).save(target, "PNG", compress_level=1)
    return target.getvalue()


def test_an_image_is_shown_as_one(coding: Coding) -> None:
    (coding.root / "small.png").write_bytes(_png(8, 4))
    (coding.root / "large.png").write_bytes(_png(3000, 1000))
    (coding.root / "noise.png").write_bytes(_png(1200, 800, is_noise=True))
    (coding.root / "wrong.png").write_bytes(b"\0no image")

    async def scenario(coding: Coding) -> None:
        for name, size in (("small", (8, 4)), ("large", (1568, 522))):
            outcome = await coding.outcome("readFile", {"path": f"{name}.png"})
            _, image = json.loads(outcome.result)["content"]
            assert (image["type"], image["mimeType"]) == ("image", "image/png")
            shown = Image.open(io.BytesIO(base64.b64decode(image["data"])))
            assert all(abs(one - other) <= 1 for one, other in zip(shown.size, size, strict=True))
            assert outcome.structured["content"] == "" and outcome.structured["mimeType"] == "image/png"
        noise = json.loads((await coding.outcome("readFile", {"path": "noise.png"})).result)["content"][1]
        assert noise["type"] == "image" and len(base64.b64decode(noise["data"])) <= CODING_MAX_IMAGE_BYTES
        wrong = await coding.call("readFile", {"path": "wrong.png"})
        assert wrong["isBinary"] and base64.b64decode(wrong["content"]) == b"\0no image"

    play(coding, scenario)


def test_an_image_that_is_too_large_is_left_out_with_the_reason(
    coding: Coding, monkeypatch: pytest.MonkeyPatch
) -> None:
    (coding.root / "large.png").write_bytes(_png(3000, 1000))
    monkeypatch.setitem(sys.modules, "PIL", None)  # as where Pillow is not installed

    async def scenario(coding: Coding) -> None:
        outcome = await coding.outcome("readFile", {"path": "large.png"})
        _, link = json.loads(outcome.result)["content"]
        assert (link["type"], link["uri"]) == ("resource_link", (coding.root / "large.png").as_uri())
        assert "3000 x 1000" in outcome.structured["note"] and "Pillow" in outcome.structured["note"]

    play(coding, scenario)
