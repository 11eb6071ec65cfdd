"""The WAP 1.0 specification as tests, over real HTTP: every example and every field, named after the example.

Fields are compared as sets: the spec's, and the extras that this project documents.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.support.spec_tree import TREE, ok, plant
from tests.support.time_limits import growing
from wap_kernel.providers.process import run

METADATA = {"path", "size", "isDirectory", "lastModified"}
RECOMMENDED_LIMITS = {
    "maxFileSize": 1048576,
    "maxDirectoryEntries": 500,
    "maxSearchResults": 100,
    "maxOutputSize": 1048576,
}
DEFAULT_EXCLUSIONS = [
    "**/node_modules/**",
    "**/.git/**",
    "**/dist/**",
    "**/build/**",
    "**/.venv/**",
    "**/target/**",
    "**/__pycache__/**",
    "**/vendor/**",
]
TIMESTAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")


@pytest.fixture(autouse=True)
def root(jp_root_dir: Path) -> Path:
    return plant(jp_root_dir)


def _paths(body: Any) -> list[str]:
    return [entry["path"] for entry in body["files"]]


# ---------------------------------------------------------------- 1. exploreFiles


async def test_explore_list_all_files_in_the_src_directory(call: Any) -> None:
    body = await ok(call, "exploreFiles", path="src")
    assert set(body) == {"files", "isTruncated", "totalFound"}
    assert all(set(entry) == {"path", "isDirectory"} for entry in body["files"])
    assert {entry["path"]: entry["isDirectory"] for entry in body["files"]} == {
        "src/api": True,
        "src/app.js": False,
        "src/components": True,
        "src/node_modules": True,
        "src/todo.js": False,
    }
    assert (body["isTruncated"], body["totalFound"]) == (False, 5)


async def test_explore_recursively_explore_the_project_excluding_node_modules(call: Any) -> None:
    body = await ok(
        call, "exploreFiles", path=".", recursive=True, excludePatterns=["**/node_modules/**", "**/.git/**"]
    )
    assert _paths(body) == sorted(_paths(body))
    assert "src/api/client.js" in _paths(body)
    assert not [path for path in _paths(body) if "node_modules" in path or ".git" in path]


async def test_explore_max_depth(call: Any, root: Path) -> None:
    (root / "a/b/c/d").mkdir(parents=True)
    default = await ok(call, "exploreFiles", path="a", recursive=True)
    assert _paths(default) == ["a/b", "a/b/c", "a/b/c/d"]
    assert _paths(await ok(call, "exploreFiles", path="a", recursive=True, maxDepth=1)) == ["a/b"]


async def test_explore_return_metadata(call: Any, root: Path) -> None:
    body = await ok(call, "exploreFiles", path="src", returnMetadata=True)
    by_path = {entry["path"]: entry for entry in body["files"]}
    assert all(set(entry) == {"path", "isDirectory", "metadata"} for entry in body["files"])
    metadata = by_path["src/app.js"]["metadata"]
    assert set(metadata) == METADATA
    assert metadata["path"] == str(root / "src/app.js")
    assert metadata["size"] == len(TREE["src/app.js"])
    assert metadata["isDirectory"] is False
    assert TIMESTAMP.fullmatch(metadata["lastModified"])
    assert by_path["src/api"]["metadata"]["isDirectory"] is True


async def test_explore_truncated_results_are_counted(call: Any, root: Path) -> None:
    for number in range(600):
        (root / "logs" / f"{number:03}.log").touch()
    body = await ok(call, "exploreFiles", path="logs")
    assert (len(body["files"]), body["isTruncated"], body["totalFound"]) == (500, True, 601)


# ---------------------------------------------------------------- 2. readFile


async def test_read_entire_file(call: Any, root: Path) -> None:
    body = await ok(call, "readFile", path="src/app.js")
    spec = {"content", "metadata", "isTruncated", "totalLines", "returnedLines"}
    assert set(body) == spec | {"hash", "encoding"}
    assert body["content"] == TREE["src/app.js"]
    assert (body["isTruncated"], body["totalLines"], body["returnedLines"]) == (False, 30, 30)
    assert set(body["metadata"]) == METADATA
    assert body["metadata"]["path"] == str(root / "src/app.js")
    assert body["metadata"]["size"] == len(TREE["src/app.js"])
    assert body["metadata"]["isDirectory"] is False
    assert TIMESTAMP.fullmatch(body["metadata"]["lastModified"])


async def test_read_specific_lines_from_a_file(call: Any) -> None:
    body = await ok(call, "readFile", path="src/app.js", startLine=10, endLine=20)
    assert body["content"] == "".join(f"line {number}\n" for number in range(10, 21))
    assert (body["isTruncated"], body["totalLines"], body["returnedLines"]) == (False, 30, 11)


async def test_read_truncated_content_is_said_to_be(call: Any, root: Path) -> None:
    limit = RECOMMENDED_LIMITS["maxFileSize"]
    (root / "large.txt").write_bytes(b"x" * 1023 + b"\n" + b"y" * limit)
    body = await ok(call, "readFile", path="large.txt", startLine=1, endLine=2)
    assert body["content"] == "x" * 1023 + "\n"
    assert (body["isTruncated"], body["totalLines"], body["returnedLines"]) == (True, 2, 1)


# ---------------------------------------------------------------- 3. writeFile


async def test_write_create_or_overwrite_a_file(call: Any, root: Path) -> None:
    content = "function helper() { return true; }"
    body = await ok(call, "writeFile", path="src/utils/helper.js", content=content, createDirectories=True)
    assert set(body) == {"success", "path", "bytesWritten"} | {"hash", "runId"}
    assert (body["success"], body["path"], body["bytesWritten"]) == (True, "src/utils/helper.js", len(content))
    assert (root / "src/utils/helper.js").read_text() == content


async def test_write_append_to_a_file(call: Any, root: Path) -> None:
    body = await ok(call, "writeFile", path="logs/app.log", content="New log entry", mode="append")
    assert {"success", "path", "bytesWritten"} <= set(body)
    assert (body["success"], body["path"], body["bytesWritten"]) == (True, "logs/app.log", 13)
    assert (root / "logs/app.log").read_text() == "started\nNew log entry"


async def test_write_modes(call: Any, root: Path) -> None:
    refused = await call("writeFile", path="README.md", content="x", mode="create")
    assert (refused.status, refused.code) == (409, "FILE_EXISTS")
    await ok(call, "writeFile", path="README.md", content="ünï", mode="overwrite")
    assert (root / "README.md").read_text(encoding="utf-8") == "ünï"
    created = await ok(call, "writeFile", path="new.txt", content="ünï", mode="create")
    assert created["bytesWritten"] == 5


async def test_write_does_not_create_directories_unasked(call: Any) -> None:
    refused = await call("writeFile", path="no/such/folder.txt", content="x")
    assert (refused.status, refused.code) == (404, "FILE_NOT_FOUND")


# ---------------------------------------------------------------- 4. modifyFile


async def _modify(call: Any, path: str, *operations: dict[str, Any]) -> Any:
    body = await ok(call, "modifyFile", path=path, operations=list(operations))
    assert set(body) == {"success", "path"} | {"hash", "diff", "runId"}
    assert (body["success"], body["path"]) == (True, path)
    return body


async def test_modify_replace_lines_5_10_with_new_content(call: Any, root: Path) -> None:
    new = "// New implementation\nfunction Button() {\n  return <button>Click me</button>;\n}"
    operation = {"type": "replace", "startLine": 5, "endLine": 10, "newContent": new}
    await _modify(call, "src/components/Button.jsx", operation)
    lines = (root / "src/components/Button.jsx").read_text().splitlines()
    assert lines == ["old 1", "old 2", "old 3", "old 4", *new.splitlines(), "old 11", "old 12"]


async def test_modify_replace_all_instances_of_a_deprecated_api(call: Any, root: Path) -> None:
    operation = {
        "type": "regexReplace",
        "pattern": "oldAPI\\.method\\(([^)]+)\\)",
        "replacement": "newAPI.improvedMethod($1)",
        "flags": "g",
    }
    await _modify(call, "src/api/client.js", operation)
    assert (root / "src/api/client.js").read_text() == (
        'newAPI.improvedMethod(one);\napi.get("/a");\nnewAPI.improvedMethod(two, 2);\napi.delete("/b");\n'
    )


async def test_modify_insert_after_a_specific_line(call: Any, root: Path) -> None:
    await _modify(call, "src/todo.js", {"type": "insert", "afterLine": 1, "newContent": "inserted"})
    assert (root / "src/todo.js").read_text() == "a\ninserted\nb\n// TODO: first\nc\nd\n"


async def test_modify_delete_lines_from_the_file(call: Any, root: Path) -> None:
    await _modify(call, "src/todo.js", {"type": "delete", "startLine": 2, "endLine": 4})
    assert (root / "src/todo.js").read_text() == "a\nd\n"


async def test_modify_without_flags_replaces_the_first_match(call: Any, root: Path) -> None:
    await _modify(call, "src/api/client.js", {"type": "regexReplace", "pattern": "oldAPI", "replacement": "API"})
    assert (root / "src/api/client.js").read_text().count("oldAPI") == 1


# ---------------------------------------------------------------- 5. searchFiles


async def test_search_for_a_specific_string_across_all_js_files(call: Any) -> None:
    body = await ok(
        call,
        "searchFiles",
        paths=["src"],
        query="TODO:",
        type="literal",
        recursive=True,
        excludePatterns=["**/node_modules/**"],
        contextLines=2,
    )
    assert set(body) == {"matches", "isTruncated", "totalMatches"}
    assert body["matches"] == [
        {
            "path": "src/todo.js",
            "line": 3,
            "column": 4,
            "matchText": "// TODO: first",
            "contextBefore": ["a", "b"],
            "contextAfter": ["c", "d"],
        }
    ]
    assert (body["isTruncated"], body["totalMatches"]) == (False, 1)


async def test_search_use_a_regex_to_find_all_api_calls(call: Any) -> None:
    query = "api\\.(get|post|put|delete)\\("
    body = await ok(call, "searchFiles", paths=["src/api"], query=query, type="regex", recursive=True)
    assert [(match["path"], match["line"], match["matchText"]) for match in body["matches"]] == [
        ("src/api/client.js", 2, 'api.get("/a");'),
        ("src/api/client.js", 4, 'api.delete("/b");'),
    ]
    assert body["totalMatches"] == 2


async def test_search_truncated_results_are_counted(call: Any, root: Path) -> None:
    (root / "many.txt").write_text("needle\n" * 250)
    body = await ok(call, "searchFiles", paths=["many.txt"], query="needle", type="literal", contextLines=0)
    assert (len(body["matches"]), body["isTruncated"], body["totalMatches"]) == (100, True, 250)
    assert body["matches"][0] == {
        "path": "many.txt",
        "line": 1,
        "column": 1,
        "matchText": "needle",
        "contextBefore": [],
        "contextAfter": [],
    }


async def test_search_not_recursive(call: Any) -> None:
    body = await ok(call, "searchFiles", paths=["src"], query="api", type="literal", recursive=False)
    assert body["totalMatches"] == 0


# ---------------------------------------------------------------- 6. executeCommand

EXECUTED = {"stdout", "stderr", "exitCode", "isOutputTruncated", "durationMs"}
EXECUTED_EXTRAS = {"stdoutBytes", "stderrBytes"}


@pytest.fixture
def npm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The spec's examples call npm; this one tells where and how it was called."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "npm").write_text('#!/bin/sh\necho "npm $* in $(basename "$PWD")"\n')
    (folder / "npm").chmod(0o755)
    monkeypatch.setenv("PATH", str(folder), prepend=":")


async def test_execute_run_tests_in_a_specific_directory(npm: None, call: Any) -> None:
    body = await ok(call, "executeCommand", command="npm test", workingDirectory="packages/frontend")
    assert set(body) - {"isolation"} == EXECUTED | EXECUTED_EXTRAS
    assert (body["stdout"], body["stderr"], body["exitCode"]) == ("npm test in frontend\n", "", 0)
    assert body["isOutputTruncated"] is False
    assert isinstance(body["durationMs"], int)


async def test_execute_install_a_dependency(npm: None, call: Any, root: Path) -> None:
    body = await ok(call, "executeCommand", command="npm install lodash --save", timeout=60000)
    assert body["stdout"] == f"npm install lodash --save in {root.name}\n"


async def test_execute_environment_stderr_and_exit_code(call: Any) -> None:
    command = 'printf "%s" "$GREETING" >&2; exit 3'
    body = await ok(call, "executeCommand", command=command, environment={"GREETING": "hello"})
    assert (body["stdout"], body["stderr"], body["exitCode"]) == ("", "hello", 3)


async def test_execute_output_is_truncated(call: Any) -> None:
    body = await ok(call, "executeCommand", command="head -c 3000000 /dev/zero | tr '\\0' a")
    assert body["isOutputTruncated"] is True
    assert body["stdoutBytes"] == 3_000_000
    assert len(body["stdout"].encode()) < 1_100_000


async def test_execute_timeout_is_an_error_with_the_partial_output(call: Any) -> None:
    for seconds in growing(0.3):
        answer = await call("executeCommand", command="echo before; sleep 100", timeout=round(seconds * 1000))
        if answer.body["details"]["stdout"]:
            break
    assert (answer.status, answer.code) == (422, "TIMEOUT")
    assert answer.body["details"]["stdout"] == "before\n"


# ---------------------------------------------------------------- 7. getWorkspaceInfo


async def test_get_workspace_information(call: Any, root: Path) -> None:
    body = await ok(call, "getWorkspaceInfo")
    assert set(body) == {"root", "defaultExclusions", "limits"} | {
        "version",
        "dialects",
        "provider",
        "confinesCommands",
        "isolation",
    }
    assert body["root"] == str(root)
    assert body["defaultExclusions"] == DEFAULT_EXCLUSIONS
    assert set(body["limits"]) == set(RECOMMENDED_LIMITS) | {"maxWriteSize", "defaultTimeoutMs", "maxTimeoutMs"}
    assert {name: body["limits"][name] for name in RECOMMENDED_LIMITS} == RECOMMENDED_LIMITS
    assert body["limits"]["defaultTimeoutMs"] == 30_000  # "maxExecutionTime", for a caller who names none


# ---------------------------------------------------------------- error handling


@pytest.mark.parametrize(
    ("tool", "parameters", "status", "code"),
    [
        ("readFile", {"path": "missing.txt"}, 404, "FILE_NOT_FOUND"),
        ("readFile", {"path": "../outside.txt"}, 403, "PERMISSION_DENIED"),
        ("readFile", {"path": "large.txt"}, 413, "SIZE_LIMIT_EXCEEDED"),
        ("readFile", {"path": "src/app.js", "startLine": 31}, 400, "INVALID_ARGUMENT"),
        ("exploreFiles", {"path": "missing"}, 404, "FILE_NOT_FOUND"),
        ("searchFiles", {"paths": ["."], "query": "(", "type": "regex"}, 400, "INVALID_ARGUMENT"),
        ("executeCommand", {"command": "sleep 100", "timeout": 100}, 422, "TIMEOUT"),
        ("executeCommand", {"command": "true", "workingDirectory": "missing"}, 404, "FILE_NOT_FOUND"),
    ],
)
async def test_common_error_codes(
    call: Any, root: Path, tool: str, parameters: dict[str, Any], status: int, code: str
) -> None:
    (root / "large.txt").write_bytes(b"x" * (RECOMMENDED_LIMITS["maxFileSize"] + 1))
    answer = await call(tool, **parameters)
    assert set(answer.body) <= {"error", "code", "details"}
    assert (answer.status, answer.code) == (status, code)
    assert answer.body["error"]


async def test_a_command_that_cannot_be_started_is_an_execution_failed(
    call: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "build_shell_argv", lambda command, path: ["/no/such/shell", command])
    answer = await call("executeCommand", command="true")
    assert (answer.status, answer.code) == (422, "EXECUTION_FAILED")


# ---------------------------------------------------------------- default exclusions


@pytest.mark.parametrize("pattern", DEFAULT_EXCLUSIONS)
async def test_default_exclusions_apply_to_recursive_operations(call: Any, root: Path, pattern: str) -> None:
    name = pattern.strip("*/")
    for folder in (root / name, root / "deep" / name):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "f.txt").write_text("needle\n")
    listed = await ok(call, "exploreFiles", path=".", recursive=True)
    assert not [path for path in _paths(listed) if name in path.split("/")]
    found = await ok(call, "searchFiles", paths=["."], query="needle", type="literal")
    assert found["totalMatches"] == 0
    assert name in _paths(await ok(call, "exploreFiles", path="."))
    assert _paths(await ok(call, "exploreFiles", path=f"deep/{name}", recursive=True)) == [f"deep/{name}/f.txt"]


async def test_answers_come_in_pages(call: Any, root: Path) -> None:
    (root / "pages").mkdir()
    for number in range(700):
        (root / f"pages/{number:03}.txt").write_text("needle\n")
    for tool, items, total, fields in (
        ("exploreFiles", "files", "totalFound", {"path": "pages"}),
        ("searchFiles", "matches", "totalMatches", {"paths": ["pages"], "query": "needle", "type": "literal"}),
    ):
        found: list[str] = []
        body = await ok(call, tool, **fields)
        while True:
            assert body[total] == 700 and body["isTruncated"] is ("nextCursor" in body)
            found += [item["path"] for item in body[items]]
            if "nextCursor" not in body:
                break
            body = await ok(call, tool, **fields, cursor=body["nextCursor"])
        assert found == [f"pages/{number:03}.txt" for number in range(700)]
        answer = await call(tool, **fields, cursor="bm8")
        assert (answer.status, answer.code) == (400, "INVALID_ARGUMENT")
