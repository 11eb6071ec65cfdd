"""The remembered findings of walks: with them, a search finds what a search without them finds."""

from __future__ import annotations

import os
import tempfile
import time
from contextlib import closing, suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.budgets import limit_examples
from tests.support.guards import NoJournal
from wap_kernel.files.contained.root import Root
from wap_kernel.model.command import Deadline
from wap_kernel.model.policy import FilesystemPolicy, Policy
from wap_kernel.policy.effective import EffectivePolicy
from wap_kernel.policy.paths import mask_index
from wap_kernel.policy.paths.guard import PolicyGuard
from wap_kernel.policy.paths.mask_index import FolderMasks, MaskIndex
from wap_kernel.policy.paths.protected import ProtectedPaths
from wap_kernel.policy.paths.sandbox_masks import Masks, find_masks

RACY_NS = 20_000_000
"""More than a tick of the filesystem's clock, and less than the usual time, for which the test would wait."""
RULES = PolicyGuard(
    ProtectedPaths(hidden=frozenset({("state",)}), read_only=frozenset({(".bashrc",), ("a", ".bashrc")})),
    EffectivePolicy((Policy(filesystem=FilesystemPolicy(denied_paths=(".env", "secret/**"))),)),
)
FIXED = (".bashrc", "a/.bashrc", "state")
NAMES = ("a", "b", ".env", "secret", ".bashrc", ".git", "hooks", "HEAD", "config", "state", "x")
PATHS = st.lists(st.sampled_from(NAMES), min_size=1, max_size=3).map("/".join)
STEPS = st.one_of(
    st.tuples(st.just("settle")),
    st.tuples(st.sampled_from(["file", "folder", "remove", "link", "pipe"]), PATHS),
    st.tuples(st.just("rename"), PATHS, PATHS),
    st.tuples(st.just("chmod"), PATHS, st.sampled_from([0o000, 0o300, 0o500, 0o755])),
)


def settle() -> None:
    """Wait until the folders as they are now are old enough to be remembered."""
    until = time.time_ns() + RACY_NS
    while time.time_ns() <= until:
        time.sleep(0.001)


def perform(root: Path, kind: str, *arguments: str | int) -> None:
    """Perform a step, as far as it is possible."""
    paths = [root / argument for argument in arguments if isinstance(argument, str)]
    with suppress(OSError):
        match kind:
            case "settle":
                settle()
            case "file":
                paths[0].touch(exist_ok=False)
            case "folder":
                paths[0].mkdir(parents=True)
            case "link":
                paths[0].symlink_to("x")
            case "pipe":
                os.mkfifo(paths[0])
            case "rename":
                paths[0].rename(paths[1])
            case "chmod" if isinstance(mode := arguments[-1], int):
                paths[0].chmod(mode, follow_symlinks=False)
            case "remove" if paths[0].is_dir() and not paths[0].is_symlink():
                paths[0].rmdir()
            case "remove":
                paths[0].unlink()


def find(root: Root, index: MaskIndex | None) -> Masks:
    return find_masks(root, RULES, FIXED, Deadline(60), network=False, is_read_only=False, index=index)


@given(steps=st.lists(STEPS, max_size=12))
@limit_examples(60)
def test_an_indexed_search_finds_what_a_fresh_one_finds(steps: list[tuple[str, ...]]) -> None:
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as name:
        patch.setattr(mask_index, "RACY_NS", RACY_NS)
        with closing(Root(name, guard=RULES, journal=NoJournal())) as root:
            index = MaskIndex(root.fd)
            for step in steps:
                perform(Path(name), *step)
                assert find(root, index) == find(root, None)
            for folder, folders, _ in os.walk(name):
                for each in folders:
                    os.chmod(os.path.join(folder, each), 0o700, follow_symlinks=False)


def test_a_folder_is_listed_again_only_when_it_has_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mask_index, "RACY_NS", RACY_NS)
    descriptor = os.open(tmp_path, os.O_RDONLY)
    listed: list[str] = []

    def list_folder(path: str) -> FolderMasks:
        listed.append(path)
        return FolderMasks(folders=tuple(sorted(os.listdir(tmp_path))))

    try:
        folders = MaskIndex(descriptor).open("rules")
        folders.find(".", list_folder)
        folders.find(".", list_folder)
        assert listed == [".", "."], "it may still change within the same tick"
        settle()
        folders.find(".", list_folder)
        folders.find(".", list_folder)
        assert listed == [".", ".", "."]
        (tmp_path / "new").touch()
        found = folders.find(".", list_folder)
        assert found is not None and found.folders == ("new",)
    finally:
        os.close(descriptor)
