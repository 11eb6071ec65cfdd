"""Requests of WAP as operations: numbers, paths, floods; a refusal is recorded in the audit as well."""

from __future__ import annotations

import asyncio
import base64
import json
import sqlite3
from collections.abc import Awaitable, Callable
from contextlib import closing
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wap_kernel.dialects import body_complexity
from wap_kernel.dialects.tool import LARGE_BODY_BYTES
from wap_kernel.dialects.wap import parameters as wap_parameters
from wap_kernel.dialects.wap import tools as wap
from wap_kernel.model.errors import Code, InvalidArgument, NotFound, WapError
from wap_kernel.model.limits import MAX_REPORTED_PROBLEMS
from wap_kernel.model.operations import Effect


def _parse(tool: str, **parameters: Any) -> Any:
    return wap.find_tool(tool).parse(json.dumps(parameters).encode())


def test_where_the_changes_of_a_command_go() -> None:
    assert _parse("executeCommand", command="ls").operation(()).isolation == "layer"
    assert _parse("executeCommand", command="ls", isolation="shared").operation(()).isolation == "shared"
    with pytest.raises(InvalidArgument, match="isolation: Input should be 'layer' or 'shared'"):
        _parse("executeCommand", command="ls", isolation="none")


# -- what is recorded


def _recorded(tools: Any) -> list[tuple[str, str, str, str]]:
    asyncio.run(tools.workspace.close())
    with closing(sqlite3.connect(tools.state / "state.db")) as database:
        columns = "operation, user, outcome, code"
        return database.execute(f"SELECT {columns} FROM audit WHERE outcome != 'ok' ORDER BY rowid").fetchall()


REFUSED_WHILE_READING = [
    ("readFile", b'{"path": "/etc/passwd"}', "denied", "PERMISSION_DENIED"),
    ("readFile", b'{"path": "a\\u0000b"}', "failed", "INVALID_ARGUMENT"),
    ("writeFile", b'{"path": "a", "content": "?", "encoding": "base64"}', "failed", "INVALID_ARGUMENT"),
    ("deleteFile", b'{"path": "a", "force": true}', "failed", "INVALID_ARGUMENT"),
    ("executeCommand", b'{"command": "a\\u0000b"}', "failed", "INVALID_ARGUMENT"),
    ("searchFiles", b"not JSON", "failed", "INVALID_ARGUMENT"),
    ("writeFile", b'{"path": "../a", "colour": "' + b"x" * LARGE_BODY_BYTES + b'"}', "failed", "INVALID_ARGUMENT"),
]


def test_a_request_that_is_refused_while_it_is_read_is_recorded(tools: Any) -> None:
    for tool, body, _, _ in REFUSED_WHILE_READING:
        with pytest.raises(WapError):
            asyncio.run(tools.send(tool, body))
    expected = [(tool, "tester", outcome, code) for tool, _, outcome, code in REFUSED_WHILE_READING]
    assert _recorded(tools) == expected


def test_an_operation_that_fails_is_recorded_once(tools: Any) -> None:
    tools.refuse("readFile", path="missing")
    assert _recorded(tools) == [("readFile", "tester", "failed", "FILE_NOT_FOUND")]


def test_an_unknown_tool_names_the_known_ones(tools: Any) -> None:
    with pytest.raises(NotFound) as caught:
        asyncio.run(tools.send("formatDisk", b"{}"))
    assert all(name in caught.value.text for name in wap.TOOLS)
    assert wap.find_tool("executeCommand").effect is Effect.EXECUTE


# -- numbers

INTEGERS: dict[str, Callable[[Any], Any]] = {
    "maxDepth": lambda number: _parse("exploreFiles", path=".", maxDepth=number).max_depth,
    "startLine": lambda number: _parse("readFile", path="a", startLine=number).start_line,
    "contextLines": lambda n: _parse("searchFiles", paths=["a"], query="q", type="regex", contextLines=n).context_lines,
    "afterLine": lambda number: (
        _parse("modifyFile", path="a", operations=[{"type": "insert", "afterLine": number, "newContent": ""}])
        .operations[0]
        .after_line
    ),
    "endLine": lambda number: (
        _parse("modifyFile", path="a", operations=[{"type": "delete", "startLine": 1, "endLine": number}])
        .operations[0]
        .end_line
    ),
}


@pytest.mark.parametrize("field", INTEGERS)
def test_a_whole_number_may_be_written_as_a_float(field: str) -> None:
    assert (INTEGERS[field](3), INTEGERS[field](3.0)) == (3, 3)
    assert type(INTEGERS[field](3.0)) is int


@pytest.mark.parametrize("field", INTEGERS)
@pytest.mark.parametrize("wrong", [3.5, "3", True, -1, -1.0, 2**31 + 1, 1e300, float("inf"), float("nan"), [3]])
def test_nothing_else_passes_for_a_whole_number(field: str, wrong: Any) -> None:
    with pytest.raises(InvalidArgument) as caught:
        INTEGERS[field](wrong)
    assert field in caught.value.message


def test_a_depth_beyond_every_tree_is_fine(tools: Any) -> None:
    (tools.root / "a/b/c/d/e").mkdir(parents=True)
    assert tools.exploreFiles(path=".", recursive=True, maxDepth=2**31)["totalFound"] == 5


# -- paths of new files


@pytest.mark.parametrize("path", ["new/", "new/.", "new//", "folder/", "folder/.", "file/", "./", "."])
@pytest.mark.parametrize(
    ("tool", "parameters", "field"),
    [
        ("writeFile", {"content": "x", "createDirectories": True}, "path"),
        ("copyFile", {"source": "file", "overwrite": True, "createDirectories": True}, "destination"),
        ("moveFile", {"source": "file", "overwrite": True, "createDirectories": True}, "destination"),
    ],
)
def test_a_slash_at_the_end_names_a_folder(tools: Any, tool: str, parameters: Any, field: str, path: str) -> None:
    (tools.root / "folder").mkdir()
    (tools.root / "file").write_text("before")
    for text in (path, f"{tools.root}/{path}"):
        error = tools.refuse(tool, **parameters, **{field: text})
        assert error.code is Code.INVALID_ARGUMENT
        assert "folder/file.txt" in error.text
    assert sorted(entry.name for entry in tools.root.iterdir()) == ["file", "folder"]
    assert (tools.root / "file").read_text() == "before"


@pytest.mark.parametrize(
    ("parameters", "next_step"),
    [
        ({"path": "new/file"}, "createDirectories: true"),
        ({"path": "new/file", "mode": "append"}, "createDirectories: true"),
        ({"path": "file", "mode": "create"}, 'mode "overwrite"'),
        ({"path": "folder"}, "Name a file"),
    ],
)
def test_a_write_that_cannot_be_says_how_it_can(tools: Any, parameters: Any, next_step: str) -> None:
    (tools.root / "folder").mkdir()
    (tools.root / "file").write_text("before")
    error = tools.refuse("writeFile", content="x", **parameters)
    assert next_step in error.text
    assert error.details["path"] == parameters["path"]


def test_a_folder_may_be_named_with_a_slash(tools: Any) -> None:
    assert tools.createDirectory(path="new/")["path"] == "new"
    tools.writeFile(path="new/file", content="x")
    assert tools.exploreFiles(path="new/")["totalFound"] == 1
    assert tools.moveFile(source="new/", destination="old")["path"] == "old"


# -- base64


@given(data=st.binary(max_size=100))
def test_base64_is_decoded_in_steps(data: bytes) -> None:
    text = base64.b64encode(data).decode()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(wap_parameters, "DECODE_STEP", 8)
        operation = _parse("writeFile", path="a", content=text, encoding="base64").operation(())
    assert operation.content == data


@pytest.mark.parametrize("step", [4, 8, 256 * 1024])
@pytest.mark.parametrize("wrong", ["A", "AA", "AAA", "AA=", "=", "AA==AAAA", "AAA=AAAA", "AA==AA==", "AAAA AAAA", "ä"])
def test_what_is_not_base64_is_an_invalid_argument(monkeypatch: pytest.MonkeyPatch, wrong: str, step: int) -> None:
    monkeypatch.setattr(wap_parameters, "DECODE_STEP", step)
    with pytest.raises(InvalidArgument, match="base64"):
        _parse("writeFile", path="a", content=wrong, encoding="base64").operation(())


# -- floods


def test_only_the_first_problems_are_told() -> None:
    with pytest.raises(InvalidArgument) as caught:
        _parse("readFile", **{f"path{number}": 0 for number in range(90)})
    problems = caught.value.details["problems"]
    assert len(problems) == MAX_REPORTED_PROBLEMS
    assert "(and 90 more)" in caught.value.message  # and the path that is missing
    assert problems[1]["message"] == "Unknown field. Did you mean path?"


def test_more_fields_than_any_tool_has_are_one_problem() -> None:
    with pytest.raises(InvalidArgument) as caught:
        _parse("readFile", **{f"path{number}": 0 for number in range(101)})
    assert len(caught.value.details["problems"]) == 1
    assert "100 fields" in caught.value.message


FLOODS = {
    "fields": {f"path{number}": 0 for number in range(5000)},
    "a long name": {"path": "a", "x" * 50_000: 0},
    "a long word": {"path": "a", "encoding": "x" * 50_000},
    "a long tag": {"path": "a", "operations": [{"type": "x" * 50_000}]},
    "operations": {"path": "a", "operations": [1] * 5000},
    "variables": {"command": "a", "environment": {f"A{number}": 0 for number in range(5000)}},
    "patterns": {"path": "a", "excludePatterns": [0] * 5000},
}


@pytest.mark.parametrize("flood", FLOODS)
def test_a_flood_of_problems_gets_a_short_answer(flood: str) -> None:
    for tool in wap.TOOLS:
        with pytest.raises(InvalidArgument) as caught:
            _parse(tool, **FLOODS[flood])
        assert len(caught.value.text) + len(json.dumps(caught.value.details)) < 10_000


def test_a_thousand_variables_are_enough() -> None:
    for number, allowed in ((1000, True), (1001, False)):
        try:
            _parse("executeCommand", command="true", environment={f"A{n}": "" for n in range(number)})
        except InvalidArgument:
            assert not allowed
        else:
            assert allowed


STRINGS = st.text(alphabet='a,[{"\\\n:', max_size=20)
JSON = st.recursive(
    st.none() | st.integers() | STRINGS,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(STRINGS, inner, max_size=5),
    max_leaves=30,
)


def _parts(value: Any) -> int:
    """Commas and opening brackets outside of strings."""
    if isinstance(value, (list, dict)):
        items = list(value.values()) if isinstance(value, dict) else value
        return 1 + max(len(items) - 1, 0) + sum(map(_parts, items))
    return 0


@given(value=JSON, step=st.integers(1, 40))
def test_structure_is_counted_without_being_built(value: Any, step: int) -> None:
    body = json.dumps(value).encode()
    parts = _parts(value)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(body_complexity, "_STEP", step)
        patch.setattr(body_complexity, "MAX_JSON_PARTS", parts)
        body_complexity.check_complexity(body)
        patch.setattr(body_complexity, "MAX_JSON_PARTS", parts - 1)
        with pytest.raises(InvalidArgument):
            body_complexity.check_complexity(body)


@pytest.mark.parametrize("body", [b'{"a":0' + b',"b":0' * 30_000 + b"}", b"[" + b"[]," * 30_000 + b"[]]"])
def test_a_large_body_with_too_much_structure_is_not_parsed(body: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidArgument, match="fields and items"):
        wap.find_tool("writeFile").parse(body)


def test_a_large_body_is_read_off_the_loop(tools: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    offloaded: list[object] = []
    offload = tools.workspace.offload

    def record(work: Callable[[], Any]) -> Awaitable[Any]:
        offloaded.append(work)
        return offload(work)

    monkeypatch.setattr(tools.workspace, "offload", record)
    tools.writeFile(path="a", content="x" * 1000)
    assert offloaded == []
    tools.writeFile(path="a", content='"{,' * LARGE_BODY_BYTES)
    assert len(offloaded) == 1
    assert (tools.root / "a").read_text() == '"{,' * LARGE_BODY_BYTES
