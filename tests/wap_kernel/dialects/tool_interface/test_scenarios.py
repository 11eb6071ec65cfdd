"""The scenarios of the workspace-tool-interface for bash and files, under their names, on every provider."""

from __future__ import annotations

import os

import pytest

from tests.support.time_limits import growing
from tests.support.tool_interface import Interface
from wap_kernel.model.errors import Code


@pytest.fixture
def tools(on_each: Interface) -> Interface:
    return on_each


# -- bash


@pytest.mark.usefixtures("statx")
def test_successful_command_execution(tools: Interface) -> None:
    tools.file("a.txt", "12345")
    # Without a sandbox there is no /workspace. Sizes, times and what is above differ, so only the names are compared.
    path = "." if tools.provider == "local" else "/workspace"
    answer = tools("bash", command=f"ls -la {path} | sed '1d; s/.* //'", workdir="/workspace")
    assert (answer["exit_code"], answer["stderr"]) == (0, "")
    assert answer["stdout"] == ".\n..\na.txt\n"
    assert answer["duration_ms"] >= 0 and answer["total_stdout_bytes"] == len(answer["stdout"])
    assert answer["truncated"] is False


def test_command_with_nonzero_exit_code(tools: Interface) -> None:
    answer = tools("bash", command="echo out; echo err >&2; exit 3")
    assert (answer["stdout"], answer["stderr"], answer["exit_code"]) == ("out\n", "err\n", 3)


def test_command_timeout(tools: Interface) -> None:
    for seconds in growing(0.5):
        given = round(seconds * 1000)
        error = tools.refuse("bash", command="echo partial; echo too >&2; sleep 600", timeout_ms=given)
        assert error.code is Code.TIMEOUT and f"{given / 1000:g} seconds" in error.text and "timeout_ms" in error.text
        if error.details["stderr"]:
            break
    assert (error.details["stdout"], error.details["stderr"]) == ("partial\n", "too\n")
    assert error.details["timeout_ms"] == given and error.details["total_stdout_bytes"] == 8


def test_command_with_custom_working_directory(tools: Interface) -> None:
    tools.file("src/a.txt", "here")
    for workdir in ("/workspace/src", "src", str(tools.root / "src")):
        assert tools("bash", command="cat a.txt", workdir=workdir)["stdout"] == "here"
        here = str(tools.root / "src") if tools.provider == "local" else "/workspace/src"
        assert tools("bash", command="pwd; echo $PWD", workdir=workdir)["stdout"] == f"{here}\n" * 2
        tools.said.pop()  # the one answer that is not the same: only a sandbox can have a folder of that name


def test_longrunning_command_output(tools: Interface) -> None:
    answer = tools("bash", command="seq 1 100000; seq 1 20000 >&2")
    assert answer["truncated"] is True
    assert (answer["total_stdout_bytes"], answer["total_stderr_bytes"]) == (588_895, 108_894)
    for stream, last in (("stdout", 100_000), ("stderr", 20_000)):
        text = answer[stream]
        assert 40 * 1024 < len(text) <= 50 * 1024
        assert text.startswith("1\n2\n") and text.endswith(f"{last - 1}\n{last}\n")
        head, marker, tail = text.partition("[... ")
        left_out, _, tail = tail.partition(" bytes left out ...]\n")
        assert marker and len(head) + int(left_out) + len(tail) == answer[f"total_{stream}_bytes"]


# -- read


def test_read_entire_small_file(tools: Interface) -> None:
    tools.file("README.md", "# README\n\n    Content")
    answer = tools("read", file_path="/workspace/README.md")
    assert answer["content"] == "1: # README\n2: \n3:     Content"
    assert (answer["total_lines"], answer["file_size"]) == (3, 21)
    assert (answer["is_dir"], answer["is_binary"], answer["truncated"]) == (False, False, False)


def test_read_file_with_offset_and_limit(tools: Interface) -> None:
    tools.file("long.txt", "".join(f"line {number}\n" for number in range(1, 301)))
    answer = tools("read", file_path="/workspace/long.txt", offset=100, limit=50)
    assert answer["content"] == "\n".join(f"{number}: line {number}" for number in range(100, 150))
    assert answer["total_lines"] == 300
    assert answer["note"] == "Lines 100 to 149 of 300. Go on with offset 150."


def test_read_nonexistent_file(tools: Interface) -> None:
    error = tools.refuse("read", file_path="/workspace/nothing.txt")
    assert error.code is Code.FILE_NOT_FOUND
    assert error.text == "No such file or folder: /workspace/nothing.txt"


def test_read_directory_listing(tools: Interface) -> None:
    tools.file("src/b.ts")
    tools.file("src/sub/c.ts")
    answer = tools("read", file_path="/workspace/src")
    assert (answer["content"], answer["is_dir"], answer["total_lines"]) == ("b.ts\nsub/", True, 2)


def test_read_binary_file(tools: Interface) -> None:
    data = b"\x89PNG\r\n\x1a\n" + bytes(100)
    tools.file("logo.png", data)
    answer = tools("read", file_path="/workspace/logo.png")
    assert (answer["is_binary"], answer["file_size"], answer["file_type"]) == (True, len(data), "image/png")
    assert answer["content"] == ""
    assert tools.audit(1)[0]["outcome"] == "ok"


# -- write


def test_write_new_file(tools: Interface) -> None:
    answer = tools("write", file_path="/workspace/new-file.ts", content="export const x = 1;")
    assert answer["success"] is True and answer["file_path"] == "/workspace/new-file.ts"
    assert (tools.root / "new-file.ts").read_text() == "export const x = 1;"


def test_overwrite_existing_file(tools: Interface) -> None:
    file = tools.file("a.txt", "a long old content")
    tools("write", file_path="/workspace/a.txt", content="new")
    assert file.read_text() == "new"


def test_write_with_autocreate_directories(tools: Interface) -> None:
    tools("write", file_path="/workspace/src/new/deep/file.ts", content="x")
    assert (tools.root / "src/new/deep/file.ts").read_text() == "x"


# -- edit


def test_successful_string_replacement(tools: Interface) -> None:
    file = tools.file("server.ts", "const port = 3000;\nlisten(port);\n")
    answer = tools(
        "edit", file_path="/workspace/server.ts", old_string="const port = 3000", new_string="const port = 8080"
    )
    assert (answer["success"], answer["lines_changed"], answer["replacements"]) == (True, 1, 1)
    assert file.read_text() == "const port = 8080;\nlisten(port);\n"


def test_old_string_not_found(tools: Interface) -> None:
    file = tools.file("server.ts", "a\nconst port = 3000;\nb\n")
    error = tools.refuse(
        "edit", file_path="/workspace/server.ts", old_string="const porte = 3000", new_string="const port = 8080"
    )
    assert error.code is Code.EDIT_NOT_FOUND and error.text == "oldString not found in content"
    closest = error.details["closest"]
    assert (closest["start_line"], closest["end_line"], closest["text"]) == (2, 2, "const port = 3000;\n")
    assert file.read_text() == "a\nconst port = 3000;\nb\n"


def test_multiple_matches_for_old_string(tools: Interface) -> None:
    file = tools.file("a.txt", "x x")
    error = tools.refuse("edit", file_path="/workspace/a.txt", old_string="x", new_string="y")
    assert error.code is Code.EDIT_AMBIGUOUS
    assert error.text.startswith("Found multiple matches for oldString")
    assert "more surrounding lines" in error.text and "replace_all" in error.text
    assert error.details["occurrences"] == 2
    assert file.read_text() == "x x"


def test_replace_all_occurrences(tools: Interface) -> None:
    file = tools.file("a.txt", "one\ntwo\none\n")
    answer = tools("edit", file_path="/workspace/a.txt", old_string="one", new_string="1\n2\n3", replace_all=True)
    assert (answer["replacements"], answer["lines_changed"]) == (2, 6)
    assert file.read_text() == "1\n2\n3\ntwo\n1\n2\n3\n"


# -- glob


def test_find_files_by_extension(tools: Interface) -> None:
    for age, name in enumerate(("src/new.ts", "src/sub/middle.ts", "src/old.ts")):
        os.utime(tools.file(name), ns=(0, 10**18 - age * 10**9))
    tools.file("src/other.js")
    tools.file("elsewhere.ts")
    answer = tools("glob", pattern="**/*.ts", path="/workspace/src")
    expected = ["/workspace/src/new.ts", "/workspace/src/sub/middle.ts", "/workspace/src/old.ts"]
    assert answer == {"matches": expected, "count": 3, "truncated": False}


def test_no_matches_found(tools: Interface) -> None:
    assert tools("glob", pattern="**/*.ts") == {"matches": [], "count": 0, "truncated": False}


def test_glob_with_specific_directory(tools: Interface) -> None:
    for name in ("a.py", "tests/b.py", "tests/sub/c.py"):
        os.utime(tools.file(name), ns=(0, 10**18))
    answer = tools("glob", pattern="**/*.py", path="/workspace/tests")
    assert answer["matches"] == ["/workspace/tests/b.py", "/workspace/tests/sub/c.py"]


# -- grep


def test_search_for_pattern_across_files(tools: Interface) -> None:
    tools.file("src/b.ts", "x\n// TODO b\n")
    tools.file("src/a.ts", "// TODO a\n")
    tools.file("other.ts", "// TODO elsewhere\n")
    assert tools("grep", pattern="TODO", path="/workspace/src") == {
        "matches": [
            {"file_path": "/workspace/src/a.ts", "line_number": 1, "column": 4, "line": "// TODO a"},
            {"file_path": "/workspace/src/b.ts", "line_number": 2, "column": 4, "line": "// TODO b"},
        ],
        "count": 2,
        "truncated": False,
    }


def test_search_with_file_type_filter(tools: Interface) -> None:
    for name in ("a.ts", "deep/b.ts", "c.js"):
        tools.file(name, "import x\n")
    answer = tools("grep", pattern="import", path="/workspace", include="*.ts")
    assert [match["file_path"] for match in answer["matches"]] == ["/workspace/a.ts", "/workspace/deep/b.ts"]


def test_regex_pattern_search(tools: Interface) -> None:
    tools.file("a.js", "function  main() {}\nfunctional\n")
    answer = tools("grep", pattern=r"function\s+\w+")
    assert [match["line"] for match in answer["matches"]] == ["function  main() {}"]
