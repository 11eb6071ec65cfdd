"""Listing: sorted, exact totals, links as links, and the same as a simple reference on random trees."""

from __future__ import annotations

import os
import socket
import tempfile
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.file_trees import Tree, grow, includes, is_selected, trees
from tests.support.guards import NoJournal, OpenGuard
from tests.support.listings import listed, paths
from wap_kernel.files import list_folder
from wap_kernel.files import tree_walk as walking
from wap_kernel.files.contained.root import Root
from wap_kernel.model.errors import FileNotFound, InvalidArgument, PermissionDenied


def test_direct_children_sorted(root: Root, ws: Path) -> None:
    grow(ws, {"b.txt": b"", "a": {"x": b""}, ".hidden": b"", "node_modules": {}})
    result = listed(root)
    assert paths(result) == [".hidden", "a", "b.txt", "node_modules"]
    assert [entry.is_directory for entry in result.files] == [False, True, False, True]
    assert (result.total_found, result.is_truncated) == (4, False)


def test_recursive_in_order_of_the_whole_path(root: Root, ws: Path) -> None:
    grow(ws, {"a": {"x": b"", "z": {"q": b""}}, "a-b": b"", "a0": b"", "B": b"", "é": b"", "z": b""})
    assert paths(listed(root, recursive=True)) == ["B", "a", "a-b", "a/x", "a/z", "a/z/q", "a0", "z", "é"]


@pytest.mark.parametrize(("depth", "expected"), [(1, 1), (2, 2), (3, 3), (None, 4)])
def test_depth(root: Root, ws: Path, depth: int | None, expected: int) -> None:
    grow(ws, {"a": {"b": {"c": {"d": b""}}}})
    assert listed(root, recursive=True, max_depth=depth).total_found == expected


def test_default_exclusions_are_for_recursive_listings(root: Root, ws: Path) -> None:
    grow(ws, {"node_modules": {"x": {"node_modules": {"y": b""}, "i.js": b""}}, "src": {"dist": b"", "build": {}}})
    assert paths(listed(root)) == ["node_modules", "src"]
    assert paths(listed(root, recursive=True)) == ["src", "src/dist"]
    assert paths(listed(root, "node_modules/x", recursive=True)) == ["node_modules/x/i.js"]
    assert paths(listed(root, recursive=True, exclude=("*.js", "src"))) == [
        *("node_modules", "node_modules/x", "node_modules/x/node_modules", "node_modules/x/node_modules/y"),
    ]
    assert paths(listed(root, exclude=("src/**",))) == ["node_modules"]


@pytest.mark.parametrize("limit", [1, 2, 3, 7, 20])
@pytest.mark.parametrize("exclude", [None, ("*.none",)])
def test_the_first_in_order_are_shown_and_all_are_counted(
    root: Root, ws: Path, limit: int, exclude: tuple[str, ...] | None
) -> None:
    grow(ws, {f"d{i}": {f"f{j}": b"" for j in range(4)} for i in range(3)} | {"d1-": b"", "c": b"", "e": {}})
    everything = paths(listed(root, recursive=True))
    assert everything == sorted(everything) and len(everything) == 18
    result = listed(root, recursive=True, limit=limit, exclude=exclude)
    assert paths(result) == everything[:limit]
    assert (result.total_found, result.is_truncated) == (18, limit < 18)


@pytest.mark.parametrize("options", [{}, {"metadata": True}, {"newest_first": True}])
def test_a_link_to_a_folder_inside_is_listed_as_one(
    root: Root, ws: Path, tmp_path: Path, options: dict[str, bool]
) -> None:
    grow(tmp_path / "outside", {"secret": b"x"})
    grow(ws, {"real": {"f": b""}})
    for name, target in [("in", "real"), ("out", "../outside"), ("file", "real/f"), ("absolute", str(ws / "real"))]:
        (ws / name).symlink_to(target)
    found = {entry.path: entry for entry in listed(root, **options).files if entry.is_symlink}
    assert {path for path, entry in found.items() if entry.is_directory} == {"in", "absolute"}
    assert found.keys() == {"in", "out", "file", "absolute"}
    if options.get("metadata"):
        assert {path for path, entry in found.items() if entry.metadata and entry.metadata.is_directory} == {
            *("in", "absolute"),
        }


def test_links_are_listed_as_links_and_never_followed(root: Root, ws: Path, tmp_path: Path) -> None:
    grow(tmp_path / "outside", {"secret": b"x" * 1000})
    grow(ws, {"real": {"f": b""}})
    for name, target in [("in", "real"), ("out", "../outside"), ("loop", "loop"), ("dangling", "nowhere")]:
        (ws / name).symlink_to(target)
    result = listed(root, recursive=True, metadata=True)
    assert paths(result) == ["dangling", "in", "loop", "out", "real", "real/f"]
    assert [bool(entry.is_symlink) for entry in result.files] == [True, True, True, True, False, False]
    assert [entry.path for entry in result.files[:4] if entry.is_directory] == ["in"]
    assert result.files[3].metadata is not None and result.files[3].metadata.size == len("../outside")
    assert paths(listed(root, "in")) == ["real/f"]


def test_metadata(root: Root, ws: Path) -> None:
    grow(ws, {"a": {"f.txt": b"12345"}})
    os.utime(ws / "a/f.txt", ns=(0, 1_700_000_000_123_000_000))
    folder, file = listed(root, recursive=True, metadata=True).files
    assert folder.metadata is not None and folder.metadata.is_directory
    assert file.metadata is not None
    assert file.metadata.model_dump() == {
        "path": f"{root.path}/a/f.txt",
        "size": 5,
        "is_directory": False,
        "last_modified": "2023-11-14T22:13:20.123Z",
    }


def test_special_files_are_listed_and_not_opened(root: Root, ws: Path) -> None:
    os.mkfifo(ws / "fifo")
    with socket.socket(socket.AF_UNIX) as server, _inside(ws):
        server.bind("socket")
    assert paths(listed(root, metadata=True)) == ["fifo", "socket"]


def test_names_that_are_not_utf8_are_shown_escaped_and_sorted_as_shown(root: Root) -> None:
    for name in (b"z\xff", b"zz", b"new\nline"):
        (Path(os.fsdecode(os.fsencode(root.path) + b"/" + name))).touch()
    result = listed(root, metadata=True)
    assert paths(result) == ["new\nline", "z\\xff", "zz"]
    assert paths(listed(root, limit=1, metadata=True)) == ["new\nline"]


@pytest.mark.parametrize(
    ("path", "error"),
    [
        ("missing", FileNotFound),
        ("missing/deeper", FileNotFound),
        ("file", InvalidArgument),
        ("fifo", InvalidArgument),
        ("out", PermissionDenied),
        ("..", PermissionDenied),
    ],
)
def test_a_start_that_cannot_be_listed(root: Root, ws: Path, path: str, error: type[Exception]) -> None:
    (ws / "file").touch()
    os.mkfifo(ws / "fifo")
    (ws / "out").symlink_to("/")
    with pytest.raises(error):
        listed(root, path, recursive=True)


def test_a_file_as_start_points_to_read_file(root: Root, ws: Path) -> None:
    (ws / "file").touch()
    with pytest.raises(InvalidArgument) as caught:
        listed(root, "file")
    assert "readFile" in caught.value.text


def test_depth_below_one_is_refused(root: Root) -> None:
    with pytest.raises(InvalidArgument):
        listed(root, recursive=True, max_depth=0)


def test_hidden_names_are_left_out(tmp_path: Path) -> None:
    class Hiding(OpenGuard):
        def hidden_names(self, folder: str) -> frozenset[str]:
            return frozenset({"state"} if folder == "a" else ())

    grow(tmp_path, {"a": {"state": {"token": b""}, "b": b""}, "state": b""})
    root = Root(str(tmp_path), guard=Hiding(), journal=NoJournal())
    assert paths(listed(root, recursive=True)) == ["a", "a/b", "state"]
    root.close()


def test_depth_costs_no_descriptors(root: Root, ws: Path) -> None:
    depth = walking.MAX_OPEN_FOLDERS + 50
    (ws / "/".join("d" * depth)).mkdir(parents=True)
    before = len(os.listdir("/proc/self/fd"))
    result = listed(root, recursive=True, limit=1000)
    assert result.total_found == len(result.files) == depth
    assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.parametrize("newest_first", [False, True])
def test_the_callers_own_limit_replaces_the_usual_one(
    root: Root, ws: Path, monkeypatch: pytest.MonkeyPatch, newest_first: bool
) -> None:
    grow(ws, {f"f{number}": b"" for number in range(9)})
    for own, shown in [(2, 2), (7, 7), (9, 9), (10**9, 9), (None, 5)]:
        result = listed(root, limit=5, own_limit=own, newest_first=newest_first)
        assert (len(result.files), result.total_found, result.is_truncated) == (shown, 9, shown < 9)
    monkeypatch.setattr(list_folder, "MAX_LISTED_ENTRIES", 6)
    assert len(listed(root, limit=5, own_limit=7, newest_first=newest_first).files) == 6
    with pytest.raises(InvalidArgument):
        listed(root, own_limit=0)


def test_the_newest_first_and_those_of_one_time_by_path(root: Root, ws: Path) -> None:
    grow(ws, {"b": b"", "a": b"12", "d": {"c": b"", "new": b""}})
    now = 1_700_000_000_000_000_000
    for name, time in [("b", now), ("a", now), ("d/c", now + 1), ("d/new", now + 10**9), ("d", now - 1)]:
        os.utime(ws / name, ns=(0, time))
    result = listed(root, recursive=True, newest_first=True, metadata=True)
    assert paths(result) == ["d/new", "d/c", "a", "b", "d"]
    assert [entry.is_directory for entry in result.files] == [False, False, False, False, True]
    assert [entry.metadata.size for entry in result.files[:4] if entry.metadata] == [0, 0, 2, 0]
    result = listed(root, recursive=True, newest_first=True, own_limit=2)
    assert (paths(result), result.total_found, result.is_truncated) == (["d/new", "d/c"], 5, True)
    assert result.files[0].metadata is None
    assert paths(listed(root, newest_first=True)) == ["a", "b", "d"]


@settings(max_examples=60, deadline=None)
@given(trees, st.integers(1, 12), st.sampled_from([None, 1, 2, 3]), st.booleans(), includes, st.randoms())
def test_the_same_as_a_reference(
    tree: Tree, limit: int, depth: int | None, use_openat2: bool, include: tuple[str, ...] | None, chance: Random
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        grow(Path(folder), tree)
        expected = _reference(folder, depth, {"dist", "build"}, include)
        times = {path: chance.choice([0, 1, 1_700_000_000_000_000_001, 1_700_000_000_000_000_002]) for path in expected}
        for path, time in times.items():
            os.utime(os.path.join(folder, path), ns=(0, time))
        newest = sorted(expected, key=lambda path: (-times[path], path))
        root = Root(folder, guard=OpenGuard(), journal=NoJournal(), use_openat2=use_openat2)
        try:
            options = {"recursive": True, "max_depth": depth, "include": include}
            results = [
                listed(root, limit=limit, **options),
                listed(root, own_limit=limit, newest_first=True, **options),
            ]
        finally:
            root.close()
        assert [paths(result) for result in results] == [expected[:limit], newest[:limit]]
        for result in results:
            assert result.total_found == len(expected)
            assert result.is_truncated == (len(expected) > limit)


def _reference(folder: str, depth: int | None, excluded: set[str], include: tuple[str, ...] | None) -> list[str]:
    found = []
    for base, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if name not in excluded]
        names = folders + files if include is None else files
        found += [os.path.relpath(os.path.join(base, name), folder) for name in names]
    return sorted(path for path in found if (depth is None or path.count("/") < depth) and is_selected(path, include))


class _inside:
    """A socket's path must be short, so it is bound from inside its folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __enter__(self) -> None:
        self._before = os.getcwd()
        os.chdir(self._folder)

    def __exit__(self, *_: object) -> None:
        os.chdir(self._before)
