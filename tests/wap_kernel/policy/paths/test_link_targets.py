"""Where protected names that are links lead: after any change, what a search from the start would find."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from wap_kernel.policy.paths.link_targets import LinkTargets

NAMES = {"a": 1, "b": 2, "d/a": 1, "d/b": 2, "d/e/a": 1, "s": 1}


def watch(folder: Path) -> LinkTargets:
    links = LinkTargets([str(folder)])
    for name, level in NAMES.items():
        links.add(str(folder / name), level, is_searched=name == "s")
    return links


def test_links_on_the_way_and_what_they_lead_to(tmp_path: Path) -> None:
    (tmp_path / "x/y").mkdir(parents=True)
    (tmp_path / "a").symlink_to("x/one")
    (tmp_path / "x/one").symlink_to("y/two")
    (tmp_path / "d").symlink_to("x")
    (tmp_path / "s").mkdir()
    (tmp_path / "s/any").symlink_to("../x/three")
    links = watch(tmp_path)
    found = {os.path.relpath(path, tmp_path): level for path, level in links.find().items()}
    missing = {"x/a": 1, "x/b": 2, "x/e/a": 1}  # names below a link count whether or not they exist
    assert found == {"a": 1, "x/one": 1, "x/y/two": 1, **missing, "s/any": 1, "x/three": 1}
    assert links.find() is links.find()
    (tmp_path / "x/y/two").symlink_to("../../z")
    assert str(tmp_path / "z") in links.find()
    (tmp_path / "a").unlink()
    assert str(tmp_path / "z") not in links.find()


def test_names_that_lie_elsewhere_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "ws").mkdir()
    (tmp_path / "a").symlink_to("ws/x")
    assert watch(tmp_path / "ws").find() == {}
    links = LinkTargets([str(tmp_path / "ws")])
    links.add(str(tmp_path / "a"), 1)
    assert links.find() == {}


def test_a_name_in_a_folder_that_is_a_link_to_the_watched_one(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "home").symlink_to("real")
    (tmp_path / "real/.bashrc").symlink_to("dotfiles")
    links = LinkTargets([str(tmp_path / "real")])
    links.add(str(tmp_path / "home/.bashrc"), 1)
    assert str(tmp_path / "real/dotfiles") in links.find()


def test_a_folder_of_many_entries(tmp_path: Path) -> None:
    links = LinkTargets([str(tmp_path)])
    for number in range(40):
        links.add(str(tmp_path / f"name{number}"), 1)
    for number in range(400):
        (tmp_path / f"other{number}").touch()
    (tmp_path / "name7").symlink_to("target")
    assert set(links.find()) == {str(tmp_path / "name7"), str(tmp_path / "target")}


PATHS = st.sampled_from(["a", "b", "d", "d/a", "d/b", "d/e", "d/e/a", "x", "x/a", "x/e", "s", "s/l"])
STEPS = st.lists(st.tuples(st.sampled_from(["link", "folder", "file", "remove", "move"]), PATHS, PATHS), max_size=12)


@given(STEPS)
def test_what_is_cached_is_what_a_search_from_the_start_finds(steps: list[tuple[str, str, str]]) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(os.path.realpath(name))
        links = watch(folder)
        for step, first, second in steps:
            change(folder, step, first, second)
            assert links.find() == watch(folder).find()


def change(folder: Path, step: str, first: str, second: str) -> None:
    path = folder / first
    try:
        if step == "link":
            path.symlink_to(os.path.relpath(folder / second, path.parent))
        elif step == "folder":
            path.mkdir()
        elif step == "file":
            path.touch()
        elif step == "move":
            path.rename(folder / second)
        elif path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
    except OSError:
        pass
