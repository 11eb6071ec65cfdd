"""Laws: an edit leaves every byte outside of what it replaces alone; glob and grep say what a simple reference says."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.file_trees import Tree, grow, is_selected
from tests.support.tool_interface import Interface, opened
from wap_kernel.files.edit.newlines import convert_newlines, find_ending
from wap_kernel.model.errors import Code


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Interface]:
    with opened(tmp_path_factory.mktemp("laws"), undo=False) as tools:
        yield tools


# -- edit

_pieces = st.lists(
    st.one_of(
        st.sampled_from(
            [b"\n", b"\r\n", b"\r", b"\xef\xbb\xbf", b"\xff\xfe", b"\x85", b"ab", b"aa", "é".encode(), b" "]
        ),
        st.binary(max_size=8).map(lambda data: data.replace(b"\0", b"")),
    ),
    max_size=20,
).map(b"".join)
_texts = st.one_of(st.sampled_from(["\n", "\r\n", "a", "aa", "ab", "é", "\ufeff", " ", "x\ny"]), st.text(max_size=6))
_BOM = b"\xef\xbb\xbf"


@given(before=_pieces, after=_pieces, old=_texts.filter(bool), new=_texts, every=st.booleans())
def test_an_edit_leaves_every_byte_outside_the_span_alone(
    tools: Interface, before: bytes, after: bytes, old: str, new: str, every: bool
) -> None:
    if "\0" in old + new:
        return
    wanted, written = old.encode(), new.encode()
    data = before + wanted + after
    file = tools.file("edited.bin", data)
    mark = _BOM if data.startswith(_BOM) else b""
    body = data[len(mark) :]  # a byte order mark is no part of the text
    ending = find_ending(body)
    if ending is not None:  # in a file with one kind of line endings they are no difference
        wanted, written = convert_newlines(wanted, ending), convert_newlines(written, ending)
    elif wanted not in body:
        return  # the text may be there with other line endings, see test_newlines.py
    found = body.count(wanted)
    fields = {"file_path": "edited.bin", "old_string": old, "new_string": new, "replace_all": every}
    # Occurrences may overlap, so that which one is meant is not known although they are counted as one.
    is_ambiguous = not every and body.find(wanted) != body.rfind(wanted)
    if wanted == written:
        assert tools.refuse("edit", **fields).code is Code.INVALID_ARGUMENT
        return
    if not found or is_ambiguous:
        error = tools.refuse("edit", **fields)
        assert error.code is (Code.EDIT_AMBIGUOUS if found else Code.EDIT_NOT_FOUND)
        assert file.read_bytes() == data
        return
    answer = tools("edit", **fields)
    assert file.read_bytes() == mark + body.replace(wanted, written)
    assert answer["replacements"] == found
    if not every:
        start = body.find(wanted)
        assert file.read_bytes() == mark + body[:start] + written + body[start + len(wanted) :]


# -- a folder, page by page


@settings(max_examples=20)
@given(names=st.sets(st.text("abB_.é ", min_size=1, max_size=4), max_size=9), size=st.integers(1, 5))
def test_the_pages_of_a_folder_are_the_folder(tools: Interface, names: set[str], size: int) -> None:
    folder = tools.root / "paged"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for name in names - {".", ".."}:
        (folder / name).touch()
    whole = sorted(os.listdir(folder))
    assert tools("read", file_path="paged")["content"] == "\n".join(whole)
    for first in range(1, len(whole) + 1, size):
        page = tools("read", file_path="paged", offset=first, limit=size)
        assert page["content"] == "\n".join(whole[first - 1 : first - 1 + size])
        assert page["truncated"] is (first - 1 + size < len(whole))
        assert page["total_lines"] == len(whole)


# -- glob and grep

_names = st.sampled_from(["a", "a.ts", "b.ts", "B.js", ".h", "é.ts", "-x", "a b", "[a].ts"])
_contents = st.lists(
    st.sampled_from(
        [b"TODO one\n", b"todo\n", b"x = 12\r\n", b"\n", b"a.b\n", "größe\n".encode(), b"\xff\n", b"last 7"]
    ),
    max_size=5,
).map(b"".join)
_trees: st.SearchStrategy[Tree] = st.recursive(
    st.dictionaries(_names, _contents, max_size=4),
    lambda trees: st.dictionaries(_names, st.one_of(_contents, trees), max_size=4),
    max_leaves=12,
)
_PATTERNS = ["**/*", "*", "**/*.ts", "*.ts", "a/**", "**/a/*", "**/*.{ts,js}", "**/[ab]*", "?", "**/.h", "*/*"]


def all_files(root: Path) -> dict[str, bytes]:
    return {
        os.path.relpath(os.path.join(folder, name), root): Path(folder, name).read_bytes()
        for folder, _, names in os.walk(root)
        for name in names
    }


def plant(tools: Interface, tree: Tree) -> dict[str, bytes]:
    """As the whole content of `tree/`."""
    root = tools.root / "tree"
    shutil.rmtree(root, ignore_errors=True)
    grow(root, tree)
    return all_files(root)


@given(tree=_trees, pattern=st.sampled_from(_PATTERNS), data=st.data())
def test_glob_agrees_with_a_reference(tools: Interface, tree: Tree, pattern: str, data: st.DataObject) -> None:
    files = plant(tools, tree)
    ages = {path: data.draw(st.integers(0, 3)) for path in files}
    for path, age in ages.items():
        os.utime(tools.root / "tree" / path, ns=(0, 10**18 - age * 10**9))
    expected = sorted((path for path in files if is_selected(path, (pattern,))), key=lambda path: (ages[path], path))
    answer = tools("glob", pattern=pattern, path="/workspace/tree")
    assert answer["matches"] == [f"/workspace/tree/{path}" for path in expected]
    assert (answer["count"], answer["truncated"]) == (len(expected), False)


@given(
    tree=_trees,
    pattern=st.sampled_from(
        ["TODO", "todo|TODO", r"\d+$", r"^x\s=", r"a\.b", "a.b", "größe", r"gr\S+e$", "(?i)todo", "^$"]
    ),
    include=st.sampled_from([None, "*.ts", "**/*.ts", "a/*", "*.{ts,js}", "[a]*"]),
)
def test_grep_agrees_with_a_reference(tools: Interface, tree: Tree, pattern: str, include: str | None) -> None:
    files = plant(tools, tree)
    selecting = None if include is None else (include if "/" in include else f"**/{include}",)
    expected = [
        (f"/workspace/tree/{path}", number)
        for path, content in sorted(files.items())
        if is_selected(path, selecting)
        for number, line in enumerate(content.decode("utf-8", "replace").removesuffix("\n").split("\n"), 1)
        if content and re.search(pattern, line.removesuffix("\r"))
    ]
    fields = {"pattern": pattern, "path": "/workspace/tree", **({} if include is None else {"include": include})}
    answer = tools("grep", **fields)
    assert [(match["file_path"], match["line_number"]) for match in answer["matches"]] == expected
    assert (answer["count"], answer["truncated"]) == (len(expected), False)
