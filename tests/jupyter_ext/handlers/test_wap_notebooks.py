"""Over HTTP, in the form of WAP 1.0: notebooks cell by cell."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import nbformat
import pytest

from tests.support.server_processes import OPEN
from tests.support.spec_tree import ok

ERROR = nbformat.v4.new_output("error", ename="ZeroDivisionError", evalue="1/0", traceback=["\x1b[31mboom\x1b[0m"])
IMAGE = nbformat.v4.new_output("display_data", data={"image/png": "iVBORw0KGgo=", "text/plain": "<Figure>"})
LONG = nbformat.v4.new_output("stream", text="x" * 10_000)


@pytest.fixture(autouse=True)
def path(jp_root_dir: Path) -> Path:
    made = nbformat.v4.new_notebook(metadata={"language_info": {"name": "python"}})
    made.cells = [
        nbformat.v4.new_markdown_cell("# Title", id="title"),
        nbformat.v4.new_code_cell("1/0", id="sum", execution_count=3, outputs=[ERROR, IMAGE, LONG]),
    ]
    nbformat.write(made, jp_root_dir / "work.ipynb")
    return jp_root_dir / "work.ipynb"


async def test_reading_cells(call: Any, path: Path) -> None:
    body = await ok(call, "readNotebook", path="work.ipynb")
    assert (body["totalCells"], body["isTruncated"], body["language"]) == (2, False, "python")
    assert body["hash"] == (await ok(call, "readFile", path="work.ipynb"))["hash"]
    assert body["metadata"]["path"] == str(path)
    title, code = body["cells"]
    assert title == {"id": "title", "type": "markdown", "source": "# Title"}
    assert (code["id"], code["type"], code["source"], code["executionCount"]) == ("sum", "code", "1/0", 3)
    error, image, long = code["outputs"]
    assert error == {"type": "error", "text": "boom"}
    assert image == {"type": "display_data", "text": "<Figure>", "mimeTypes": ["image/png"]}
    assert long["isTruncated"] is True and len(long["text"]) < 5000 and "6000 characters left out" in long["text"]


async def test_reading_some_of_them(call: Any) -> None:
    body = await ok(call, "readNotebook", path="work.ipynb", cellIds=["sum"], includeOutputs=False)
    assert body["cells"] == [{"id": "sum", "type": "code", "source": "1/0", "executionCount": 3}]
    assert body["totalCells"] == 2
    refused = await call("readNotebook", path="work.ipynb", cellIds=["sum", "nope"])
    assert (refused.status, refused.code) == (400, "INVALID_ARGUMENT") and "nope" in refused.body["error"]


@pytest.mark.parametrize(
    "jp_server_config",
    [{"ServerApp": {"jpserver_extensions": {"jupyter_ext": True}}, "WapExtension": {**OPEN, "max_file_size": 150}}],
)
async def test_an_answer_is_bounded(jp_server_config: Any, call: Any) -> None:
    body = await ok(call, "readNotebook", path="work.ipynb")
    assert [cell["id"] for cell in body["cells"]] == ["title"]
    assert (body["isTruncated"], body["totalCells"]) == (True, 2)
    alone = await ok(call, "readNotebook", path="work.ipynb", cellIds=["sum"], includeOutputs=False)
    assert alone["isTruncated"] is False


async def test_odd_notebooks_are_read(call: Any, jp_root_dir: Path) -> None:
    code = {"cell_type": "code", "metadata": {}, "execution_count": True, "source": ["a\ud800"], "id": "\udfff"}
    outputs = [{"output_type": "stream", "text": "\ud800"}, 7, *([{}] * 60)]
    made = {"cells": [{**code, "outputs": outputs}, code], "metadata": {"language_info": {"name": "\ud800"}}}
    (jp_root_dir / "odd.ipynb").write_text(json.dumps({**made, "nbformat": 4, "nbformat_minor": 5}))
    body = await ok(call, "readNotebook", path="odd.ipynb", cellIds=["cell-0", "cell-0"])
    (cell,) = body["cells"]
    assert (cell["source"], cell["outputs"][0]["text"], body["language"]) == ("a\ufffd", "\ufffd", "\ufffd")
    assert len(cell["outputs"]) == 50 and cell["outputsLeftOut"] == 11 and "executionCount" not in cell


async def test_a_notebook_that_is_not_valid_is_not_changed_and_not_sent_in_circles(
    call: Any, jp_root_dir: Path
) -> None:
    broken = {"cells": [], "metadata": {"kernelspec": 7}, "nbformat": 4, "nbformat_minor": 5}
    (jp_root_dir / "odd.ipynb").write_text(json.dumps(broken))
    refused = await call("modifyNotebook", path="odd.ipynb", operations=[{"type": "insert", "source": "x"}])
    assert refused.code == "INVALID_ARGUMENT" and "invalid before the edit" in refused.body["error"]


async def test_changing_cells(call: Any, path: Path) -> None:
    before = await ok(call, "readNotebook", path="work.ipynb")
    body = await ok(
        call,
        "modifyNotebook",
        path="work.ipynb",
        expectedHash=before["hash"],
        operations=[
            {"type": "insert", "source": "import math", "afterCell": "title", "cellId": "setup"},
            {"type": "replace", "cellId": "sum", "source": "math.pi"},
            {"type": "insert", "cellType": "markdown", "source": "The end"},
            {"type": "move", "cellId": "sum", "beforeCell": "setup"},
            {"type": "delete", "cellId": "title"},
        ],
    )
    assert (body["success"], body["path"]) == (True, "work.ipynb")
    assert any(line.startswith("+") and '"math.pi"' in line for line in body["diff"].splitlines())
    found = nbformat.read(path, as_version=4)
    nbformat.validate(found)
    assert [cell.source for cell in found.cells] == ["math.pi", "import math", "The end"]
    assert found.cells[0].outputs == []
    after = await ok(call, "readNotebook", path="work.ipynb")
    assert after["hash"] == body["hash"] and [cell["id"] for cell in after["cells"]][:2] == ["sum", "setup"]


async def test_all_or_nothing(call: Any) -> None:
    before = await ok(call, "readFile", path="work.ipynb")
    refused = await call(
        "modifyNotebook",
        path="work.ipynb",
        operations=[{"type": "delete", "cellId": "title"}, {"type": "delete", "cellId": "nope"}],
    )
    assert (refused.status, refused.code) == (422, "EDIT_NOT_FOUND")
    assert refused.body["details"]["operation"] == 1 and "sum" in refused.body["error"]
    stale = await call(
        "modifyNotebook",
        path="work.ipynb",
        expectedHash="sha256:" + "0" * 64,
        operations=[{"type": "delete", "cellId": "sum"}],
    )
    assert (stale.status, stale.code) == (409, "CONFLICT")
    assert await ok(call, "readFile", path="work.ipynb") == before


@pytest.mark.parametrize("tool", ["readNotebook", "modifyNotebook"])
async def test_what_is_no_notebook(call: Any, jp_root_dir: Path, tool: str) -> None:
    (jp_root_dir / "broken.ipynb").write_text('{"cells": [')
    (jp_root_dir / "notes.txt").write_text("plain")
    (jp_root_dir / "out.ipynb").symlink_to("/etc/passwd")
    more = {"operations": [{"type": "insert", "source": "x"}]} if tool == "modifyNotebook" else {}
    for name, code in {
        "broken.ipynb": "INVALID_ARGUMENT",
        "notes.txt": "INVALID_ARGUMENT",
        "missing.ipynb": "FILE_NOT_FOUND",
        "../work.ipynb": "PERMISSION_DENIED",
        "out.ipynb": "PERMISSION_DENIED",
    }.items():
        assert (await call(tool, path=name, **more)).code == code, name


CLOSED = {"deniedPaths": ["secret/**"], "maxFileSize": 3000, "filesystem": {"readOnlyPaths": ["locked/**"]}}


@pytest.mark.parametrize(
    ("folder", "reading", "changing"),
    [
        ("secret", "PERMISSION_DENIED", "PERMISSION_DENIED"),
        ("locked", None, "PERMISSION_DENIED"),
        (".git", None, "PERMISSION_DENIED"),
        ("large", "SIZE_LIMIT_EXCEEDED", "SIZE_LIMIT_EXCEEDED"),
        ("open", None, None),
    ],
)
async def test_policy_is_asked(
    call: Any, jp_root_dir: Path, path: Path, folder: str, reading: str | None, changing: str | None
) -> None:
    text = nbformat.writes(nbformat.v4.new_notebook(cells=[nbformat.v4.new_raw_cell("x" * 5000 * (folder == "large"))]))
    (jp_root_dir / folder).mkdir()
    (jp_root_dir / folder / "work.ipynb").write_text(text)
    (jp_root_dir / ".cws-policy.json").write_text(json.dumps(CLOSED))
    name = f"{folder}/work.ipynb"
    assert (await call("readNotebook", path=name)).code == reading
    refused = await call("modifyNotebook", path=name, operations=[{"type": "insert", "source": "more"}])
    assert refused.code == changing


async def test_a_text_that_would_break_a_notebook_points_to_its_cells(call: Any) -> None:
    refused = await call("writeFile", path="work.ipynb", content="{}")
    assert (refused.status, refused.code) == (400, "INVALID_ARGUMENT")
    assert "modifyNotebook" in refused.body["error"]
