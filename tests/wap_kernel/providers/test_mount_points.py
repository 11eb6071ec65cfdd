"""No mount point appears outside of the root, whatever is exchanged for a link while sandboxes start."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.support.budgets import choose_budget
from tests.support.ordinary_user import open_user_folder, run_tests
from tests.support.provider_workspace import CONFINING, Scene, skip_unless_works
from tests.support.rename_attacker import swapping
from wap_kernel.model.errors import Conflict, ProviderUnavailable

STARTS = {"bubblewrap": choose_budget(suite=40, soak=2000), "gvisor": choose_budget(suite=8, soak=200)}
"""Sandboxes to start; with the mounts that bubblewrap makes by path, the first was led astray at the 13th of 94."""


@pytest.mark.soak
@pytest.mark.parametrize("isolation", ["shared", "layer"])
@pytest.mark.parametrize("name", CONFINING)
def test_folders_that_are_exchanged_for_links_while_sandboxes_start(tmp_path: Path, name: str, isolation: str) -> None:
    """Sandboxes see the host's files below /oldroot while bubblewrap makes mounts; it creates what is missing."""
    skip_unless_works(name)
    outside, root = tmp_path / "outside", tmp_path / "ws"
    outside.mkdir()
    (root / "deep/folder").mkdir(parents=True)
    for path in (root / "deep/.env", root / "deep/folder/settings"):
        path.write_text("the secret")
    (root / "way out").symlink_to(f"/oldroot{outside}")
    scene = Scene(name, root, state=tmp_path / "state")
    guards = {"hidden": ("deep/.env", "deep/folder/settings"), "pinned": ("deep/folder",)}
    endings: set[str] = set()
    try:
        with swapping(root / "deep", root / "way out"):
            for _ in range(STARTS[name]):
                layer = scene.layers.create() if isolation == "layer" else None
                try:
                    scene.run("true", layer=layer, **guards)  # type: ignore[arg-type]
                    endings.add("ran")
                except (Conflict, ProviderUnavailable):
                    endings.add("refused")
                finally:
                    if layer is not None:
                        layer.discard()
    finally:
        scene.close()
    assert endings == {"ran", "refused"}, "sandboxes were started while it was a link, and while it was none"
    assert os.listdir(outside) == []
    assert sorted(os.listdir(tmp_path)) == ["outside", "state", "ws"]
    assert sorted(os.listdir(root)) == ["deep", "way out"]


@pytest.mark.soak
def test_as_an_ordinary_user() -> None:
    skip_unless_works("bubblewrap")
    with open_user_folder() as folder:
        run_tests(folder, __file__, "-k", "links and bubblewrap")
