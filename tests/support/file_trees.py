"""Trees of files as nested dictionaries, for tests of listing and search; also as a hypothesis strategy."""

from __future__ import annotations

from pathlib import Path
from typing import Union

from hypothesis import strategies as st
from wcmatch import glob

Tree = dict[str, Union[bytes, "Tree"]]


def grow(folder: Path, tree: Tree) -> None:
    folder.mkdir(exist_ok=True)
    for name, node in tree.items():
        if isinstance(node, bytes):
            (folder / name).write_bytes(node)
        else:
            grow(folder / name, node)


_names = st.sampled_from(["a", "a-b", "a.b", "a0", "b", "B", "dist", "build", ".h", "é", "-x", "new\nline"])
includes = st.one_of(
    st.none(),
    st.lists(
        st.sampled_from(
            [
                "**",
                "**/*",
                "*",
                "*.b",
                "**/a",
                "**/a*",
                "a/**",
                "a/*",
                "a/**/b",
                "{a,b}/**",
                "[aB]",
                "*/*/*",
                "**/.h",
                "./b",
            ]
        ),
        max_size=3,
    ).map(tuple),
)
"""Selecting globs that find something in the trees below."""


def is_selected(path: str, include: tuple[str, ...] | None) -> bool:
    """As wcmatch says it, which knows nothing of our walk."""
    flags = glob.GLOBSTAR | glob.DOTMATCH | glob.FORCEUNIX | glob.BRACE
    return include is None or any(
        glob.globmatch(path, pattern.removeprefix("./"), flags=flags)
        or glob.globmatch(path + "/", pattern.removeprefix("./"), flags=flags)
        for pattern in include
    )


_pieces = st.sampled_from(
    [b"needle", b"NEEDLE", b"a", b"\n", b"\n", b"\r\n", b"\r", "é".encode(), b"\xff", b" ", b"\0"]
)
_contents = st.lists(_pieces, max_size=12).map(b"".join)
trees: st.SearchStrategy[Tree] = st.recursive(
    st.dictionaries(_names, _contents, max_size=4),
    lambda below: st.dictionaries(_names, st.one_of(_contents, below), max_size=4),
    max_leaves=10,
)
