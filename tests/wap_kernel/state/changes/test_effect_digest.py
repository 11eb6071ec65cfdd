"""Digests of effects: the same as long as the same would be applied."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.change_workspace import IS_ROOT, ChangeWorkspace

SCENE = "mkdir -p moved/deep data other; echo 1 | tee moved/deep/a data/a other/b > f"
SCRIPT = "mv moved new; rm -r data; echo 2 > f; echo made > made"


@pytest.fixture
def workspace(tmp_path: Path) -> Iterator[ChangeWorkspace]:
    workspace = ChangeWorkspace(tmp_path / "ws", tmp_path / "state")
    workspace.run_directly(SCENE)
    yield workspace
    workspace.close()


def test_what_is_beside_the_effect_does_not_count(workspace: ChangeWorkspace) -> None:
    layer = workspace.run_on_layer(SCRIPT)
    before = workspace.applier.digest(str(layer.upper), layer.read())
    workspace.run_directly("echo 2 > other/b; mkdir beside")
    assert workspace.applier.digest(str(layer.upper), layer.read()) == before


@pytest.mark.parametrize("line", ["mv other data/other", "touch data/n", "rm data/a", "mv data d2; mv other data"])
def test_what_a_command_deletes_counts(workspace: ChangeWorkspace, line: str) -> None:
    layer = workspace.run_on_layer(SCRIPT)
    before = workspace.applier.digest(str(layer.upper), layer.read())
    workspace.run_directly(line)
    assert workspace.applier.digest(str(layer.upper), layer.read()) != before


@pytest.mark.skipif(not IS_ROOT, reason="folders are moved as a whole for root only")
@pytest.mark.parametrize(
    "line",
    ["echo 2 > moved/deep/a", "touch moved/n", "mv other moved/deep", "chmod 700 moved/deep", "mv moved m; mv m moved"],
)
def test_what_moves_with_a_folder_counts(workspace: ChangeWorkspace, line: str) -> None:
    layer = workspace.run_on_layer(SCRIPT)
    before = workspace.applier.digest(str(layer.upper), layer.read())
    workspace.run_directly(line)
    assert workspace.applier.digest(str(layer.upper), layer.read()) != before


def test_the_content_of_a_new_file_counts_whatever_its_size_and_time_are(workspace: ChangeWorkspace) -> None:
    layer = workspace.run_on_layer(SCRIPT)
    before = workspace.applier.digest(str(layer.upper), layer.read())
    old = (layer.upper / "made").stat()
    while (layer.upper / "made").stat().st_ctime_ns == old.st_ctime_ns:  # the clock of the filesystem is coarse
        subprocess.run(["sh", "-c", "printf 'evil\\n' > made"], cwd=layer.upper, check=True)
    os.utime(layer.upper / "made", ns=(old.st_atime_ns, old.st_mtime_ns))
    assert workspace.applier.digest(str(layer.upper), layer.read()) != before
