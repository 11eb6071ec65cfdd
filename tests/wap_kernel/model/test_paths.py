"""Paths as text: nothing here looks at a disk."""

from __future__ import annotations

from pathlib import PurePosixPath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wap_kernel.model.paths import relative_to

PARTS = st.lists(st.sampled_from(["", ".", "a", "b", ".a", "a.", "..a", "a b"]), max_size=4)
"""Components without `..`, whose target the text alone does not determine."""
WRITTEN = st.builds(lambda parts, end: "/" + "/".join(parts) + end, PARTS, st.sampled_from(["", "/", "/.", "//"]))


@given(WRITTEN, WRITTEN)
def test_below_however_it_is_written(path: str, folder: str) -> None:
    one, other = (PurePosixPath("/" + written.lstrip("/")) for written in (path, folder))
    expected = str(one.relative_to(other)) if one.is_relative_to(other) else None
    assert relative_to(path, folder) == ("" if expected == "." else expected)


@pytest.mark.parametrize(
    ("path", "folder", "rest"),
    [
        ("/a/b", "/", "a/b"),
        ("/", "/", ""),
        ("/ab", "/a", None),
        ("/a", "/a/b", None),
        ("/a/.b/c", "/a/.b", "c"),
        ("/a/../b", "/a", "../b"),
        ("a/b", "/a", "b"),
    ],
)
def test_below(path: str, folder: str, rest: str | None) -> None:
    assert relative_to(path, folder) == rest
