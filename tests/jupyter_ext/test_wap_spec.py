"""The WAP 1.0 specification as tests, over real HTTP: every example and every field, named after the example.

Fields are compared as sets: the spec's, and the extras that this project documents.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

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

TREE = {
    "README.md": "# Project\n",
    "src/app.js": "".join(f"line {number}\n" for number in range(1, 31)),
    "src/api/client.js": 'oldAPI.method(one);\napi.get("/a");\noldAPI.method(two, 2);\napi.delete("/b");\n',
    "src/components/Button.jsx": "".join(f"old {number}\n" for number in range(1, 13)),
    "src/todo.js": "a\nb\n// TODO: first\nc\nd\n",
    "src/node_modules/x/index.js": "// TODO: not ours\n",
    "node_modules/lodash/index.js": "api.get()\n",
    ".git/HEAD": "ref: refs/heads/main\n",
    "logs/app.log": "started\n",
    "packages/frontend/package.json": "{}\n",
}


@pytest.fixture(autouse=True)
def root(jp_root_dir: Path) -> Path:
    for name, text in TREE.items():
        path = jp_root_dir / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return jp_root_dir


async def _ok(call: Any, tool: str, /, **parameters: Any) -> Any:
    answer = await call(tool, **parameters)
    assert answer.status == 200, answer.body
    return answer.body


def _paths(body: Any) -> list[str]:
    return [entry["path"] for entry in body["files"]]


# ---------------------------------------------------------------- 1. exploreFiles


async def test_explore_list_all_files_in_the_src_directory(call: Any) -> None:
    body = await _ok(call, "exploreFiles", path="src")
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
    body = await _ok(
        call, "exploreFiles", path=".", recursive=True, excludePatterns=["**/node_modules/**", "**/.git/**"]
    )
    assert _paths(body) == sorted(_paths(body))
    assert "src/api/client.js" in _paths(body)
    assert not [path for path in _paths(body) if "node_modules" in path or ".git" in path]


async def test_explore_max_depth(call: Any, root: Path) -> None:
    (root / "a/b/c/d").mkdir(parents=True)
    default = await _ok(call, "exploreFiles", path="a", recursive=True)
    assert _paths(default) == ["a/b", "a/b/c", "a/b/c/d"]
    assert _paths(await _ok(call, "exploreFiles", path="a", recursive=True, maxDepth=1)) == ["a/b"]


async def test_explore_return_metadata(call: Any, root: Path) -> None:
    body = await _ok(call, "exploreFiles", path="src", returnMetadata=True)
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
    body = await _ok(call, "exploreFiles", path="logs")
    assert (len(body["files"]), body["isTruncated"], body["totalFound"]) == (500, True, 601)


# ---------------------------------------------------------------- 2. readFile


async def test_read_entire_file(call: Any, root: Path) -> None:
    body = await _ok(call, "readFile", path="src/app.js")
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
    body = await _ok(call, "readFile", path="src/app.js", startLine=10, endLine=20)
    assert body["content"] == "".join(f"line {number}\n" for number in range(10, 21))
    assert (body["isTruncated"], body["totalLines"], body["returnedLines"]) == (False, 30, 11)


# ---------------------------------------------------------------- 3. writeFile


async def test_write_create_or_overwrite_a_file(call: Any, root: Path) -> None:
    content = "function helper() { return true; }"
    body = await _ok(call, "writeFile", path="src/utils/helper.js", content=content, createDirectories=True)
    assert set(body) == {"success", "path", "bytesWritten"} | {"hash"}
    assert (body["success"], body["path"], body["bytesWritten"]) == (True, "src/utils/helper.js", len(content))
    assert (root / "src/utils/helper.js").read_text() == content


async def test_write_append_to_a_file(call: Any, root: Path) -> None:
    body = await _ok(call, "writeFile", path="logs/app.log", content="New log entry", mode="append")
    assert {"success", "path", "bytesWritten"} <= set(body)
    assert (body["success"], body["path"], body["bytesWritten"]) == (True, "logs/app.log", 13)
    assert (root / "logs/app.log").read_text() == "started\nNew log entry"


async def test_write_modes(call: Any, root: Path) -> None:
    refused = await call("writeFile", path="README.md", content="x", mode="create")
    assert (refused.status, refused.code) == (409, "FILE_EXISTS")
    await _ok(call, "writeFile", path="README.md", content="ünï", mode="overwrite")
    assert (root / "README.md").read_text(encoding="utf-8") == "ünï"
    created = await _ok(call, "writeFile", path="new.txt", content="ünï", mode="create")
    assert created["bytesWritten"] == 5


async def test_write_does_not_create_directories_unasked(call: Any) -> None:
    refused = await call("writeFile", path="no/such/folder.txt", content="x")
    assert (refused.status, refused.code) == (404, "FILE_NOT_FOUND")


# ---------------------------------------------------------------- 4. modifyFile


async def _modify(call: Any, path: str, *operations: dict[str, Any]) -> Any:
    body = await _ok(call, "modifyFile", path=path, operations=list(operations))
    assert set(body) == {"success", "path"} | {"hash", "diff"}
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
    body = await _ok(
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
            "matchText": "// TODO: first",
            "contextBefore": ["a", "b"],
            "contextAfter": ["c", "d"],
        }
    ]
    assert (body["isTruncated"], body["totalMatches"]) == (False, 1)


async def test_search_use_a_regex_to_find_all_api_calls(call: Any) -> None:
    query = "api\\.(get|post|put|delete)\\("
    body = await _ok(call, "searchFiles", paths=["src/api"], query=query, type="regex", recursive=True)
    assert [(match["path"], match["line"], match["matchText"]) for match in body["matches"]] == [
        ("src/api/client.js", 2, 'api.get("/a");'),
        ("src/api/client.js", 4, 'api.delete("/b");'),
    ]
    assert body["totalMatches"] == 2


async def test_search_truncated_results_are_counted(call: Any, root: Path) -> None:
    (root / "many.txt").write_text("needle\n" * 250)
    body = await _ok(call, "searchFiles", paths=["many.txt"], query="needle", type="literal", contextLines=0)
    assert (len(body["matches"]), body["isTruncated"], body["totalMatches"]) == (100, True, 250)
    assert body["matches"][0] == {
        "path": "many.txt",
        "line": 1,
        "matchText": "needle",
        "contextBefore": [],
        "contextAfter": [],
    }


async def test_search_not_recursive(call: Any) -> None:
    body = await _ok(call, "searchFiles", paths=["src"], query="api", type="literal", recursive=False)
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
    body = await _ok(call, "executeCommand", command="npm test", workingDirectory="packages/frontend")
    assert set(body) == EXECUTED | EXECUTED_EXTRAS
    assert (body["stdout"], body["stderr"], body["exitCode"]) == ("npm test in frontend\n", "", 0)
    assert body["isOutputTruncated"] is False
    assert isinstance(body["durationMs"], int)


async def test_execute_install_a_dependency(npm: None, call: Any, root: Path) -> None:
    body = await _ok(call, "executeCommand", command="npm install lodash --save", timeout=60000)
    assert body["stdout"] == f"npm install lodash --save in {root.name}\n"


async def test_execute_environment_stderr_and_exit_code(call: Any) -> None:
    command = 'printf "%s" "$GREETING" >&2; exit 3'
    body = await _ok(call, "executeCommand", command=command, environment={"GREETING": "hello"})
    assert (body["stdout"], body["stderr"], body["exitCode"]) == ("", "hello", 3)


async def test_execute_output_is_truncated(call: Any) -> None:
    body = await _ok(call, "executeCommand", command="head -c 3000000 /dev/zero | tr '\\0' a")
    assert body["isOutputTruncated"] is True
    assert body["stdoutBytes"] == 3_000_000
    assert len(body["stdout"].encode()) < 1_100_000


async def test_execute_timeout_is_an_error_with_the_partial_output(call: Any) -> None:
    answer = await call("executeCommand", command="echo before; sleep 100", timeout=300)
    assert (answer.status, answer.code) == (422, "TIMEOUT")
    assert answer.body["details"]["stdout"] == "before\n"


# ---------------------------------------------------------------- 7. getWorkspaceInfo


async def test_get_workspace_information(call: Any, root: Path) -> None:
    body = await _ok(call, "getWorkspaceInfo")
    assert set(body) == {"root", "defaultExclusions", "limits"} | {
        "version",
        "dialects",
        "provider",
        "confinesCommands",
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


# ---------------------------------------------------------------- default exclusions


@pytest.mark.parametrize("pattern", DEFAULT_EXCLUSIONS)
async def test_default_exclusions_apply_to_recursive_operations(call: Any, root: Path, pattern: str) -> None:
    name = pattern.strip("*/")
    for folder in (root / name, root / "deep" / name):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "f.txt").write_text("needle\n")
    listed = await _ok(call, "exploreFiles", path=".", recursive=True)
    assert not [path for path in _paths(listed) if name in path.split("/")]
    found = await _ok(call, "searchFiles", paths=["."], query="needle", type="literal")
    assert found["totalMatches"] == 0
    assert name in _paths(await _ok(call, "exploreFiles", path="."))
    assert _paths(await _ok(call, "exploreFiles", path=f"deep/{name}", recursive=True)) == [f"deep/{name}/f.txt"]


# ---------------------------------------------------------------- in the same form, for what WAP leaves out


async def test_create_directory_copy_move_delete(call: Any, root: Path) -> None:
    made = await _ok(call, "createDirectory", path="a/b")
    assert (made["success"], made["path"], (root / "a/b").is_dir()) == (True, "a/b", True)
    copied = await _ok(call, "copyFile", source="README.md", destination="a/b/copy.md")
    assert (copied["success"], copied["path"]) == (True, "a/b/copy.md")
    moved = await _ok(call, "moveFile", source="a/b/copy.md", destination="moved.md")
    assert (moved["success"], moved["path"]) == (True, "moved.md")
    assert (root / "moved.md").read_text() == TREE["README.md"]
    deleted = await _ok(call, "deleteFile", path="moved.md")
    assert (deleted["success"], deleted["path"], (root / "moved.md").exists()) == (True, "moved.md", False)
    assert (root / "README.md").read_text() == TREE["README.md"]


@pytest.mark.parametrize("tool", ["copyFile", "moveFile"])
async def test_overwrite(call: Any, root: Path, tool: str) -> None:
    request = {"source": "README.md", "destination": "logs/app.log"}
    for refusing in ({}, {"overwrite": False}):
        refused = await call(tool, **request, **refusing)
        assert (refused.status, refused.code) == (409, "FILE_EXISTS")
    assert (root / "logs/app.log").read_text() == TREE["logs/app.log"]
    await _ok(call, tool, **request, overwrite=True)
    assert (root / "logs/app.log").read_text() == TREE["README.md"]
    assert (root / "README.md").exists() == (tool == "copyFile")
    refused = await call(tool, source="logs/app.log", destination="src", overwrite=True)
    assert refused.status in (400, 409), "a folder is never overwritten"
    assert (root / "src/app.js").read_text() == TREE["src/app.js"]


@pytest.mark.parametrize("tool", ["copyFile", "moveFile"])
async def test_create_directories(call: Any, root: Path, tool: str) -> None:
    request = {"source": "README.md", "destination": "new/deeper/copy.md"}
    for refusing in ({}, {"createDirectories": False}):
        refused = await call(tool, **request, **refusing)
        assert (refused.status, refused.code) == (404, "FILE_NOT_FOUND")
    assert not (root / "new").exists()
    await _ok(call, tool, **request, createDirectories=True)
    assert (root / "new/deeper/copy.md").read_text() == TREE["README.md"]


async def test_delete_recursive(call: Any, root: Path) -> None:
    for refusing in ({}, {"recursive": False}):
        refused = await call("deleteFile", path="src", **refusing)
        assert (refused.status, refused.code) == (400, "INVALID_ARGUMENT")
        assert "recursive" in refused.body["error"]
    assert (root / "src/app.js").exists()
    await _ok(call, "deleteFile", path="src", recursive=True)
    assert not (root / "src").exists()
    await _ok(call, "deleteFile", path="README.md", recursive=True)
    assert not (root / "README.md").exists()


async def test_a_folder_is_moved_whole_and_not_copied(call: Any, root: Path) -> None:
    refused = await call("copyFile", source="src", destination="copy")
    assert (refused.status, refused.code) == (400, "INVALID_ARGUMENT")
    await _ok(call, "moveFile", source="src", destination="moved")
    assert (root / "moved/api/client.js").read_text() == TREE["src/api/client.js"]
    assert not (root / "src").exists()


async def test_numbers_may_be_written_as_javascript_does(call: Any) -> None:
    body = await _ok(call, "readFile", path="src/app.js", startLine=10.0, endLine=20.0)
    assert body["returnedLines"] == 11


async def test_base64_reads_and_writes_anything(call: Any, root: Path) -> None:
    await _ok(call, "writeFile", path="blob.bin", content="AAH/", encoding="base64")
    assert (root / "blob.bin").read_bytes() == b"\x00\x01\xff"
    refused = await call("readFile", path="blob.bin")
    assert (refused.status, refused.code) == (415, "BINARY_FILE")
    assert (await _ok(call, "readFile", path="blob.bin", encoding="base64"))["content"] == "AAH/"


async def test_expected_hash(call: Any, root: Path) -> None:
    read = await _ok(call, "readFile", path="README.md")
    written = await _ok(call, "writeFile", path="README.md", content="mine\n", expectedHash=read["hash"])
    stale = await call("writeFile", path="README.md", content="theirs\n", expectedHash=read["hash"])
    assert (stale.status, stale.code) == (409, "CONFLICT")
    assert written["hash"] in str(stale.body["details"])
    assert (root / "README.md").read_text() == "mine\n"
