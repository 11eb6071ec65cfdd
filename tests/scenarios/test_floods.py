"""Special files and floods, patterns that never end, options in disguise: answered at once, in little memory."""

from __future__ import annotations

import asyncio
import json
import os
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.wap_calls import ON_PATH
from wap_kernel.model.errors import Code, WapError
from wap_kernel.model.results import Limits


@pytest.fixture
def special(tools: Any) -> Any:
    os.mkfifo(tools.root / "fifo")
    (tools.root / "plain").write_text("needle\n")
    (tools.root / "folder").mkdir()
    os.mkfifo(tools.root / "folder" / "fifo")
    if os.geteuid() == 0:
        os.mknod(tools.root / "device", stat.S_IFCHR | 0o666, os.makedev(1, 5))  # /dev/zero
    return tools


@pytest.mark.parametrize(
    "case",
    [case for case in ON_PATH if case.split()[0] in ("readFile", "writeFile", "modifyFile", "searchFiles", "copyFile")],
)
def test_special_files_are_refused_at_once(special: Any, case: str) -> None:
    (special.root / "inside.txt").write_text("x")
    for name in ("fifo", "device"):
        if not (special.root / name).exists():
            continue
        parameters = ON_PATH[case](name) | ({"createDirectories": False} if case == "writeFile create" else {})
        error = special.refuse(case.split()[0], **parameters)
        assert error.code in (Code.INVALID_ARGUMENT, Code.FILE_EXISTS), case
        assert not stat.S_ISREG(os.lstat(special.root / name).st_mode)


def test_listing_and_search_pass_special_files_by(special: Any) -> None:
    listed = special.exploreFiles(path=".", recursive=True, returnMetadata=True)
    assert {"fifo", "folder/fifo", "plain"} <= {file["path"] for file in listed["files"]}
    for kind in ("literal", "regex"):
        assert special.searchFiles(paths=["."], query="needle", type=kind)["totalMatches"] == 1


def test_one_line_of_5_mb_is_found_and_cut(tools: Any) -> None:
    (tools.root / "long").write_bytes(b"x" * 5_000_000 + b"needle" + b"y" * 1000 + b"\nafter\n")
    for kind in ("literal", "regex"):
        found = tools.searchFiles(paths=["."], query="needle", type=kind, contextLines=1)
        (match,) = found["matches"]
        assert match["line"] == 1
        assert len(match["matchText"]) <= 2100
        assert match["contextAfter"] == ["after"]
    assert tools.refuse("readFile", path="long").code is Code.SIZE_LIMIT_EXCEEDED
    assert len(tools.readFile(path="long", startLine=1, endLine=1)["content"]) == 1024 * 1024


def test_a_sparse_file_of_10_gb_holds_nothing_up(tools: Any) -> None:
    with (tools.root / "sparse").open("wb") as file:
        file.truncate(10 * 1024**3)
    (tools.root / "plain").write_text("needle\n")
    for kind in ("literal", "regex"):
        assert tools.searchFiles(paths=["."], query="needle", type=kind)["totalMatches"] == 1
    for case in ("readFile", "readFile range", "readFile base64", "modifyFile", "copyFile from"):
        assert tools.refuse(case.split()[0], **ON_PATH[case]("sparse")).code is Code.SIZE_LIMIT_EXCEEDED


def test_a_catastrophic_pattern_gets_an_answer_and_the_loop_stays_free(tools: Any) -> None:
    (tools.root / "f").write_text("x" * 5000 + "\n" + "a" * 30 + "!\n")

    async def attack() -> int:
        ticks = 0
        body = json.dumps(
            {"path": "f", "operations": [{"type": "regexReplace", "pattern": "(x+x+)+y", "replacement": ""}]}
        ).encode()
        task = asyncio.ensure_future(tools.send("modifyFile", body))
        while not task.done():
            await asyncio.sleep(0.01)
            ticks += 1
        with pytest.raises(WapError) as caught:
            task.result()
        assert caught.value.code is Code.TIMEOUT
        return ticks

    # Held all the time it would come round once, and once more when the answer is there.
    assert asyncio.run(attack()) > 5, "the event loop was held"
    assert tools.searchFiles(paths=["f"], query="(a+)+$", type="regex")["totalMatches"] == 0


@pytest.mark.parametrize("query", ["--pre=touch evil", "-e", "--files", "-f/etc/passwd", "--"])
def test_a_query_that_looks_like_an_option_is_a_query(tools: Any, query: str) -> None:
    (tools.root / "f").write_text(f"{query}\n")
    found = tools.searchFiles(paths=["."], query=query, type="literal", contextLines=0)
    assert [match["matchText"] for match in found["matches"]] == [query]
    assert tools.searchFiles(paths=["."], query=query, type="regex")["totalMatches"] == 1
    assert os.listdir(tools.root) == ["f"]


def test_rgs_own_configuration_is_not_read(tools: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    (tools.root / "config").write_text("--invert-match\n")
    monkeypatch.setenv("RIPGREP_CONFIG_PATH", str(tools.root / "config"))
    (tools.root / ".rgignore").write_text("*\n")
    (tools.root / ".ignore").write_text("*\n")
    (tools.root / ".gitignore").write_text("*\n")
    (tools.root / "f").write_text("needle\n")
    assert tools.searchFiles(paths=["."], query="need.e", type="regex")["totalMatches"] == 1


@pytest.mark.parametrize("query", ["(?=x)", "(?<!a)b", r"(a)\1", "(", "[z-a]", "a{2,1}", "x\ny", "\0"])
def test_a_pattern_that_rust_does_not_know_is_an_invalid_argument(tools: Any, query: str) -> None:
    (tools.root / "f").write_text("x\n")
    assert tools.refuse("searchFiles", paths=["."], query=query, type="regex").code is Code.INVALID_ARGUMENT


def test_a_folder_of_100_000_entries_is_counted_and_cut(make_tools: Callable[..., Any]) -> None:
    tools = make_tools(limits=Limits(max_directory_entries=10))
    folder = tools.root / "many"
    folder.mkdir()
    for number in range(100_000):
        os.close(os.open(folder / f"{number:06}", os.O_WRONLY | os.O_CREAT))
    (folder / "050000").write_text("needle\n")
    expected = [f"many/{number:06}" for number in range(10)]
    for recursive in (False, True):
        listed = tools.exploreFiles(path="many", recursive=recursive, returnMetadata=True)
        assert [file["path"] for file in listed["files"]] == expected
        assert (listed["totalFound"], listed["isTruncated"]) == (100_000, True)
    found = tools.searchFiles(paths=["many"], query="needle", type="literal")
    assert [match["path"] for match in found["matches"]] == ["many/050000"]
    subprocess.run(["rm", "-r", folder], check=True)  # 100,000 files are not left to whoever cleans up after the tests


def test_a_deeply_nested_folder_is_walked_and_refused_by_removal(tools: Any) -> None:
    deepest = tools.root / Path(*["d"] * 900)
    deepest.mkdir(parents=True)
    (deepest / "f").write_text("needle\n")
    assert tools.exploreFiles(path=".", recursive=True, maxDepth=1000)["totalFound"] == 901
    assert tools.searchFiles(paths=["."], query="needle", type="literal")["totalMatches"] == 1
    assert tools.searchFiles(paths=["."], query="need.e", type="regex")["totalMatches"] == 1
    assert tools.refuse("deleteFile", path="d", recursive=True).code is Code.SIZE_LIMIT_EXCEEDED
    subprocess.run(["rm", "-r", tools.root / "d"], check=True)
