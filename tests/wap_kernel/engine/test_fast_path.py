"""Plain operations: the short way says what the long way says, and is taken only where nothing but the path counts."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.support.run_workspace import ASKING, Scene, play
from wap_kernel.engine.fast_path import FastPath
from wap_kernel.files.contained.root import Root
from wap_kernel.model.operations import ReadFile
from wap_kernel.model.policy import Policy
from wap_kernel.model.results import Limits
from wap_kernel.policy.current import BoundPolicy
from wap_kernel.policy.effective import EffectivePolicy
from wap_kernel.policy.parse import merge
from wap_kernel.policy.paths.guard import PolicyGuard
from wap_kernel.policy.paths.protected import protected_paths
from wap_kernel.state.leases import Lease

RULES = {"filesystem": {"deniedPaths": ["*.key"], "maxFileSize": 5000}}
"""Of every policy here."""
PLAIN = merge(ASKING, RULES)
ASKS = merge(PLAIN, {"confirmationRequired": ["moveFile"]})
"""Says nothing else of what is done here, but has something to ask, so that nothing is plain."""


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    root = tmp_path / "ws"
    (root / "folder").mkdir(parents=True)
    (root / "text.txt").write_text("grün\nblau\n")
    (root / "folder" / "deep.txt").write_text("deep")
    (root / "empty").write_bytes(b"")
    (root / "latin.txt").write_bytes(b"gr\xfcn")
    (root / "binary").write_bytes(b"\0\1\2")
    (root / "large").write_bytes(b"x" * 5001)
    (root / "secret.key").write_text("secret")
    (root / "link.txt").symlink_to("text.txt")
    (root / "way").symlink_to("folder")
    (root / "out").symlink_to("/etc/hostname")
    (root / "to.txt").symlink_to("secret.key")
    os.mkfifo(root / "pipe")
    return Scene(root, tmp_path / "state")


READS: list[dict[str, Any]] = [
    *({"path": path} for path in ("text.txt", "folder/deep.txt", "./folder/deep.txt", "empty", "latin.txt", "binary")),
    *({"path": path} for path in ("large", "secret.key", "link.txt", "way/deep.txt", "out", "to.txt", "pipe")),
    *({"path": path} for path in ("folder", "nothing", "nothing/below", "text.txt/below", ".git/config")),
    *({"path": path, "encoding": "base64"} for path in ("text.txt", "binary", "empty")),
]


def _events(scene: Scene, policy: Policy, operations: list[dict[str, Any]]) -> list[dict[str, Any]]:
    scene.options["policy"] = policy
    found: list[dict[str, Any]] = []

    async def scenario(scene: Scene) -> None:
        message = await scene.run(*operations)
        found.extend({**event, "timestamp": ""} for event in message["events"])

    play(scene, scenario)
    return found


def test_a_plain_read_says_what_any_other_read_says(scene: Scene) -> None:
    reads = [{"type": "readFile", **read} for read in READS]
    short, long = _events(scene, PLAIN, reads), _events(scene, ASKS, reads)
    assert short == long
    assert [list(event) for event in short] == [list(event) for event in long], "also in the same order"
    assert {event["success"] for event in short if "success" in event} == {True, False}


@pytest.fixture
def plain(scene: Scene, tmp_path: Path) -> Iterator[FastPath]:
    with closing(Lease(str(tmp_path / "state"), "test")) as lease:
        protected = protected_paths(str(scene.root), str(tmp_path / "state"))
        with closing(Root(str(scene.root), guard=protected, journal=lease)) as root:
            effective = EffectivePolicy((PLAIN,))
            guard = PolicyGuard(protected, effective)
            yield FastPath(root, BoundPolicy(effective, guard, guard), Limits())


@pytest.mark.parametrize("path", ["text.txt", "folder/deep.txt", "empty", "latin.txt"])
def test_what_is_plain(plain: FastPath, scene: Scene, path: str) -> None:
    whole = plain.read(ReadFile(path=path))
    assert whole is not None
    assert whole.content.encode() == (scene.root / path).read_bytes() or whole.is_lossy


@pytest.mark.parametrize(
    "operation",
    [
        *(ReadFile(path=path) for path in ("link.txt", "way/deep.txt", "out", "to.txt", "secret.key", ".git/config")),
        *(ReadFile(path=path) for path in ("large", "binary", "folder", "pipe", "nothing", "folder/../text.txt")),
        *(ReadFile(path="text.txt", start_line=1), ReadFile(path="folder/deep.txt", within="folder")),
    ],
    ids=str,
)
def test_what_is_not_plain(plain: FastPath, operation: ReadFile) -> None:
    before = len(os.listdir("/proc/self/fd"))
    assert plain.read(operation) is None
    assert len(os.listdir("/proc/self/fd")) == before, "a descriptor was left open"
