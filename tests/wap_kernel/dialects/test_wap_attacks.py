"""The path, special-file, flood and edit classes of attacks, as tables, against every tool of the dialect."""

from __future__ import annotations

import asyncio
import json
import os
import stat
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from wap_kernel.errors import Code, WapError
from wap_kernel.results import Limits

INSERT = [{"type": "insert", "afterLine": 0, "newContent": "evil"}]

ON_PATH: dict[str, Callable[[str], dict[str, Any]]] = {
    "exploreFiles": lambda path: {"path": path},
    "exploreFiles recursive": lambda path: {"path": path, "recursive": True, "returnMetadata": True},
    "readFile": lambda path: {"path": path},
    "readFile range": lambda path: {"path": path, "startLine": 1, "endLine": 2},
    "readFile base64": lambda path: {"path": path, "encoding": "base64"},
    "writeFile": lambda path: {"path": path, "content": "evil"},
    "writeFile create": lambda path: {"path": path, "content": "evil", "mode": "create", "createDirectories": True},
    "writeFile append": lambda path: {"path": path, "content": "evil", "mode": "append"},
    "modifyFile": lambda path: {"path": path, "operations": INSERT},
    "searchFiles": lambda path: {"paths": [path], "query": "secret", "type": "literal"},
    "searchFiles regex": lambda path: {"paths": [path], "query": "s.cret", "type": "regex"},
    "executeCommand": lambda path: {"command": "cat secret; touch evil", "workingDirectory": path},
    "deleteFile": lambda path: {"path": path, "recursive": True},
    "moveFile from": lambda path: {"source": path, "destination": "stolen"},
    "moveFile to": lambda path: {"source": "inside.txt", "destination": path, "overwrite": True},
    "copyFile from": lambda path: {"source": path, "destination": "stolen"},
    "copyFile to": lambda path: {"source": "inside.txt", "destination": path, "overwrite": True},
    "createDirectory": lambda path: {"path": path},
}

OUTSIDE = [
    "../outside/secret",
    "..",
    "/etc/passwd",
    "//etc/passwd",
    "/",
    "../ws2/secret",
    "a/../../outside/secret",
    "a/b/../../../outside/secret",
    "/../../etc/passwd",
    "out-link",
    "out-folder/secret",
    "out-folder/new",
    "out-folder/new/deeper",
    "dangling",
    "proc/etc/passwd",
]
ACTS_ON_THE_LINK_ITSELF = {"deleteFile", "moveFile from", "moveFile to"}


@pytest.fixture
def attacked(tools: Any) -> Any:
    root, outside = tools.root, tools.outside
    (root.parent / "ws2").mkdir()
    (root.parent / "ws2" / "secret").write_text("secret\n")
    (outside / "secret").write_text("secret\n")
    (root / "a" / "b").mkdir(parents=True)
    (root / "inside.txt").write_text("inside\n")
    (root / "out-link").symlink_to(outside / "secret")
    (root / "out-folder").symlink_to(outside)
    (root / "dangling").symlink_to(outside / "not-there")
    (root / "proc").symlink_to("/proc/self/root")
    return tools


def everything(folder: Path) -> dict[str, object]:
    return {str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


@pytest.mark.parametrize("path", OUTSIDE)
def test_a_path_that_leaves_the_root_is_refused_by_every_tool(attacked: Any, path: str) -> None:
    before = everything(attacked.outside)
    for case, parameters in ON_PATH.items():
        if case in ACTS_ON_THE_LINK_ITSELF and path in ("out-link", "dangling"):
            continue
        error = attacked.refuse(case.split()[0], **parameters(path))
        assert error.code is Code.PERMISSION_DENIED, (case, error.message)
        assert "secret\n" not in json.dumps(error.details)
    assert everything(attacked.outside) == before
    assert not (attacked.root / "stolen").exists()


@pytest.mark.parametrize("case", ON_PATH)
def test_the_refusal_does_not_tell_whether_the_target_exists(attacked: Any, case: str) -> None:
    def refusal(path: str) -> tuple[Code, str]:
        error = attacked.refuse(case.split()[0], **ON_PATH[case](path))
        return error.code, error.text.replace(path, "PATH")

    assert refusal("out-folder/secret") == refusal("out-folder/not-there")
    assert refusal("/etc/passwd") == refusal("/etc/not-there")


MALFORMED = ["", "a\0b", "x" * 256, "x/" * 5000 + "y", "ä" * 128, "a/" + "y" * 4096]


@pytest.mark.parametrize("path", MALFORMED, ids=lambda path: f"{len(path)} characters")
def test_a_malformed_path_is_an_invalid_argument_in_every_tool(attacked: Any, path: str) -> None:
    for case, parameters in ON_PATH.items():
        assert attacked.refuse(case.split()[0], **parameters(path)).code is Code.INVALID_ARGUMENT, case


@pytest.mark.parametrize("body", [rb'{"path": "a\ud800b"}', rb'{"path": "a\udcffb"}', b'{"path": "a\xffb"}'])
def test_a_lone_surrogate_or_bad_utf8_is_an_invalid_argument(tools: Any, body: bytes) -> None:
    with pytest.raises(WapError) as caught:
        asyncio.run(tools.send("readFile", body))
    assert caught.value.code is Code.INVALID_ARGUMENT


@pytest.mark.parametrize("name", ["~", "$HOME", "%2e%2e", "-rf", "--", "*", "a;b", "a\nb", "\x1b[31mred", "ü", "'\""])
def test_odd_names_are_just_names(tools: Any, name: str) -> None:
    path = f"{name}/{name}"
    tools.writeFile(path=path, content="odd\n", createDirectories=True)
    assert (tools.root / name / name).read_text() == "odd\n"
    assert tools.readFile(path=path)["content"] == "odd\n"
    assert [file["path"] for file in tools.exploreFiles(path=name)["files"]] == [path]
    for kind in ("literal", "regex"):
        assert [match["path"] for match in tools.searchFiles(paths=[name], query="odd", type=kind)["matches"]] == [path]
    assert tools.executeCommand(command="ls", workingDirectory=name)["exitCode"] == 0
    tools.deleteFile(path=path)
    assert os.listdir(tools.root / name) == []


def test_names_that_are_not_utf8_are_listed_escaped(tools: Any) -> None:
    with open(os.fsencode(tools.root) + b"/bad\xff.txt", "w") as file:
        file.write("needle\n")
    assert [file["path"] for file in tools.exploreFiles(path=".")["files"]] == ["bad\\xff.txt"]
    for kind in ("literal", "regex"):
        found = tools.searchFiles(paths=["."], query="needle", type=kind)
        assert [match["path"] for match in found["matches"]] == ["bad\\xff.txt"]


def test_deleting_a_link_removes_the_link_only(attacked: Any) -> None:
    for name in ("out-link", "out-folder", "dangling"):
        attacked.deleteFile(path=name)
        assert not (attacked.root / name).is_symlink()
    assert (attacked.outside / "secret").read_text() == "secret\n"


@pytest.mark.parametrize("patterns", [["../**"], ["/../**"], ["~/**"]])
def test_exclusions_that_point_outside_exclude_nothing(attacked: Any, patterns: list[str]) -> None:
    plain = attacked.exploreFiles(path=".", recursive=True, excludePatterns=[])
    assert attacked.exploreFiles(path=".", recursive=True, excludePatterns=patterns) == plain


def test_absolute_paths_inside_the_root_are_accepted(attacked: Any) -> None:
    assert attacked.readFile(path=str(attacked.root / "inside.txt"))["content"] == "inside\n"
    assert attacked.writeFile(path=str(attacked.root / "new"), content="x")["path"] == "new"
    assert attacked.executeCommand(command="pwd", workingDirectory=str(attacked.root / "a"))["stdout"].endswith("/a\n")


# -- special files and floods


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

    async def attack() -> tuple[float, int]:
        longest, ticks = 0.0, 0
        body = json.dumps(
            {"path": "f", "operations": [{"type": "regexReplace", "pattern": "(x+x+)+y", "replacement": ""}]}
        ).encode()
        task = asyncio.ensure_future(tools.send("modifyFile", body))
        while not task.done():
            before = time.monotonic()
            await asyncio.sleep(0.01)
            longest, ticks = max(longest, time.monotonic() - before), ticks + 1
        with pytest.raises(WapError) as caught:
            task.result()
        assert caught.value.code is Code.TIMEOUT
        return longest, ticks

    _, ticks = asyncio.run(attack())
    assert ticks > 10, "the event loop was held"
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
    tools.executeCommand(command="rm -r many")  # 100,000 files are not left to whoever cleans up after the tests


def test_a_deeply_nested_folder_is_walked_and_refused_by_removal(tools: Any) -> None:
    deepest = tools.root / Path(*["d"] * 900)
    deepest.mkdir(parents=True)
    (deepest / "f").write_text("needle\n")
    assert tools.exploreFiles(path=".", recursive=True, maxDepth=1000)["totalFound"] == 901
    assert tools.searchFiles(paths=["."], query="needle", type="literal")["totalMatches"] == 1
    assert tools.searchFiles(paths=["."], query="need.e", type="regex")["totalMatches"] == 1
    assert tools.refuse("deleteFile", path="d", recursive=True).code is Code.SIZE_LIMIT_EXCEEDED
    tools.executeCommand(command="rm -r d")


# -- edits


@pytest.mark.parametrize(
    "data",
    [b"one\r\ntwo\r\nthree\r\n", b"caf\xe9\ntwo\n\xff", b"\xef\xbb\xbfone\ntwo\n", b"one\ntwo", b"one\rtwo\nx\r\n\n"],
)
def test_an_edit_keeps_what_it_does_not_touch_and_the_mode(tools: Any, data: bytes) -> None:
    (tools.root / "f").write_bytes(data)
    (tools.root / "f").chmod(0o755)
    answer = tools.modifyFile(
        path="f", operations=[{"type": "replace", "startLine": 1, "endLine": 1, "newContent": "X"}]
    )
    first, _, rest = data.partition(b"\n")
    mark = b"\xef\xbb\xbf" if first.startswith(b"\xef\xbb\xbf") else b""
    ending = b"\r\n" if first.endswith(b"\r") else b"\n"
    assert (tools.root / "f").read_bytes() == mark + b"X" + ending + rest
    assert stat.S_IMODE((tools.root / "f").stat().st_mode) == 0o755
    assert answer["diff"].startswith("--- a/f\n+++ b/f\n@@ ")
    assert answer["hash"] == tools.readFile(path="f", encoding="base64")["hash"]


def test_a_failing_change_undoes_the_whole_call(tools: Any) -> None:
    (tools.root / "f").write_text("1\n2\n3\n")
    operations = [
        {"type": "delete", "startLine": 1, "endLine": 1},
        {"type": "insert", "afterLine": 0, "newContent": "x"},
        {"type": "regexReplace", "pattern": "2", "replacement": "two"},
        {"type": "delete", "startLine": 9, "endLine": 9},
    ]
    error = tools.refuse("modifyFile", path="f", operations=operations)
    assert (error.code, error.details["operation"]) == (Code.INVALID_ARGUMENT, 3)
    assert (tools.root / "f").read_text() == "1\n2\n3\n"


@pytest.mark.parametrize(
    ("tool", "parameters"),
    [
        ("writeFile", {"path": "f", "content": "x"}),
        ("writeFile", {"path": "f", "content": "x", "mode": "append"}),
        ("modifyFile", {"path": "f", "operations": INSERT}),
        ("deleteFile", {"path": "f"}),
        ("moveFile", {"source": "f", "destination": "g"}),
        ("copyFile", {"source": "f", "destination": "g"}),
    ],
)
def test_a_stale_hash_is_a_conflict_that_names_the_current_one(tools: Any, tool: str, parameters: Any) -> None:
    tools.writeFile(path="f", content="old")
    stale = tools.readFile(path="f")["hash"]
    current = tools.writeFile(path="f", content="newer")["hash"]
    error = tools.refuse(tool, **parameters, expectedHash=stale)
    assert (error.code, error.details["currentHash"]) == (Code.CONFLICT, current)
    assert os.listdir(tools.root) == ["f"]
    assert (tools.root / "f").read_text() == "newer"
    assert tools.call(tool, **parameters, expectedHash=current)["success"]


NOTEBOOK = json.dumps({"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}, indent=1)


def test_a_notebook_is_never_left_invalid(tools: Any) -> None:
    tools.writeFile(path="n.ipynb", content=NOTEBOOK)
    attempts = [
        ("writeFile", {"path": "n.ipynb", "content": "not json"}),
        ("writeFile", {"path": "n.ipynb", "content": '{"cells": 5, "nbformat": 4, "nbformat_minor": 5}'}),
        ("writeFile", {"path": "n.ipynb", "content": "[]"}),
        ("writeFile", {"path": "n.ipynb", "content": "{}"}),
        ("writeFile", {"path": "n.ipynb", "content": "\n", "mode": "append"}),
        ("modifyFile", {"path": "n.ipynb", "operations": [{"type": "delete", "startLine": 1, "endLine": 1}]}),
    ]
    for tool, parameters in attempts:
        assert tools.refuse(tool, **parameters).code is Code.INVALID_ARGUMENT, parameters
    assert (tools.root / "n.ipynb").read_text() == NOTEBOOK
    change = {"type": "regexReplace", "pattern": '"metadata": \\{\\}', "replacement": '"metadata": {"a": 1}'}
    assert tools.modifyFile(path="n.ipynb", operations=[change])["success"]


def test_a_folder_is_not_moved_into_itself_and_nothing_is_made_for_it(tools: Any) -> None:
    (tools.root / "a").mkdir()
    error = tools.refuse("moveFile", source="a", destination="a/b/c", createDirectories=True)
    assert error.code is Code.INVALID_ARGUMENT
    assert os.listdir(tools.root / "a") == []


# -- repositories and policies that are not what they seem


def test_a_planted_repository_runs_nothing(tools: Any) -> None:
    marker = tools.outside / "ran"
    for name, text in {
        "HEAD": "ref: refs/heads/main\n",
        "objects/x": "",
        "refs/x": "",
        "config": f'[core]\nrepositoryformatversion=0\nbare=false\nworktree=.\nfsmonitor="touch {marker}; false"\n',
    }.items():
        tools.writeFile(path=f"evil/{name}", content=text, createDirectories=True)
    for command in ("git -C evil status", "cd evil; git status", "cd evil; git diff; git ls-files -m"):
        tools.executeCommand(command=command)
    assert not marker.exists()


def test_a_policy_file_that_is_a_link_refuses_everything(tools: Any) -> None:
    tools.writeFile(path="conf/policy.json", content="{}", createDirectories=True)
    assert tools.readFile(path="conf/policy.json")["content"] == "{}"
    (tools.root / ".cws-policy.json").symlink_to("conf/policy.json")
    refusal = tools.refuse("readFile", path="conf/policy.json")
    assert refusal.code is Code.PERMISSION_DENIED and "link" in refusal.text
