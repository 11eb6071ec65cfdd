"""The overlay of a dry run: it answers as the real files would, and touches none of them."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.guards import NoJournal, OpenGuard
from wap_kernel.files.contained.root import Root
from wap_kernel.files.interface import FileKind, Files
from wap_kernel.files.list_folder import list_files
from wap_kernel.files.overlay.overlay import Overlay
from wap_kernel.files.write import Writer
from wap_kernel.model.command import Deadline
from wap_kernel.model.edits import ReplaceText
from wap_kernel.model.errors import PermissionDenied, WapError
from wap_kernel.model.operations import (
    CopyFile,
    CreateDirectory,
    DeleteFile,
    ListFiles,
    ModifyFile,
    MoveFile,
    Operation,
    WriteFile,
)
from wap_kernel.model.paths import Access
from wap_kernel.model.results import Limits

NAMES = {
    **{WriteFile: "write", ModifyFile: "modify", DeleteFile: "delete"},
    **{MoveFile: "move", CopyFile: "copy", CreateDirectory: "make_folder"},
}


class NoLocks:
    @contextmanager
    def hold(self, *paths: str) -> Iterator[None]:
        yield


def perform(files: Files, operation: Operation) -> object:
    """The answer, or the error as whoever asked would see it."""
    try:
        return getattr(Writer(files, NoLocks(), Limits()), NAMES[type(operation)])(operation)
    except WapError as error:
        return error.code, error.text
    except OSError as error:
        return error.errno


def seen(files: Files) -> dict[str, Any]:
    """Everything that can be listed and read."""
    listed = list_files(
        files, ListFiles(path=".", recursive=True, max_depth=9, exclude=()), Limits(), "/", Deadline(10)
    )
    found: dict[str, Any] = {}
    for entry in listed.files:
        look = files.lstat(entry.path)
        assert look is not None
        found[entry.path] = look.kind, look.target
        if look.kind is FileKind.FILE:
            with files.open(entry.path) as file:
                found[entry.path] = file.read(), file.stat.mode, file.stat.size
    return found


def grow(folder: Path) -> None:
    (folder / "d/e").mkdir(parents=True)
    (folder / "a").write_text("1\n")
    (folder / "d/a").write_text("1")
    (folder / "d/b").write_bytes(b"\0")
    (folder / "l").symlink_to("d/a")
    (folder / "m").symlink_to("d")
    (folder / "n").symlink_to("new/x")
    (folder / "away").symlink_to("../../outside")
    (folder / "d/up").symlink_to("../a")
    (folder / "whole").symlink_to(folder / "d")
    os.mkfifo(folder / "pipe")


_names = st.sampled_from(
    """
    a b d d/a d/b d/e d/e/x d/new/x d/up m/a m/e/x l n new new/x away away/x d/../a d/e/../../b ../x a/x pipe .
    whole/a whole/new/y no/../../x
    """.split()
)
_contents = st.sampled_from([b"", b"1", b"2\r\n"])
_operations: st.SearchStrategy[Operation] = st.one_of(
    st.builds(
        WriteFile,
        path=_names,
        content=_contents,
        mode=st.sampled_from(["create", "overwrite", "append"]),
        create_directories=st.booleans(),
    ),
    st.builds(DeleteFile, path=_names, recursive=st.booleans()),
    st.builds(ModifyFile, path=_names, edits=st.just((ReplaceText(old_content="1", new_content="one"),))),
    st.builds(MoveFile, source=_names, destination=_names, overwrite=st.booleans(), create_directories=st.booleans()),
    st.builds(CopyFile, source=_names, destination=_names, overwrite=st.booleans(), create_directories=st.booleans()),
    st.builds(CreateDirectory, path=_names),
)


def moves_a_folder(files: Files, operation: Operation) -> bool:
    """The one thing that an overlay refuses."""
    if not isinstance(operation, MoveFile):
        return False
    try:
        return files.stat(operation.source, follow=False).kind.value == "folder"
    except (OSError, WapError):
        return False


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    old = os.umask(0o022)
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)
    os.umask(old)


@settings(max_examples=150)
@given(operations=st.lists(_operations, min_size=1, max_size=10))
def test_any_operations_give_the_same_answers_and_the_same_files_as_on_disk(
    folder: Path, operations: list[Operation]
) -> None:
    for name in ("real", "base"):
        shutil.rmtree(folder / name, ignore_errors=True)
        (folder / name).mkdir()
        grow(folder / name)
    (folder / "base/whole").unlink()
    (folder / "base/whole").symlink_to(folder / "base/d")
    real = Root(str(folder / "real"), guard=OpenGuard(), journal=NoJournal())
    base = Root(str(folder / "base"), guard=OpenGuard(), journal=NoJournal())
    untouched = seen(base)
    overlay = Overlay(base).guarded_by(OpenGuard())
    for operation in operations:
        if not moves_a_folder(real, operation):
            assert perform(overlay, operation) == perform(real, operation), operation
    shown = {path: was for path, was in seen(overlay).items() if path != "whole"}
    assert shown == {path: was for path, was in seen(real).items() if path != "whole"}
    assert seen(base) == untouched
    real.close()
    base.close()


class Denying(OpenGuard):
    def check(self, path: str, access: Access, *, folder: bool = False) -> None:
        if path.startswith("secret") or (access is Access.WRITE and path.startswith("kept")):
            raise PermissionDenied(f"no {access.value}: {path}")

    def hidden_among(self, folder: str, names: Any, folders: Any = None) -> list[str]:
        return [name for name in names if name == "secret"]


def test_the_guard_is_asked_about_what_is_really_reached(root: Root) -> None:
    Path(root.path, "secret").write_text("x")
    Path(root.path, "kept").mkdir()
    Path(root.path, "way").symlink_to("kept")
    overlay = Overlay(root).guarded_by(Denying())
    for attempt in (
        lambda: overlay.open("secret"),
        lambda: overlay.stat("secret"),
        lambda: overlay.lstat("secret"),
        lambda: overlay.replace("way/f", b""),
        lambda: overlay.mkdir("way/f"),
        lambda: overlay.rename("secret", "x"),
        lambda: overlay.remove_tree("kept"),
        lambda: overlay.open_folder(".").open("secret"),
    ):
        with pytest.raises(PermissionDenied):
            attempt()
    with overlay.open_folder(".") as top:
        assert {entry.name for batch in top.batches() for entry in batch} == {"kept", "way"}


def test_a_batch_is_played_with_diffs_and_nothing_is_touched(root: Root) -> None:
    Path(root.path, "f").write_text("one\n")
    overlay = Overlay(root).guarded_by(OpenGuard())
    writer = Writer(overlay, NoLocks(), Limits())
    writer.write(WriteFile(path="new/g", content=b"a\n", create_directories=True))
    diff = writer.modify(ModifyFile(path="f", edits=(ReplaceText(old_content="one", new_content="two"),))).diff
    assert diff == "--- a/f\n+++ b/f\n@@ -1 +1 @@\n-one\n+two\n"
    again = writer.modify(ModifyFile(path="f", edits=(ReplaceText(old_content="two", new_content="3"),)))
    assert again.diff.endswith("-two\n+3\n")
    assert os.listdir(root.path) == ["f"] and Path(root.path, "f").read_text() == "one\n"


def test_a_folder_is_not_moved(root: Root) -> None:
    Path(root.path, "d").mkdir()
    with pytest.raises(WapError, match="dry run"):
        Overlay(root).rename("d", "e")
