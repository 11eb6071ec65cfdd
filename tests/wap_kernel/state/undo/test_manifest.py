"""Manifests: what a command changed is told by hard facts, and nothing else is taken for a change."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.undo_workspace import NoJournal
from wap_kernel.files.contained.root import Root
from wap_kernel.files.interface import FileKind, LinkStat
from wap_kernel.model.command import Deadline
from wap_kernel.policy.paths.protected import ProtectedPaths
from wap_kernel.state.undo.manifest import (
    RACY_NS,
    Manifest,
    iterate_differences,
    list_changed_exclusions,
    list_unreadable,
    take_manifest,
    take_tree,
)


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Root]:
    (tmp_path / "ws").mkdir()
    guard = ProtectedPaths(frozenset({("hidden",)}), frozenset())
    root = Root(str(tmp_path / "ws"), guard=guard, journal=NoJournal())
    yield root
    root.close()


def taken(root: Root, bound: int = 1000, known: Manifest | None = None) -> Manifest:
    return take_manifest(root, Deadline(10), bound=bound, known=known)


def run(root: Root, script: str) -> None:
    subprocess.run(["bash", "-ec", script], cwd=root.path, check=True, capture_output=True)


def changed(before: Manifest, after: Manifest) -> dict[str, bool]:
    return {difference.path: difference.is_certain for difference in iterate_differences(before, after)}


def test_what_is_left_out_is_stated(root: Root, tmp_path: Path) -> None:
    run(
        root,
        """
        mkdir -p a/node_modules/x .git/objects venv conda/conda-meta hidden b/sub
        touch a/f a/node_modules/x/f venv/pyvenv.cfg venv/f hidden/f b/sub/.git b/sub/f node_modules
        ln -s ../outside out; mkfifo pipe
        """,
    )
    manifest = taken(root)
    assert set(manifest.entries) == {"a", "a/f", "b", "b/sub", "b/sub/f", "out", "pipe", "node_modules"}
    assert manifest.excluded == {
        **{"a/node_modules": "node_modules", ".git": ".git", "b/sub/.git": ".git"},
        **{"venv": "environment", "conda": "environment"},
    }
    assert manifest.fingerprints.keys() == manifest.excluded.keys()
    assert manifest.entries["out"].target == "../outside"
    assert manifest.entries["pipe"].kind is FileKind.SPECIAL


def test_differences_of_every_kind(root: Root) -> None:
    run(root, "mkdir d e; for f in mode same touched grown gone kind; do echo 1 > $f; done; ln -s a link; ln -s a kept")
    run(root, "find . -exec touch -h -d '2001-01-01' {} +")
    before = taken(root)
    # Everything was made a moment ago, so only contents could tell; here it is the facts that are tested.
    before.taken_ns = time.time_ns() + 10 * RACY_NS
    run(
        root,
        "chmod 600 mode; touch touched; echo 1 >> grown; rm gone kind; mkdir kind new; ln -sfn b link; chmod 700 d",
    )
    run(root, "touch new/f")
    assert changed(before, taken(root, known=before)) == {
        **{"mode": True, "touched": False, "grown": False, "gone": True, "kind": True, "link": True},
        **{"d": True, "new": True, "new/f": True},
    }


def test_a_file_that_changed_shortly_before_is_compared_by_content(root: Root) -> None:
    run(root, "echo 1 > f; ln -s f l; mkdir d")
    before = taken(root)
    assert changed(before, before) == {"f": False}
    before.taken_ns += 2 * RACY_NS
    assert changed(before, before) == {}


def test_a_mark_put_into_a_folder_does_not_take_it_out_of_reach(root: Root) -> None:
    run(root, "mkdir -p src; echo 1 > src/f")
    before = taken(root)
    run(root, "touch src/pyvenv.cfg; mkdir src/conda-meta; rm src/f; mkdir -p new/conda-meta")
    after = taken(root, known=before)
    assert changed(before, after) == {"src/f": True, "src/pyvenv.cfg": True, "src/conda-meta": True}
    assert after.excluded == {"new": "environment"}


def test_folders_beyond_the_bound_are_left_out_both_times(root: Root) -> None:
    run(root, "mkdir big small; touch small/f; for n in $(seq 20); do touch big/$n; done")
    before = taken(root, bound=10)
    assert before.excluded == {"big": "bound"} and set(before.entries) == {"small", "small/f"}
    run(root, "rm -r big/*; touch small/g")
    assert changed(before, taken(root, bound=20, known=before)).keys() - {"small/f"} == {"small/g"}


def test_what_is_in_a_folder_that_could_not_be_read_is_never_new(root: Root) -> None:
    """By any user but root."""
    folder = LinkStat(FileKind.FOLDER, 1, 1, 0, 0, 0, 0o40000)
    before = Manifest(entries={"d": folder}, walked={"."}, excluded={"d": "closed"})
    after = Manifest(entries={"d": folder._replace(mode=0o40700), "d/f": folder._replace(inode=2)}, walked={".", "d"})
    assert changed(before, after) == {"d": True}
    assert changed(after, before) == {"d": True}


def test_a_change_of_git_is_told_and_a_look_is_none(root: Root) -> None:
    git = "git -c user.name=n -c user.email=e@x"
    run(root, f"git init -q sub; echo 1 > sub/f; cd sub; git add f; {git} commit -qm 1")
    before = taken(root)
    run(root, "cd sub; git log -1; git cat-file -p HEAD; GIT_OPTIONAL_LOCKS=0 git status")
    assert list_changed_exclusions(before, taken(root, known=before)) == []
    run(root, f"cd sub; {git} commit -q --allow-empty -m 2")
    assert list_changed_exclusions(before, taken(root, known=before)) == ["sub/.git"]
    run(root, "rm -rf sub/.git; git init -q new")
    assert list_changed_exclusions(before, taken(root, known=before)) == ["new/.git", "sub/.git"]


def test_a_change_of_packages_is_told_though_its_traces_are_removed(root: Root) -> None:
    run(root, "mkdir -p node_modules/m venv; touch venv/pyvenv.cfg; echo 1 > node_modules/m/f")
    before = taken(root)
    assert list_changed_exclusions(before, taken(root, known=before)) == []
    run(root, "touch -r node_modules/m/f ref; echo 2 > node_modules/m/f; touch -r ref node_modules/m/f; rm ref")
    assert list_changed_exclusions(before, taken(root, known=before)) == ["node_modules"]
    run(root, "mkdir -p venv/lib/x; touch venv/lib/x/f")
    assert list_changed_exclusions(before, taken(root, known=before)) == ["node_modules", "venv"]


def test_what_would_take_too_long_to_compare_may_have_changed(root: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wap_kernel.state.undo.manifest.MAX_FINGERPRINTED", 3)
    run(root, "mkdir node_modules git; touch node_modules/{1,2,3,4}; git init -q git")
    before = taken(root)
    assert list_changed_exclusions(before, taken(root, known=before)) == ["node_modules"]


def test_what_was_in_a_folder_that_was_closed_is_out_of_sight() -> None:
    folder = LinkStat(FileKind.FOLDER, 1, 1, 0, 0, 0, 0o40700)
    before = Manifest(
        entries={"d": folder, "d/e": folder, "d/e/f": folder, "da": folder}, walked={".", "d", "d/e", "da"}
    )
    after = Manifest(entries={"d": folder, "da": folder}, walked={".", "da"}, excluded={"d": "closed"})
    assert list_unreadable(before, after) == ["d/e", "d/e/f"]
    assert list_unreadable(after, after) == []


def test_a_tree_is_taken_whole(root: Root) -> None:
    run(root, "mkdir -p t/node_modules/x t/.git; touch t/node_modules/x/f; ln -s /etc t/away")
    found, is_all = take_tree(root, "t", Deadline(10), bound=100)
    assert set(found) == {"t/node_modules", "t/node_modules/x", "t/node_modules/x/f", "t/.git", "t/away"} and is_all
    assert take_tree(root, "t", Deadline(10), bound=2)[1] is False


def test_names_that_are_not_text_are_names_too(root: Root) -> None:
    name = os.fsdecode(b"caf\xe9")
    (Path(root.path) / name).write_text("x")
    assert set(taken(root).entries) == {name}
