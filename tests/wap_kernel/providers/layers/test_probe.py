"""Where layers can lie: in the state folder, elsewhere, or nowhere, with the reason."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.process_nursery import PROJECT
from tests.support.provider_workspace import CONFINING, MakeScene, Scene
from wap_kernel.providers.layers import probe
from wap_kernel.providers.layers.probe import find_layer_folder


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "ws").mkdir()
    return tmp_path / "ws"


@pytest.fixture
def fallback(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "fallback").mkdir()
    monkeypatch.setattr(probe, "FALLBACKS", (str(tmp_path / "fallback"),))
    return tmp_path / "fallback"


@pytest.fixture
def unfit(tmp_path: Path) -> Path:
    """A state folder in which nothing can be made."""
    (tmp_path / "state").touch()
    return tmp_path / "state"


def test_the_state_folder_is_the_first_choice(root: Path, tmp_path: Path) -> None:
    found = find_layer_folder(str(root), str(tmp_path / "state"))
    if found.folder is None:
        pytest.skip(found.detail)
    assert found.folder == str(tmp_path / "state/layers")
    assert found.detail.startswith(f"overlayfs in {found.folder}, mounted")
    assert os.listdir(found.folder) == os.listdir(root) == []


def test_another_place(root: Path, unfit: Path, fallback: Path) -> None:
    found = find_layer_folder(str(root), str(unfit))
    if found.folder is None:
        pytest.skip(found.detail)
    assert os.path.dirname(found.folder) == str(fallback)
    assert os.stat(found.folder).st_mode & 0o777 == 0o700
    assert find_layer_folder(str(root), str(unfit)).folder == found.folder


@pytest.mark.parametrize("planted", ["link", "open", "file"])
def test_a_place_that_somebody_else_prepared_is_not_taken(
    root: Path, unfit: Path, fallback: Path, tmp_path: Path, planted: str
) -> None:
    taken = find_layer_folder(str(root), str(unfit), is_trial=True).folder
    if taken is None:
        pytest.skip("no layer can be mounted here")
    assert not os.path.exists(taken), "a trial leaves nothing behind"
    if planted == "link":
        (tmp_path / "theirs").mkdir(mode=0o700)
        os.symlink(tmp_path / "theirs", taken)
    elif planted == "open":
        os.mkdir(taken)
        os.chmod(taken, 0o777)
    else:
        Path(taken).touch()
    found = find_layer_folder(str(root), str(unfit))
    assert found.folder is None
    assert found.detail.startswith("no layer can be mounted: ")
    assert os.path.lexists(taken), "what others made is left to them"


def test_no_place_at_all(root: Path, unfit: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe, "FALLBACKS", ())
    found = find_layer_folder(str(root), str(unfit))
    assert found.folder is None
    assert "no layer can be mounted: " in found.detail and str(unfit) in found.detail


NESTED = """
import subprocess, sys
from pathlib import Path
from wap_kernel.providers.layers import probe
base = Path(sys.argv[1])
for name in ("lower", "upper", "work", "state", "fallback", "ws"):
    (base / name).mkdir()
options = f"lowerdir={base}/lower,upperdir={base}/upper,workdir={base}/work"
subprocess.run(["mount", "-t", "overlay", "overlay", "-o", options, base / "state"], check=True)
probe.FALLBACKS = (str(base / "fallback"),)
print(probe.find_layer_folder(str(base / "ws"), str(base / "state")).folder)
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount")
def test_a_state_folder_on_an_overlay(tmp_path: Path) -> None:
    """As in a container: an overlay carries no second one."""
    command = ["unshare", "--mount", sys.executable, "-c", NESTED, str(tmp_path)]
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(str(tmp_path / "fallback/wap-0-"))


@pytest.mark.parametrize("name", CONFINING)
def test_layers_in_the_workspace_are_hidden(
    make_scene: MakeScene, name: str, tmp_path: Path, unfit: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the workspace holds the folder for temporary files."""
    monkeypatch.setattr(probe, "FALLBACKS", (str(tmp_path / "ws"),))
    scene: Scene = make_scene(name, state=unfit)
    other = scene.layers.create()
    Path(other.upper, "secret").touch()
    outcome, changes = scene.run_on_layer("find . -name secret; rm -rf ./*; echo done")
    assert outcome.stdout == "done\n"
    assert len(changes) == 0
    other.discard()
