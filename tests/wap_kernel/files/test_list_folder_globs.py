"""Listing what globs select: relative to the start, files only, without a look where nothing can be selected."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.file_trees import Tree, grow
from tests.support.listings import listed, paths
from wap_kernel.files import tree_walk as walking
from wap_kernel.files.contained.root import Root
from wap_kernel.model.errors import InvalidArgument

PROJECT: Tree = {
    "main.py": b"",
    "README.md": b"",
    "src": {"a.ts": b"", "b.tsx": b"", "x": {"c.ts": b"", "py": {"d.py": b""}}, "src": {"e.ts": b""}},
    "node_modules": {"p": {"i.ts": b""}},
    "py.py": {"f": b""},
}
INCLUDED = [
    # include, path, found
    (["**/*.py"], ".", ["main.py", "src/x/py/d.py"]),
    (["*.py"], ".", ["main.py"]),
    (["src/*.ts"], ".", ["src/a.ts"]),
    (["*.ts"], "src", ["src/a.ts"]),
    (["src/*.ts"], "src", ["src/src/e.ts"]),
    (["**/*.{ts,tsx}"], ".", ["src/a.ts", "src/b.tsx", "src/src/e.ts", "src/x/c.ts"]),
    (["**/[ac].ts", "README.*"], ".", ["README.md", "src/a.ts", "src/x/c.ts"]),
    (["src/x/**"], ".", ["src/x/c.ts", "src/x/py/d.py"]),
    (["**"], "src/x", ["src/x/c.ts", "src/x/py/d.py"]),
    (["src", "py.py"], ".", []),
    (["**/*.ts"], "node_modules", ["node_modules/p/i.ts"]),
    ([""], ".", []),
    ([], ".", []),
]


@pytest.mark.parametrize("newest_first", [False, True])
@pytest.mark.parametrize(("include", "path", "found"), INCLUDED)
def test_globs_select_files_and_are_relative_to_the_path(
    root: Root, ws: Path, include: list[str], path: str, found: list[str], newest_first: bool
) -> None:
    grow(ws, PROJECT)
    result = listed(root, path, recursive=True, include=include, newest_first=newest_first)
    assert sorted(paths(result)) == found
    assert (result.total_found, result.is_truncated) == (len(found), False)


def test_globs_and_exclusions_both_count(root: Root, ws: Path) -> None:
    grow(ws, PROJECT)
    for exclude in (("src/x/**",), ("c.ts", "d.py"), ("x",)):
        result = listed(root, recursive=True, include=("**/*.{py,ts}",), exclude=("node_modules", *exclude))
        assert paths(result) == ["main.py", "src/a.ts", "src/src/e.ts"]
    assert paths(listed(root, include=("**/*.py",))) == ["main.py"]
    assert paths(listed(root, recursive=True, max_depth=2, include=("**/*.ts",))) == ["src/a.ts"]


def test_globs_select_links_by_their_own_name(root: Root, ws: Path) -> None:
    grow(ws, {"real": {"a.py": b""}})
    (ws / "link.py").symlink_to("nowhere")
    (ws / "in").symlink_to("real")
    result = listed(root, recursive=True, include=("**/*.py", "in"), metadata=True)
    assert [(entry.path, entry.is_symlink, entry.is_directory) for entry in result.files] == [
        *(("in", True, True), ("link.py", True, False), ("real/a.py", None, False)),
    ]
    assert all(entry.metadata is not None for entry in result.files)
    assert paths(listed(root, "in", include=("*.py",))) == ["real/a.py"]


def test_folders_in_which_nothing_can_be_selected_are_not_entered(
    root: Root, ws: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    grow(ws, {"src": {"a": {"f.py": b""}, "b": {"f.py": b"", "deep": {}}}, "lib": {"a": {"f.py": b""}}})
    entered: list[str] = []
    original = walking._enter

    def enter(files: Root, level: walking.WalkLevel, name: str) -> object:
        entered.append(name)
        return original(files, level, name)

    monkeypatch.setattr(walking, "_enter", enter)
    for newest_first in (False, True):
        entered.clear()
        result = listed(root, recursive=True, include=("src/b/*.py",), newest_first=newest_first)
        assert paths(result) == ["src/b/f.py"]
        assert entered == ["src", "b"]


@pytest.mark.parametrize("pattern", ["{a,b}" * 12, "x" * 1001, "nul\0", "*a*a*a*a*b"])
def test_globs_that_cost_too_much_are_refused(root: Root, pattern: str) -> None:
    with pytest.raises(InvalidArgument):
        listed(root, include=(pattern,))
