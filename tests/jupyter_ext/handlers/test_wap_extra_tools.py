"""Over HTTP, in the form of WAP 1.0, what it leaves out: folders, copies, moves, deletion, base64, expected hashes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.spec_tree import TREE, ok, plant


@pytest.fixture(autouse=True)
def root(jp_root_dir: Path) -> Path:
    return plant(jp_root_dir)


async def test_create_directory_copy_move_delete(call: Any, root: Path) -> None:
    made = await ok(call, "createDirectory", path="a/b")
    assert (made["success"], made["path"], (root / "a/b").is_dir()) == (True, "a/b", True)
    copied = await ok(call, "copyFile", source="README.md", destination="a/b/copy.md")
    assert (copied["success"], copied["path"]) == (True, "a/b/copy.md")
    moved = await ok(call, "moveFile", source="a/b/copy.md", destination="moved.md")
    assert (moved["success"], moved["path"]) == (True, "moved.md")
    assert (root / "moved.md").read_text() == TREE["README.md"]
    deleted = await ok(call, "deleteFile", path="moved.md")
    assert (deleted["success"], deleted["path"], (root / "moved.md").exists()) == (True, "moved.md", False)
    assert (root / "README.md").read_text() == TREE["README.md"]


@pytest.mark.parametrize("tool", ["copyFile", "moveFile"])
async def test_overwrite(call: Any, root: Path, tool: str) -> None:
    request = {"source": "README.md", "destination": "logs/app.log"}
    for refusing in ({}, {"overwrite": False}):
        refused = await call(tool, **request, **refusing)
        assert (refused.status, refused.code) == (409, "FILE_EXISTS")
        assert "overwrite: true" in refused.body["error"]
    assert (root / "logs/app.log").read_text() == TREE["logs/app.log"]
    await ok(call, tool, **request, overwrite=True)
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
        assert "createDirectories: true" in refused.body["error"]
    assert not (root / "new").exists()
    await ok(call, tool, **request, createDirectories=True)
    assert (root / "new/deeper/copy.md").read_text() == TREE["README.md"]


async def test_delete_recursive(call: Any, root: Path) -> None:
    for refusing in ({}, {"recursive": False}):
        refused = await call("deleteFile", path="src", **refusing)
        assert (refused.status, refused.code) == (400, "INVALID_ARGUMENT")
        assert "recursive" in refused.body["error"]
    assert (root / "src/app.js").exists()
    await ok(call, "deleteFile", path="src", recursive=True)
    assert not (root / "src").exists()
    await ok(call, "deleteFile", path="README.md", recursive=True)
    assert not (root / "README.md").exists()


async def test_a_folder_is_moved_whole_and_not_copied(call: Any, root: Path) -> None:
    refused = await call("copyFile", source="src", destination="copy")
    assert (refused.status, refused.code) == (400, "INVALID_ARGUMENT")
    assert "cp -r" in refused.body["error"]
    await ok(call, "moveFile", source="src", destination="moved")
    assert (root / "moved/api/client.js").read_text() == TREE["src/api/client.js"]
    assert not (root / "src").exists()


async def test_numbers_may_be_written_as_javascript_does(call: Any) -> None:
    body = await ok(call, "readFile", path="src/app.js", startLine=10.0, endLine=20.0)
    assert body["returnedLines"] == 11


async def test_base64_reads_and_writes_anything(call: Any, root: Path) -> None:
    await ok(call, "writeFile", path="blob.bin", content="AAH/", encoding="base64")
    assert (root / "blob.bin").read_bytes() == b"\x00\x01\xff"
    refused = await call("readFile", path="blob.bin")
    assert (refused.status, refused.code) == (415, "BINARY_FILE")
    assert (await ok(call, "readFile", path="blob.bin", encoding="base64"))["content"] == "AAH/"


async def test_expected_hash(call: Any, root: Path) -> None:
    read = await ok(call, "readFile", path="README.md")
    written = await ok(call, "writeFile", path="README.md", content="mine\n", expectedHash=read["hash"])
    stale = await call("writeFile", path="README.md", content="theirs\n", expectedHash=read["hash"])
    assert (stale.status, stale.code) == (409, "CONFLICT")
    assert written["hash"] in str(stale.body["details"])
    assert (root / "README.md").read_text() == "mine\n"
